//! The flags of `hydrant replica`, and their texts in `--help`.
//!
//! Not here: those of every node, which include the log and the store of snapshots (`node::flags`).

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use crate::node::flags::{ConfigFlags, file_or};
use crate::node::{NodeFlags, merge_by_field};

/// The name of the command.
pub(crate) const COMMAND: &str = "replica";

/// The flags of `hydrant replica`. In the configuration file those of [`NodeFlags`] are keys, and those of
/// [`ReplicaFlags`] are keys of the table `[replica]`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ReplicaCommandFlags {
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
    #[command(flatten)]
    pub(crate) replica: ReplicaFlags,
    #[command(flatten)]
    pub(crate) node: NodeFlags,
}

/// The flags of a ledger that is fed by a log, which are keys of the table `[replica]`.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[command(group = file_or("upstream_node", "upstream"))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct ReplicaFlags {
    /// Refuse records and snapshots of ingesters that verify less than this [default: off].
    #[arg(long, value_name = "LEVEL", value_enum, help_heading = "Replica")]
    pub(crate) verify_min: Option<VerifyMin>,
    /// Report the node as not ready when it is about this many slots behind the log [default: 8].
    #[arg(long, value_name = "COUNT", help_heading = "Replica")]
    pub(crate) replica_lag_max_slots: Option<u64>,
    /// Report the node as not ready until it has this many slots of history, from which subscribers can
    /// resume [default: 0].
    #[arg(long, value_name = "COUNT", help_heading = "Replica")]
    pub(crate) replica_resume_slots: Option<u64>,
    /// Store a copy of the newest snapshot in this directory, and start from it [default: none].
    #[arg(long, value_name = "DIR", help_heading = "Replica")]
    pub(crate) replica_cache_dir: Option<PathBuf>,
    /// Write a snapshot to --depot at this interval, unless another replica did; 0: never [default: 2700].
    #[arg(long, value_name = "SECONDS", help_heading = "Replica")]
    pub(crate) snapshot_interval: Option<u64>,
    /// Keep this many of the newest snapshots, and those that the log still needs [default: 3].
    #[arg(long, value_name = "COUNT", help_heading = "Replica")]
    pub(crate) snapshots_kept: Option<usize>,
    /// Decode the parts of a snapshot on this many threads [default: the number of cores].
    #[arg(long, value_name = "COUNT", help_heading = "Replica")]
    pub(crate) load_threads: Option<usize>,
    /// Archive final blocks in --depot.
    #[arg(long, help_heading = "Replica")]
    pub(crate) archive: bool,
    /// Send transactions to sendTransaction of this RPC URL [default: none; transactions are refused].
    #[arg(long, value_name = "URL", help_heading = "Replica")]
    pub(crate) upstream: Option<String>,
    /// Send the API key in this file to --upstream.
    #[arg(long, value_name = "FILE", requires = "upstream_node", help_heading = "Replica")]
    pub(crate) upstream_key: Option<PathBuf>,
}

/// The lowest level of proof that a replica accepts of an ingester. The docs of the variants are the help of
/// `--verify-min`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum VerifyMin {
    /// Accept every ingester.
    #[default]
    Off,
    /// Accept those that compare the hash of each bank with the one that its child lists.
    Sequence,
    /// Accept those that require independent sources to list the hash, too.
    Agree,
    /// Accept those that require more than two thirds of the stake to sign the hash.
    Votes,
}

/// Hides the flags of a node that a replica refuses.
pub(crate) fn hide_flags(command: clap::Command) -> clap::Command {
    let hide = |command: clap::Command, flag| command.mut_arg(flag, |arg| arg.hide(true));
    let ledger = ["ledger", "reset"];
    let log_writer =
        ["log_replicas", "log_max_age", "log_max_bytes", "log_allow_data_loss", "log_entries"];
    ledger.into_iter().chain(log_writer).fold(command, hide)
}

merge_by_field!(ReplicaCommandFlags { config, replica, node });
merge_by_field! {
    ReplicaFlags {
        verify_min, replica_lag_max_slots, replica_resume_slots, replica_cache_dir, snapshot_interval, snapshots_kept,
        load_threads, archive, upstream, upstream_key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::flags::DevFlags;

    #[test]
    fn a_replica_reads_its_settings_and_those_of_a_node_from_a_file() {
        let file = "log-url = \"file:///log\"\ndepot = \"file:///depot\"\n[rpc]\nmin_slot_wait_ms = 5\n\
                    [replica]\nverify-min = \"votes\"\nreplica-lag-max-slots = 3\nload-threads = 2\n\
                    archive = true";
        let flags = ReplicaCommandFlags::from_toml(file).expect("valid settings");
        let ReplicaCommandFlags { replica, node, .. } = flags;
        assert_eq!((replica.replica_lag_max_slots, replica.load_threads), (Some(3), Some(2)));
        assert!(replica.archive);
        assert_eq!(replica.verify_min, Some(VerifyMin::Votes));
        assert_eq!(node.cluster_log.log_url.as_deref(), Some("file:///log"));
        assert_eq!(node.tables.rpc.min_slot_wait_ms, Some(5));
        // The other commands check the keys of the table, too.
        assert!(DevFlags::from_toml(file).is_ok());
        for unknown in ["[replica]\nlag-max-slots = 1", "archive = true"] {
            let err = ReplicaCommandFlags::from_toml(unknown).expect_err(unknown).to_string();
            assert!(err.contains("unknown field"), "{err}");
        }
    }
}
