//! The flags of `hydrant log-check` and `hydrant snapshots`. Every build parses them.
//!
//! Not here: the commands (`log_check`, `depot_snapshots`), which need the feature `cluster`; the settings of a node's
//! log (`node::flags`).

use clap::Args;

/// The flags of `hydrant log-check`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogCheckFlags {
    /// Read the log at this URL: nats://HOST:PORT[,nats://HOST:PORT], file:///DIR or s3://BUCKET/PREFIX.
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Read the log of this cluster [default: local].
    #[arg(long, value_name = "NAME")]
    pub(crate) log_cluster: Option<String>,
    /// Read this generation of the log [default: the newest].
    #[arg(long, value_name = "NUMBER")]
    pub(crate) generation: Option<u64>,
}

/// The flags of `hydrant snapshots`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SnapshotsFlags {
    /// List the snapshots in this directory or bucket: file:///DIR or s3://BUCKET/PREFIX.
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// List those of this cluster [default: local].
    #[arg(long, value_name = "NAME")]
    pub(crate) log_cluster: Option<String>,
    /// Read every object, and check its digests and sums.
    #[arg(long)]
    pub(crate) check: bool,
}
