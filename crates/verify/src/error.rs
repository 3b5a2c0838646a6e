//! Why the verifier refuses an input. A refused input changes nothing.

use ledger::BlockId;

/// Why an input is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifierError {
    /// The bank is not above the root, or was dropped, or was never passed.
    #[error("bank {0:?} is unknown")]
    UnknownBank(BlockId),
    /// The bank was passed before. Fix: drop it first, if its slot was replayed.
    #[error("bank {0:?} is frozen already")]
    KnownBank(BlockId),
    /// A bank's slot is above that of its parent.
    #[error("bank {block:?} is not above its parent {parent:?}")]
    NotAboveParent {
        /// The bank.
        block: BlockId,
        /// Parent that the bank names.
        parent: BlockId,
    },
    /// Too many banks are above the root. Fix: root some, or raise `banks_max`.
    #[error("{max} banks are above the root (banks_max)")]
    TooManyBanks {
        /// The limit.
        max: usize,
    },
    /// There are fewer sources. Fix: raise `sources_max`.
    #[error("source {source_id} is unknown: there are {max} (sources_max)")]
    UnknownSource {
        /// Number of the source.
        source_id: u16,
        /// The limit.
        max: usize,
    },
}
