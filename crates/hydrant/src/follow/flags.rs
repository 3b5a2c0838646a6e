//! The flags of `hydrant follow`, and their texts in `--help`.
//!
//! Not here: those of every node (`node::flags`).

use std::path::PathBuf;

use ::follow::{OnMismatch, VerifyMode};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::node::flags::{ConfigFlags, file_or};
use crate::node::{NodeFlags, merge_by_field};

/// The flags of `hydrant follow`. In the configuration file those of [`NodeFlags`] are keys, and those of
/// [`FollowerFlags`] are keys of the table `[follow]`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct FollowFlags {
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
    #[command(flatten)]
    pub(crate) follower: FollowerFlags,
    #[command(flatten)]
    pub(crate) node: NodeFlags,
}

/// The flags of a followed chain, which are keys of the table `[follow]`.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[command(
    group = file_or("full_archive", "snapshot"),
    group = file_or("verify_servers", "verify_source")
)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct FollowerFlags {
    /// Follow the chain of this Yellowstone gRPC server, which must send everything. Can be repeated: the
    /// first healthy one is followed.
    #[arg(long, value_name = "URL", required_unless_present = "config", help_heading = "Chain")]
    pub(crate) source: Vec<String>,
    /// Read the x-token of the sources from this file.
    #[arg(long, value_name = "FILE", help_heading = "Chain")]
    pub(crate) x_token: Option<PathBuf>,
    /// Start from this full snapshot archive, or from that of the node at this RPC URL, unless --ledger
    /// has a state.
    #[arg(
        long,
        value_name = "FILE|URL",
        required_unless_present_any = ["ledger", "config"],
        help_heading = "Chain"
    )]
    pub(crate) snapshot: Option<String>,
    /// Apply this incremental archive to the snapshot file.
    #[arg(long, value_name = "FILE", requires = "full_archive", help_heading = "Chain")]
    pub(crate) incremental_snapshot: Option<PathBuf>,
    /// Store downloaded archives in this directory [default: the current directory].
    #[arg(long, value_name = "DIR", help_heading = "Chain")]
    pub(crate) snapshot_dir: Option<PathBuf>,
    /// Refuse to download an archive of more than this many bytes [default: 549755813888].
    #[arg(long, value_name = "BYTES", help_heading = "Chain")]
    pub(crate) snapshot_bytes_max: Option<u64>,
    /// Ask this RPC URL for the genesis hash, and for the cluster's nodes if no source has gossip
    /// [default: --snapshot, if it is a URL].
    #[arg(long, value_name = "URL", help_heading = "Chain")]
    pub(crate) upstream: Option<String>,
    /// Send the API key in this file to --upstream and to the URL of --snapshot.
    #[arg(long, value_name = "FILE", help_heading = "Chain")]
    pub(crate) upstream_key: Option<PathBuf>,
    /// Send transactions to the leaders, or to the upstream [default: leaders].
    #[arg(long, value_name = "TO", value_enum, help_heading = "Chain")]
    pub(crate) send: Option<SendTo>,
    /// Verify banks in this way before they are shown [default: sequence].
    #[arg(long, value_name = "MODE", value_enum, help_heading = "Chain")]
    pub(crate) verify: Option<VerifyMode>,
    /// Prove the transactions of each bank and their order by its entries, which the source must send.
    #[arg(long, help_heading = "Chain")]
    pub(crate) verify_entries: bool,
    /// Run the transactions of each bank again, and name results that differ from those of the source.
    #[arg(long, help_heading = "Chain")]
    pub(crate) verify_execution: bool,
    /// As --verify-execution, for this many transactions a second, as whole banks.
    #[arg(long, value_name = "COUNT", help_heading = "Chain")]
    pub(crate) verify_execution_per_s: Option<u64>,
    /// With --verify agree, compare hashes with this independent Yellowstone gRPC server, which sends the
    /// SlotHashes sysvar. Can be repeated.
    #[arg(long, value_name = "URL", help_heading = "Chain")]
    pub(crate) verify_source: Vec<String>,
    /// Read the x-token of a --verify-source from this file. Can be repeated, in the same order.
    #[arg(long, value_name = "FILE", requires = "verify_servers", help_heading = "Chain")]
    pub(crate) verify_x_token: Vec<PathBuf>,
    /// Require this many of the --verify-source to list the hash of a bank [default: all].
    #[arg(long, value_name = "COUNT", requires = "verify_servers", help_heading = "Chain")]
    pub(crate) verify_sources_min: Option<usize>,
    /// Refuse a chain that has another bank hash in this slot, or none. Can be repeated.
    #[arg(long, value_name = "SLOT:BANKHASH", help_heading = "Chain")]
    pub(crate) trust: Vec<String>,
    /// Refuse a chain with another genesis hash.
    #[arg(long, value_name = "HASH", help_heading = "Chain")]
    pub(crate) genesis_hash: Option<String>,
    /// Do this when the computed hash of a bank differs from that of the chain [default: stop].
    #[arg(long, value_name = "ACTION", value_enum, help_heading = "Chain")]
    pub(crate) on_mismatch: Option<OnMismatch>,
    /// Report the node as unhealthy when it is more than this many slots behind the source [default: 128].
    #[arg(long, value_name = "COUNT", help_heading = "Chain")]
    pub(crate) slots_behind_max: Option<u64>,
}

