//! The flags of `hydrant follow-kaspa`, and their texts in `--help`.
//!
//! Not here: those that other commands have too (`node::flags`).

use clap::Args;
use serde::Deserialize;

use crate::node::flags::{
    BoundFlags, ConfigFlags, ConsoleFlags, GrpcFlags, HistoryFlags, KeyFlags, LedgerFlags,
    ListenFlags, OutputFlags, RequestFlags, ServingFlags, TableSettings, ThreadFlags, file_or,
};
use crate::node::{NodeFlags, merge_by_field};

/// The name of the command.
pub(crate) const COMMAND: &str = "follow-kaspa";

/// The flags of `hydrant follow-kaspa`: those of a node that have a meaning for Kaspa, and its own. In the configuration
/// file the former are keys, and those of [`KaspaFollowerFlags`] are keys of the table `[follow-kaspa]`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct FollowKaspaFlags {
    #[arg(skip)]
    pub(crate) tables: TableSettings,
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
    #[command(flatten)]
    pub(crate) follower: KaspaFollowerFlags,
    #[command(flatten)]
    pub(crate) ledger: LedgerFlags,
    #[command(flatten)]
    pub(crate) history: HistoryFlags,
    #[command(flatten)]
    pub(crate) listen: ListenFlags,
    #[command(flatten)]
    pub(crate) keys: KeyFlags,
    #[command(flatten)]
    pub(crate) serving: ServingFlags,
    #[command(flatten)]
    pub(crate) threads: ThreadFlags,
    #[command(flatten)]
    pub(crate) requests: RequestFlags,
    #[command(flatten)]
    pub(crate) bounds: BoundFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// The flags of a followed chain of Kaspa, which are keys of the table `[follow-kaspa]`.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[command(group = file_or("allowed_pages", "allow_origin"))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct KaspaFollowerFlags {
    /// Follow the kaspad at this URL (ws://HOST:PORT) of wRPC in Borsh, and forward requests to it. Can be
    /// repeated: the first healthy one is followed.
    #[arg(long, value_name = "URL", required_unless_present = "config", help_heading = "Chain")]
    pub(crate) source: Vec<String>,
    /// Forward requests in JSON and over gRPC to the kaspad at this URL (ws://HOST:PORT) of wRPC in JSON. Can be
    /// repeated.
    #[arg(long, value_name = "URL", help_heading = "Chain")]
    pub(crate) json_source: Vec<String>,
    /// Follow this network: mainnet, testnet-NUMBER, simnet or devnet [default: mainnet].
    #[arg(long, value_name = "NETWORK", help_heading = "Chain")]
    pub(crate) network: Option<String>,
    /// Follow reorganizations that remove up to this many chain blocks, at most 1000 [default: 100].
    #[arg(long, value_name = "BLOCKS", help_heading = "Chain")]
    pub(crate) reorg_depth: Option<usize>,
    /// Without kaspa.snapshot in --ledger, import the UTXO set of the pruning point from this kaspad, by its port for
    /// other nodes. Can be repeated [default port: that of kaspad: 16111 for mainnet].
    #[arg(long, value_name = "HOST[:PORT]", help_heading = "Ledger")]
    pub(crate) import_peer: Vec<String>,
    /// Write the snapshot file in --ledger at this interval, and when the node ends [default: 600].
    #[arg(long, value_name = "SECONDS", help_heading = "Ledger")]
    pub(crate) snapshot_interval: Option<u64>,
    /// Serve wRPC in Borsh on this port; 0 uses a free port [default: that of kaspad: 17110 for mainnet].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) wrpc_borsh_port: Option<u16>,
    /// Serve wRPC in JSON on this port; 0 uses a free port [default: that of kaspad: 18110 for mainnet].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) wrpc_json_port: Option<u16>,
    /// Serve kaspad's gRPC on this port; 0 uses a free port [default: none].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) grpc_port: Option<u16>,
    /// Forward methods that change the source, such as shutdown and ban.
    #[arg(long, requires = "allowed_pages", help_heading = "Serving")]
    pub(crate) allow_unsafe_rpc: bool,
}

impl FollowKaspaFlags {
    /// Takes the flags of a node that have a meaning for Kaspa. A file that other commands read too may have the others.
    pub(crate) fn from_parts(follower: KaspaFollowerFlags, node: NodeFlags) -> Self {
        let NodeFlags {
            tables,
            ledger,
            history,
            listen,
            keys,
            serving,
            threads,
            requests,
            bounds,
            output,
            ..
        } = node;
        let config = ConfigFlags::default();
        Self {
            tables,
            config,
            follower,
            ledger,
            history,
            listen,
            keys,
            serving,
            threads,
            requests,
            bounds,
            output,
        }
    }

    /// Returns the flags of a node without the services that Kaspa lacks. `--rpc-port` is not among them: its meaning and
    /// its range are others here.
    pub(crate) fn to_node_flags(&self) -> NodeFlags {
        NodeFlags {
            tables: self.tables.clone(),
            ledger: self.ledger.clone(),
            listen: ListenFlags { rpc_port: None, ..self.listen.clone() },
            grpc: GrpcFlags { no_grpc: true, ..GrpcFlags::default() },
            keys: self.keys.clone(),
            console: ConsoleFlags { no_console: true },
            serving: self.serving.clone(),
            threads: self.threads.clone(),
            requests: self.requests.clone(),
            bounds: self.bounds.clone(),
            output: self.output.clone(),
            history: self.history.clone(),
            ..NodeFlags::default()
        }
    }
}

