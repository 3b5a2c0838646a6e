//! The flags of `hydrant follow`.
//!
//! Not here: those that `hydrant dev` has too (`shared_flags`).

use std::path::PathBuf;

use ::follow::{OnMismatch, VerifyMode};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::shared_flags::{
    CapacityFlags, ListenFlags, LogFlags, ServiceFlags, ServingFlags, TraceFlags,
};

/// The flags of `hydrant follow`.
#[derive(Args, Clone, Debug)]
pub(crate) struct FollowFlags {
    /// The URL of a server of Yellowstone gRPC that sends everything. May be repeated: the first healthy one
    /// is followed.
    #[arg(long, value_name = "URL", required = true, help_heading = "Chain")]
    pub(crate) source: Vec<String>,
    /// A file with the x-token of the sources.
    #[arg(long, value_name = "FILE", help_heading = "Chain")]
    pub(crate) x_token: Option<PathBuf>,
    /// A full snapshot archive, or the URL of the RPC port of a node that serves one.
    /// It may be left out if --ledger has a state.
    #[arg(
        long,
        value_name = "FILE|URL",
        required_unless_present = "ledger",
        help_heading = "Chain"
    )]
    pub(crate) snapshot: Option<String>,
    /// An incremental archive on top of the snapshot file.
    #[arg(long, value_name = "FILE", help_heading = "Chain")]
    pub(crate) incremental_snapshot: Option<PathBuf>,
    /// Store the followed state in this directory, and start from the state that it has. A snapshot is read only if
    /// it has none.
    #[arg(long, value_name = "DIR", help_heading = "Chain")]
    pub(crate) ledger: Option<PathBuf>,
    /// Remove the state in --ledger first.
    #[arg(long, requires = "ledger", help_heading = "Chain")]
    pub(crate) reset: bool,
    /// Where downloaded archives are stored [default: the current directory].
    #[arg(long, value_name = "DIR", help_heading = "Chain")]
    pub(crate) snapshot_dir: Option<PathBuf>,
    /// Bytes of an archive that is downloaded, at most [default: 549755813888].
    #[arg(long, value_name = "BYTES", help_heading = "Chain")]
    pub(crate) snapshot_bytes_max: Option<u64>,
    /// The RPC port of a node of the chain: it names genesis, and the cluster's nodes if no source has gossip
    /// [default: the URL of --snapshot; without one, genesis is that of --ledger].
    #[arg(long, value_name = "URL", help_heading = "Chain")]
    pub(crate) upstream: Option<String>,
    /// A file with the API key that requests to --upstream, and to the URL of --snapshot, send.
    #[arg(long, value_name = "FILE", help_heading = "Chain")]
    pub(crate) upstream_key: Option<PathBuf>,
    /// Where transactions go [default: leaders].
    #[arg(long, value_name = "TO", value_enum, help_heading = "Chain")]
    pub(crate) send: Option<SendTo>,
    /// How banks are verified [default: sequence].
    #[arg(long, value_name = "MODE", value_enum, help_heading = "Chain")]
    pub(crate) verify: Option<Verify>,
    /// With --verify agree: the URL of an independent server of Yellowstone gRPC, which sends the SlotHashes
    /// sysvar. May be repeated.
    #[arg(long, value_name = "URL", help_heading = "Chain")]
    pub(crate) verify_source: Vec<String>,
    /// A file with the x-token of a --verify-source. May be repeated, in the same order.
    #[arg(long, value_name = "FILE", help_heading = "Chain")]
    pub(crate) verify_x_token: Vec<PathBuf>,
    /// How many of the --verify-source must list a bank's hash [default: all].
    #[arg(long, value_name = "COUNT", help_heading = "Chain")]
    pub(crate) verify_sources_min: Option<usize>,
    /// What follows a bank whose computed hash is not the one that the chain says [default: stop].
    #[arg(long, value_name = "ACTION", value_enum, help_heading = "Chain")]
    pub(crate) on_mismatch: Option<MismatchAction>,
    /// Slots behind the source from which on the node is unhealthy [default: 128].
    #[arg(long, value_name = "COUNT", help_heading = "Chain")]
    pub(crate) slots_behind_max: Option<u64>,
    /// Number of slots whose blocks are retained [default: 10000].
    #[arg(long, value_name = "COUNT", help_heading = "Chain")]
    pub(crate) history_slots: Option<u64>,

    #[command(flatten)]
    pub(crate) listen: ListenFlags,
    /// Port of JSON-RPC and REST; WebSocket has the next one; 0 lets the system choose [default: 8899].
    #[arg(long, value_name = "PORT", help_heading = "Serving")]
    pub(crate) rpc_port: Option<u16>,
    #[command(flatten)]
    pub(crate) services: ServiceFlags,
    /// Read the key api-keys and the table grpc, the limits of the gRPC server, from this TOML file.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) config: Option<PathBuf>,
    /// Write the addresses of all ports to this file, as JSON, once the node serves.
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub(crate) endpoints_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) serving: ServingFlags,
    /// Maximum number of transactions that are not in a block yet, or not at the upstream; more get 429
    /// [default: 40000].
    #[arg(long, value_name = "COUNT", help_heading = "Bounds")]
    pub(crate) queue_max: Option<usize>,
    #[command(flatten)]
    pub(crate) capacity: CapacityFlags,

    /// No banner and no progress.
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) logging: LogFlags,
    #[command(flatten)]
    pub(crate) traces: TraceFlags,
}

/// The values of `--send`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SendTo {
    /// To the leaders of the next slots over QUIC, until they are in a block or have expired.
    #[default]
    Leaders,
    /// To sendTransaction of the upstream.
    Upstream,
}

/// The file of `--config`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FollowFile {
    /// As the flag.
    pub(crate) api_keys: Option<PathBuf>,
    /// The table `[grpc]`.
    pub(crate) grpc: grpc::Config,
}

impl FollowFile {
    pub(crate) fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

/// The values of `--verify`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Verify {
    /// A source's commitments are shown at once.
    Off,
    /// The hash of each bank is computed and compared with the one that its child lists.
    #[default]
    Sequence,
    /// In addition, independent sources list the hash (--verify-source).
    Agree,
    /// Validators with more than two thirds of the stake have signed the hash, or that of a descendant.
    Votes,
}

impl From<Verify> for VerifyMode {
    fn from(verify: Verify) -> Self {
        match verify {
            Verify::Off => Self::Off,
            Verify::Sequence => Self::Sequence,
            Verify::Agree => Self::Agree,
            Verify::Votes => Self::Votes,
        }
    }
}

/// The values of `--on-mismatch`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum MismatchAction {
    /// The node is unhealthy, and takes no newer bank.
    #[default]
    Stop,
    /// The node is unhealthy until the bank is right, and shows newer banks as processed only.
    Report,
}

impl From<MismatchAction> for OnMismatch {
    fn from(action: MismatchAction) -> Self {
        match action {
            MismatchAction::Stop => Self::Stop,
            MismatchAction::Report => Self::Report,
        }
    }
}
