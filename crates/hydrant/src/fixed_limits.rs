//! Keys of the configuration file that were settings before version 0.2 and are constants now.
//!
//! In: a file that was refused. Out: the first of these keys in it, for the error.
//! Not here: the limits themselves, which are fields of the configurations of their crates.

use std::fmt;

/// A limit that is a constant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FixedLimit {
    /// The former key, with its tables.
    key: &'static str,
    value: u64,
}

impl fmt::Display for FixedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value } = self;
        write!(f, "{key} is a constant since 0.2.0 (its value is {value}): remove the key")
    }
}

/// Returns the first fixed limit that has a key in a TOML text.
pub(crate) fn find_key(text: &str) -> Option<FixedLimit> {
    let file = text.parse::<toml::Table>().ok()?;
    fixed_limits().into_iter().find(|limit| has_key(&file, limit.key))
}

fn has_key(file: &toml::Table, key: &str) -> bool {
    match key.split_once('.') {
        None => file.contains_key(key),
        Some((table, key)) => {
            file.get(table).and_then(toml::Value::as_table).is_some_and(|table| has_key(table, key))
        }
    }
}

fn fixed_limits() -> Vec<FixedLimit> {
    let rpc = rpc_solana::Config::default();
    let pool = cpu_pool::Config::default();
    let pubsub = rpc_solana::pubsub::Config::default();
    let quic = ::tpu::Config::default();
    let grpc = ::grpc::Config::default();
    let limit = |key, value| FixedLimit { key, value };
    let count = |key, count: usize| FixedLimit { key, value: count as u64 };
    vec![
        count("rpc.list_header_bytes_max", rpc.list_header_bytes_max),
        count("rpc.inline_accounts_max", rpc.inline_accounts_max),
        limit("pool.slice_us", pool.slice_us),
        limit("pool.nice", pool.nice.into()),
        limit("pool.light.weight", pool.light.weight.into()),
        limit("pool.medium.weight", pool.medium.weight.into()),
        limit("pool.heavy.weight", pool.heavy.weight.into()),
        count("pubsub.set_tasks_max", pubsub.set_tasks_max),
        limit("pubsub.close_timeout_ms", pubsub.close_timeout_ms),
        limit("quic.window_max", quic.window_max.into()),
        limit("quic.window_min", quic.window_min.into()),
        limit("quic.receive_window_bytes", quic.receive_window_bytes.into()),
        limit("quic.stream_timeout_ms", quic.stream_timeout_ms),
        limit("quic.broken_streams_max", quic.broken_streams_max.into()),
        count("quic.handshakes_max", quic.handshakes_max),
        count("quic.retry_above", quic.retry_above),
        limit("quic.handshake_timeout_ms", quic.handshake_timeout_ms),
        count("quic.buffers_max", quic.buffers_max),
        limit("quic.gather_us", quic.gather_us),
        limit("quic.repeat_ms", quic.repeat_ms),
        count("quic.repeats_max", quic.repeats_max),
        limit("quic.hand_over_ms", quic.hand_over_ms),
        limit("grpc.handshake_timeout_ms", grpc.handshake_timeout_ms),
        limit("grpc.close_timeout_ms", grpc.close_timeout_ms),
        count("grpc.name_bytes_max", grpc.name_bytes_max),
        count("grpc.data_filters_max", grpc.data_filters_max),
        count("grpc.data_slices_max", grpc.data_slices_max),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_file::parse_toml;
    use crate::local::flags::DevFlags;

    #[test]
    fn every_fixed_limit_is_refused_with_its_value() {
        let limits = fixed_limits();
        assert_eq!(limits.len(), 27);
        for FixedLimit { key, value } in limits {
            let (table, name) = key.rsplit_once('.').expect("a table");
            let file = format!("io-threads = 2\n[{table}]\n{name} = {value}");
            let err = parse_toml(&file, DevFlags::from_toml).expect_err(key);
            let err = format!("{err:#}");
            let expected = format!("{key} is a constant since 0.2.0 (its value is {value})");
            assert!(err.contains(&expected) && err.contains("line 3"), "{err}");
        }
    }

    #[test]
    fn another_refusal_does_not_name_a_fixed_limit() {
        for file in ["[quic]\nshard = 2", "window_max = 1", "[pool]\nclient_heavy_max = \"x\""] {
            let err = parse_toml(file, DevFlags::from_toml).expect_err(file);
            assert!(!format!("{err:#}").contains("is a constant"), "{err:#}");
        }
    }

    #[test]
    fn a_table_without_fixed_limits_has_their_values() {
        let file = "[quic]\nshards = 2\n[pool.heavy]\ntasks_max = 9\n[grpc]\nthreads = 2";
        let tables = DevFlags::from_toml(file).expect("valid settings").node.tables;
        let quic = ::tpu::Config { shards: 2, ..::tpu::Config::default() };
        assert_eq!(tables.quic, quic);
        let mut pool = cpu_pool::Config::default();
        pool.heavy.tasks_max = 9;
        assert_eq!(tables.pool, pool);
        assert_eq!(tables.grpc.close_timeout_ms, ::grpc::Config::default().close_timeout_ms);
    }
}