merge_by_field!(FollowFlags { config, follower, node });
merge_by_field! {
    FollowerFlags {
        source, x_token, snapshot, incremental_snapshot, snapshot_dir, snapshot_bytes_max, upstream,
        upstream_key, send, verify, verify_entries, verify_execution, verify_execution_per_s,
        verify_source, verify_x_token, verify_sources_min, trust, genesis_hash, on_mismatch, slots_behind_max,
    }
}

/// Destination of transactions: the values of `--send`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SendTo {
    /// The leaders of the next slots over QUIC, until the transaction is in a block or has expired.
    #[default]
    Leaders,
    /// sendTransaction of the upstream, once.
    Upstream,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::follow_kaspa::flags::FollowKaspaFlags;
    use crate::local::flags::DevFlags;
    use crate::replica::flags::ReplicaCommandFlags;

    /// The flags of a group as clap has them: name, short form, heading and text.
    fn flags<A: Args>() -> BTreeSet<String> {
        let command = A::augment_args(clap::Command::new("a command"));
        let described = |arg: &clap::Arg| {
            let heading = arg.get_help_heading();
            let help = arg.get_help().map(ToString::to_string);
            format!("{:?} {:?} {heading:?} {help:?}", arg.get_long(), arg.get_short())
        };
        command.get_arguments().map(described).collect()
    }

    /// The keys that a command's file accepts, of all the keys that either accepts.
    fn keys(parse: fn(&str) -> Option<toml::de::Error>) -> BTreeSet<String> {
        // The refusal of an unknown key lists the known ones.
        let refusal = parse("no-such-key = 1").expect("it is refused").to_string();
        let list = refusal.split("expected one of ").nth(1).expect("a list of keys");
        list.trim().split(", ").map(|key| key.trim_matches('`').to_owned()).collect()
    }

    #[test]
    fn all_commands_have_the_same_settings_of_a_node() {
        let dev = flags::<DevFlags>();
        let follow = flags::<FollowFlags>();
        let node: BTreeSet<_> =
            flags::<NodeFlags>().union(&flags::<ConfigFlags>()).cloned().collect();
        assert!(node.len() > 40, "{} flags", node.len());
        assert!(node.is_subset(&dev) && node.is_subset(&follow));
        assert!(node.is_subset(&flags::<ReplicaCommandFlags>()));
        let common: BTreeSet<_> = dev.intersection(&follow).cloned().collect();
        assert_eq!(common, node, "a flag of both is a flag of every node");

        let dev = keys(|text| DevFlags::from_toml(text).err());
        let follow = keys(|text| FollowFlags::from_toml(text).err());
        assert!(follow.is_subset(&dev), "{follow:?}");
        let kaspa = keys(|text| FollowKaspaFlags::from_toml(text).err());
        assert_eq!(kaspa, follow, "one file serves all commands");
        let replica = keys(|text| ReplicaCommandFlags::from_toml(text).err());
        assert_eq!(replica, follow, "one file serves all commands");
        for key in
            ["rpc", "pool", "pubsub", "grpc", "quic", "io-threads", "account-index", "ledger"]
        {
            assert!(follow.contains(key), "{key}");
        }
        assert_eq!(
            follow.len() - 4,
            node.len() + 5 - 2,
            "each flag of a node, five tables, four producers"
        );
    }

    #[test]
    fn the_file_of_a_follower_has_the_settings_of_a_node_and_of_its_chain() {
        let file = "api-keys = \"keys.toml\"\nio-threads = 3\naccount-index = [\"program-id\"]\n\
                    [rpc]\nkeep_alive_ms = 1\n[pubsub]\nping_ms = 2\n[pool.heavy]\ndeadline_ms = 3\n\
                    [grpc]\nping_ms = 4\n[quic]\nshards = 5\n\
                    [follow]\nsource = [\"http://a:1\"]\nsend = \"upstream\"\nverify = \"votes\"";
        let FollowFlags { node, follower, .. } =
            FollowFlags::from_toml(file).expect("valid settings");
        let tables = &node.tables;
        assert_eq!(node.keys.api_keys, Some(PathBuf::from("keys.toml")));
        assert_eq!((node.threads.io_threads, node.indices.account_index.len()), (Some(3), 1));
        assert_eq!((tables.rpc.keep_alive_ms, tables.pubsub.ping_ms), (1, 2));
        assert_eq!((tables.pool.heavy.deadline_ms, tables.grpc.ping_ms), (3, 4));
        assert_eq!((tables.quic.shards, follower.source.len()), (5, 1));
        assert_eq!(follower.send, Some(SendTo::Upstream));
        for unknown in
            ["slot-ms = 1", "source = [\"a\"]", "[rpc]\nkeepalive = 1", "[follow]\nx = 1"]
        {
            let err = FollowFlags::from_toml(unknown).expect_err(unknown).to_string();
            assert!(err.contains("unknown field"), "{err}");
        }
    }
}
