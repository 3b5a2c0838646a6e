//! Results of verifying the hash of a bank: the level that it reached, the stake that decided, or a mismatch.
//!
//! Not here: how banks are verified (`verify`), and how far a ledger is proven (`chain_solana`).

use std::sync::Arc;

use ledger::Slot;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

/// How far the hash of a bank is proven, the weakest level first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerificationLevel {
    /// This node computed the hash from the bank's writes and transactions. It was not compared with another one.
    Computed,
    /// A child on the same chain lists the hash. Shows that nothing was lost or altered on the way; a source that lies
    /// consistently is not detected.
    Sequence,
    /// As many independent sources as configured list the hash.
    Agreed,
    /// Validators with more than two thirds of the stake signed the hash, or that of a descendant.
    Voted,
}

impl VerificationLevel {
    /// All levels, the weakest first.
    pub const ALL: [Self; 4] = [Self::Computed, Self::Sequence, Self::Agreed, Self::Voted];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Computed => "computed",
            Self::Sequence => "consistent",
            Self::Agreed => "agreed",
            Self::Voted => "voted",
        }
    }

    /// The word for a slot whose bank has the level. A chain that only agrees with itself is consistent: a source that
    /// lies consistently is not detected, so its slots are not called verified.
    pub fn slot_word(self) -> &'static str {
        match self {
            Self::Sequence => "consistent",
            Self::Computed | Self::Agreed | Self::Voted => "verified",
        }
    }
}

/// The stake that voted for a hash when its votes were enough. Later votes are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VotedStake {
    /// The slot that the votes are for: the bank's own, or that of a descendant.
    pub slot: Slot,
    /// Lamports of the voters.
    pub voted: u64,
    /// Lamports of all vote accounts of the epoch.
    pub total: u64,
}

/// Where a reported hash comes from that differs from the computed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashReporter {
    /// A child on the same chain.
    Child,
    /// As many independent sources as configured.
    Sources,
    /// Validators with more than two thirds of the stake.
    Votes,
}

impl HashReporter {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Child => "child",
            Self::Sources => "sources",
            Self::Votes => "votes",
        }
    }
}

/// A bank whose computed hash differs from the reported one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BankMismatch {
    /// Slot of the bank.
    pub slot: Slot,
    /// The hash computed from the bank's writes.
    pub computed: Hash,
    /// The reported hash.
    pub reported: Hash,
    /// Where the reported hash comes from.
    pub reporter: HashReporter,
    /// The first accounts that the bank wrote, sorted: the error is in one of them, or one is missing. The maker of the
    /// value limits their number.
    pub accounts_written: Arc<[Pubkey]>,
    /// Number of all accounts that the bank wrote.
    pub accounts_written_len: usize,
}