/// Describes the flags that have another meaning than for Solana.
pub(crate) fn describe_flags(command: clap::Command) -> clap::Command {
    let texts = [
        ("history_slots", "Retain this many chain blocks of history [default: 36000]"),
        ("history_bytes", "Retain at most this many bytes of history [default: 536870912]"),
        (
            "ledger",
            "Write the UTXO set of the newest final block to kaspa.snapshot in this directory, and start from it",
        ),
        (
            "reset",
            "Remove kaspa.snapshot in --ledger first, and what an unfinished import has received",
        ),
        (
            "rpc_port",
            "Serve the methods that kaspad lacks over JSON-RPC, and /metrics, on this port; 0 uses a free port \
             [default: none]",
        ),
        (
            "endpoints_file",
            "Write {\"wrpc_borsh\": URL, \"wrpc_json\": URL, \"rpc\": URL, \"grpc\": URL} to this file when the node is ready",
        ),
        (
            "tls_cert",
            "Serve HTTP and WebSocket over TLS only, with the certificates in this PEM file, the node's own first. \
             The file is read again when it changes",
        ),
        (
            "cpu_threads",
            "Use this many threads, at a lower priority, for all other responses [default: the number of cores]",
        ),
        (
            "rpc_max_request_body_size",
            "Accept at most this many bytes in a request's body on --rpc-port [default: 51200]",
        ),
    ];
    let allow_host = "Accept this name of the node, such as `node.example`, as its own. Can be repeated.\n\n\
         Web pages that name it so are the node's own. Addresses, `localhost`, names without a dot and the machine's \
         name need no flag. `*` is any name.";
    texts
        .into_iter()
        .fold(command, |command, (flag, text)| command.mut_arg(flag, |arg| arg.help(text)))
        .mut_arg("allow_host", |arg| arg.long_help(allow_host))
}

merge_by_field! {
    FollowKaspaFlags {
        tables, config, follower, ledger, history, listen, keys, serving, threads, requests, bounds,
        output,
    }
}
merge_by_field! {
    KaspaFollowerFlags {
        source, json_source, network, reorg_depth, import_peer, snapshot_interval, wrpc_borsh_port,
        wrpc_json_port, grpc_port, allow_unsafe_rpc,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names<A: Args>() -> BTreeSet<String> {
        let command = A::augment_args(clap::Command::new("a command"));
        command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
    }

    #[test]
    fn flags_without_a_meaning_for_kaspa_do_not_exist() {
        let kaspa = names::<FollowKaspaFlags>();
        for flag in [
            "no-grpc",
            "tpu-port",
            "forward",
            "account-index",
            "no-console",
            "queue-max",
            "slot-ms",
        ] {
            assert!(!kaspa.contains(flag), "--{flag}");
        }
        let own = names::<KaspaFollowerFlags>();
        let node = &(&names::<NodeFlags>() | &names::<ConfigFlags>()) | &own;
        assert!(kaspa.is_subset(&node), "{kaspa:?}");
        for flag in [
            "ledger",
            "history-slots",
            "history-bytes",
            "rpc-port",
            "tls-cert",
            "api-keys",
            "drain-seconds",
            "log",
            "check",
        ] {
            assert!(kaspa.contains(flag), "--{flag}");
        }
    }

    #[test]
    fn unsafe_methods_require_a_list_of_pages() {
        let command = FollowKaspaFlags::augment_args(clap::Command::new(COMMAND));
        let parse = |flags: &[&str]| {
            let args = [COMMAND, "--source", "ws://a:1", "--allow-unsafe-rpc"];
            let args = [&args[..], flags].concat();
            command.clone().try_get_matches_from(args)
        };
        let err = parse(&[]).expect_err("it is refused").to_string();
        assert!(err.contains("--allow-origin"), "{err}");
        for pages in [["--allow-origin", "https://a.example"], ["--config", "kaspa.toml"]] {
            parse(&pages).expect("valid flags");
        }
    }

    #[test]
    fn every_described_flag_exists() {
        let command = FollowKaspaFlags::augment_args(clap::Command::new(COMMAND));
        let before = command.get_arguments().count();
        let described = describe_flags(command);
        assert_eq!(described.get_arguments().count(), before);
        described.debug_assert();
    }

    #[test]
    fn the_file_has_a_table_of_its_own_and_the_settings_of_a_node() {
        let file = "rpc-port = 0\nio-threads = 3\n[pubsub]\nping_ms = 2\n\
                    [follow-kaspa]\nsource = [\"ws://a:1\"]\nnetwork = \"simnet\"\nreorg-depth = 7\n\
                    [follow]\nsource = [\"http://a:1\"]\n[dev]\nslot-ms = 5";
        let flags = FollowKaspaFlags::from_toml(file).expect("valid settings");
        assert_eq!((flags.listen.rpc_port, flags.threads.io_threads), (Some(0), Some(3)));
        assert_eq!(flags.tables.pubsub.ping_ms, 2);
        assert_eq!(flags.follower.source, ["ws://a:1"]);
        assert_eq!(flags.follower.network.as_deref(), Some("simnet"));
        assert_eq!(flags.follower.reorg_depth, Some(7));
        for unknown in ["[follow-kaspa]\nsources = []", "reorg-depth = 1", "[pubsub]\nping = 1"] {
            let err = FollowKaspaFlags::from_toml(unknown).expect_err(unknown).to_string();
            assert!(err.contains("unknown field"), "{err}");
        }
    }
}
