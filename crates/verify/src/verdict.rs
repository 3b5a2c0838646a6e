//! What is known about a bank, and how certainly.

use std::time::Duration;

use ledger::BlockId;
use solana::{BankMismatch, VerificationLevel};

/// Maximum number of written accounts that a mismatch lists: 128 KiB. A block of mainnet writes about 3,000.
pub const WRITTEN_LISTED_MAX: usize = 4_096;

/// The result for one bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is nothing to compare with yet.
    Pending,
    /// The computed hash is the reported one. Never [`VerificationLevel::Computed`].
    Matched(VerificationLevel),
    /// The computed hash differs from the reported one.
    Mismatch {
        /// The hashes, and the accounts that the bank wrote, at most [`WRITTEN_LISTED_MAX`].
        mismatch: BankMismatch,
        /// Whether no ancestor above the root has a mismatch. A bank above a mismatch has one too.
        is_first: bool,
    },
}

/// A verdict that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictChange {
    /// The bank.
    pub block: BlockId,
    /// Its verdict now.
    pub verdict: Verdict,
    /// The time since the bank was frozen.
    pub since_frozen: Duration,
}
