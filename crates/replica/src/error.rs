//! Why a replica could not start, or ended.

use depot::DepotError;
use follow::FollowError;
use ledger::BlockId;
use query::LedgerError;
use replicated_log::LogError;

/// An error of the snapshot format, whose type depends on the step.
pub(crate) type SnapshotFault = Box<dyn std::error::Error + Send + Sync>;

/// Why a replica could not start, or ended. A fault of the log is none of these: the replica waits for a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// The log cannot be reached or read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The cluster has no log, or its log has no records yet.
    #[error(
        "the log has no records of cluster {cluster}; fix: start an ingester first, or check the cluster's name"
    )]
    NoLog {
        /// Name of the cluster.
        cluster: String,
    },
    /// The object store, or the copy of the newest snapshot, cannot be opened.
    #[error(transparent)]
    Depot(#[from] DepotError),
    /// No snapshot can be loaded from which the log can be read on.
    #[error("no usable snapshot of cluster {cluster}: {reasons}")]
    NoSnapshot {
        /// Name of the cluster.
        cluster: String,
        /// Why each snapshot that exists is not used.
        reasons: String,
    },
    /// The state refused a block: it is full, or the order of blocks is wrong, which is our bug.
    #[error("the state refused block {block:?}")]
    Ledger {
        /// Id of the block that was written.
        block: BlockId,
        /// Error of the ledger's state.
        #[source]
        err: LedgerError,
    },
    /// The accounts of a block could not be written.
    #[error(transparent)]
    Bank(#[from] FollowError),
    /// A thread could not be started.
    #[error("start a thread")]
    Thread(#[source] std::io::Error),
    /// A thread of the replica panicked; that is our bug.
    #[error("a thread of the replica panicked")]
    Panicked,
}
