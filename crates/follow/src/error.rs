//! Why a follower could not start, or ended.

use std::path::PathBuf;

use ledger::{BlockId, Slot};
use query::LedgerError;
use solana_hash::Hash;
use store::StoreError;
use verify::VerifierError;

use crate::trust::TrustError;

/// Why a follower could not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The state refused a bank: it is full, or the order of banks is wrong, which is our bug.
    #[error("the state refused bank {bank:?}")]
    Ledger {
        /// Id of the bank that was written.
        bank: BlockId,
        /// Error of the ledger's state.
        #[source]
        err: LedgerError,
    },
    /// The verifier refused a bank: too many are above the root, or their order is wrong, which is our bug.
    #[error("the verifier refused bank {bank:?}")]
    Verify {
        /// Id of the bank that was verified.
        bank: BlockId,
        /// Error of the verifier's sums.
        #[source]
        err: VerifierError,
    },
    /// The snapshot could not be published.
    #[error("the state refused the snapshot")]
    Snapshot(#[source] LedgerError),
    /// The snapshot lacks an account that a reader needs.
    #[error("the snapshot has no usable {0}")]
    Incomplete(&'static str),
    /// The configuration names no source.
    #[error("no source (--source)")]
    NoSource,
    /// Independent sources are for one way to verify only, and not more of them can agree than there are.
    #[error(
        "{required} of {sources} independent sources must agree (--verify agree, --verify-source, at most {max})"
    )]
    Agreement {
        /// Required number of sources that agree.
        required: usize,
        /// Number of configured sources.
        sources: usize,
        /// Maximum number of sources.
        max: usize,
    },
    /// The directory of the stored state cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The thread that stores banks ended without an error, which is our bug.
    #[error("the thread that stores banks panicked")]
    StorePanicked,
    /// The directory has the ledger of `hydrant dev`.
    #[error("{} holds a ledger that hydrant dev made; fix: give --ledger a directory of its own", dir.display())]
    LedgerOfDev {
        /// Directory of the stored state.
        dir: PathBuf,
    },
    /// The stored state is of another cluster.
    #[error(
        "the stored state is of a cluster with the genesis hash {stored}, and the followed one has {followed}; fix: name another directory (--ledger), or start with --reset"
    )]
    OtherCluster {
        /// Genesis hash of the stored chain.
        stored: Hash,
        /// That of the cluster to follow.
        followed: Hash,
    },
    /// The bank hash of the stored state is unknown, so no later one can be computed.
    #[error(
        "the stored state, at slot {slot}, was followed with --verify off, so no bank after it can be verified; fix: start with --verify off, or with --reset and --snapshot"
    )]
    UnverifiedState {
        /// The slot of the stored state.
        slot: Slot,
    },
    /// The chain of the state is not the trusted one.
    #[error("the state is refused")]
    Trust(#[from] TrustError),
    /// Without verification no bank hash is known that could be compared.
    #[error("--trust needs bank hashes; fix: another --verify than off")]
    TrustWithoutVerification,
    /// Without verification the accounts are the source's word, so nothing is compared with it.
    #[error("--verify-execution compares verified banks; fix: another --verify than off")]
    ExecutionWithoutVerification,
    /// A thread could not be started.
    #[error("start a thread")]
    Thread(#[source] std::io::Error),
    /// The writing thread panicked; that is our bug.
    #[error("the writing thread panicked")]
    Panicked,
}
