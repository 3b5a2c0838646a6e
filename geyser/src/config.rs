//! The configuration file: JSON that the validator reads too (`libpath`).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;
use serde_json::Value;

/// Defaults of the server that differ from those of a ledger of its own. A follower that starts from a snapshot needs the
/// slots since that snapshot. Events are batches here, so fewer of them wait.
const GRPC_DEFAULTS: [(&str, u64); 3] =
    [("replay_slots_max", 512), ("replay_bytes_max", 1 << 30), ("events_max", 64)];

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("read the plugin's configuration {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        err: io::Error,
    },
    /// The file is not what it must be. The text names the key.
    #[error("the plugin's configuration {path:?}: {err}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Where and why.
        err: serde_json::Error,
    },
}

/// Settings of the plugin.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The library, for the validator.
    pub libpath: PathBuf,
    /// The plugin's name in the validator. Default: `hydrant-geyser`.
    pub name: Option<String>,
    /// Where gRPC is served. Default: `127.0.0.1:10000`.
    #[serde(default = "default_address")]
    pub address: SocketAddr,
    /// Where `/metrics` is served. Default: nowhere.
    pub metrics_address: Option<SocketAddr>,
    /// Bytes of updates that wait for the plugin's thread. At this bound updates are dropped and all clients closed.
    /// Default: 256 MiB.
    #[serde(default = "default_queue_bytes_max")]
    pub queue_bytes_max: usize,
    /// Maximum number of updates in the queue. Default: 1,000,000.
    #[serde(default = "default_queue_updates_max")]
    pub queue_updates_max: usize,
    /// The gRPC server; the keys of `[grpc]` in Hydrant's configuration file.
    pub grpc: grpc::Config,
}

fn default_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 10_000))
}

const fn default_queue_bytes_max() -> usize {
    256 << 20
}

const fn default_queue_updates_max() -> usize {
    1_000_000
}

impl Config {
    /// Reads a configuration file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path)
            .map_err(|err| ConfigError::Read { path: path.to_owned(), err })?;
        Self::parse(&text).map_err(|err| ConfigError::Content { path: path.to_owned(), err })
    }

    fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let mut value: Value = serde_json::from_str(text)?;
        if let Value::Object(settings) = &mut value {
            let grpc = settings.entry("grpc").or_insert_with(|| Value::Object(Default::default()));
            if let Value::Object(grpc) = grpc {
                for (key, default) in GRPC_DEFAULTS {
                    grpc.entry(key).or_insert_with(|| default.into());
                }
            }
        }
        serde_json::from_value(value)
    }
}

#[cfg(test)]
mod tests {
    use super::Config;

    #[test]
    fn a_file_needs_no_more_than_the_library() {
        let config = Config::parse(r#"{"libpath": "/lib/x.so"}"#).expect("a configuration");
        assert_eq!(config.address.to_string(), "127.0.0.1:10000");
        assert_eq!(config.grpc.replay_slots_max, 512);
        assert_eq!(config.metrics_address, None);
    }

    #[test]
    fn a_setting_of_grpc_keeps_the_other_defaults() {
        let text = r#"{"libpath": "/lib/x.so", "grpc": {"replay_slots_max": 9}}"#;
        let config = Config::parse(text).expect("a configuration");
        assert_eq!((config.grpc.replay_slots_max, config.grpc.events_max), (9, 64));
    }

    #[test]
    fn an_unknown_key_is_named() {
        for text in [
            r#"{"libpath": "/lib/x.so", "adress": "127.0.0.1:1"}"#,
            r#"{"libpath": "/lib/x.so", "grpc": {"adress": 1}}"#,
        ] {
            let err = Config::parse(text).expect_err("unknown");
            assert!(err.to_string().contains("adress"), "{err}");
        }
    }
}
