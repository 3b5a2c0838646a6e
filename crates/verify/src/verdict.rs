//! What is known about a bank, and how certainly.

use std::sync::Arc;
use std::time::Duration;

use ledger::BlockId;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

/// Maximum number of written accounts that a [`Mismatch`] lists: 128 KiB. A block of mainnet writes about 3,000.
pub const WRITTEN_LISTED_MAX: usize = 4_096;

/// Where an equal hash comes from, the weakest level first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A child on the same chain lists the hash. Shows that nothing was lost or altered on the way; a source that lies
    /// consistently is not detected.
    Sequence,
    /// As many independent sources as configured list it.
    Agreed,
    /// Validators with more than two thirds of the stake signed it, or a descendant's.
    Voted,
}

/// Where a different hash comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporter {
    /// A child on the same chain.
    Child,
    /// As many independent sources as configured.
    Sources,
    /// Validators with more than two thirds of the stake.
    Votes,
}

/// A bank whose computed hash is not the reported one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The hash that follows from what the bank wrote.
    pub computed: Hash,
    /// The reported hash.
    pub reported: Hash,
    /// Where it comes from.
    pub reporter: Reporter,
    /// Whether no ancestor above the root has a mismatch. A bank above a mismatch has one too.
    pub is_first: bool,
    /// The accounts that the bank wrote, sorted, at most [`WRITTEN_LISTED_MAX`]: what is wrong is in them, or is
    /// missing among them.
    pub accounts_written: Arc<[Pubkey]>,
    /// How many accounts it wrote.
    pub accounts_written_len: usize,
}

/// The result for one bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is nothing to compare with yet.
    Pending,
    /// The computed hash is the reported one.
    Matched(Level),
    /// It is not.
    Mismatch(Mismatch),
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
