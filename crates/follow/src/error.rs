//! Why a follower could not start, or ended.

use ledger::BlockId;
use query::LedgerError;
use verify::VerifierError;

/// Why a follower could not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The state refused a bank: it is full, or the order of banks is wrong, which is our bug.
    #[error("the state refused bank {bank:?}")]
    Ledger {
        /// The bank.
        bank: BlockId,
        /// Why.
        #[source]
        err: LedgerError,
    },
    /// The verifier refused a bank: too many are above the root, or their order is wrong, which is our bug.
    #[error("the verifier refused bank {bank:?}")]
    Verify {
        /// The bank.
        bank: BlockId,
        /// Why.
        #[source]
        err: VerifierError,
    },
    /// The snapshot could not be published.
    #[error("the state refused the snapshot")]
    Snapshot(#[source] LedgerError),
    /// The snapshot lacks an account that a reader needs.
    #[error("the snapshot has no usable {0}")]
    Incomplete(&'static str),
    /// There is nothing to follow.
    #[error("no source (--source)")]
    NoSource,
    /// Independent sources are for one way to verify only, and not more of them can agree than there are.
    #[error(
        "{required} of {sources} independent sources must agree (--verify agree, --verify-source, at most {max})"
    )]
    Agreement {
        /// How many must agree.
        required: usize,
        /// How many there are.
        sources: usize,
        /// How many there may be.
        max: usize,
    },
    /// A thread could not be started.
    #[error("start a thread")]
    Thread(#[source] std::io::Error),
    /// The writing thread panicked; that is our bug.
    #[error("the writing thread panicked")]
    Panicked,
}
