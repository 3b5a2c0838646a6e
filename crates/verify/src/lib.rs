//! Verifies the banks of a chain: computes each bank hash from what the bank wrote, and compares it with what the
//! cluster says.
//!
//! Shape: one [`Verifier`]. In: frozen banks with their account changes, the hashes that children and other sources
//! report, and signed votes. Out: a [`Verdict`] for each bank, and each change of one. Time is an argument.
//! Levels, the weakest first: the chain itself lists the hash (`Sequence`), independent sources list it (`Agreed`),
//! validators with more than two thirds of the stake signed it (`Voted`). [`verify_entries`] proves which transactions a
//! bank has.
//! Bounds: [`VerifierConfig`] limits banks and sources; votes are counted for [`SLOTS_AHEAD_MAX`] slots above the root.
//! Invariant: a bank is `Matched` only if its computed hash is the reported one. The hash covers the parent's hash, so a
//! match holds for all ancestors.
//! Not here: where updates come from, the order of a bank's writes (the caller passes old and new states), the
//! stakes' origin, and what a node does after a mismatch.
#![forbid(unsafe_code)]

mod bank;
mod entries;
mod error;
mod reports;
mod slot_hashes;
mod stakes;
mod tally;
#[cfg(test)]
mod tests;
mod verdict;
mod verifier;
mod vote;

pub use bank::{
    AccountChange, AccountHash, ArchivedBank, FrozenBank, LatticeChange, RootBank, SummedBank,
};
pub use entries::{ENTRY_HASHES_MAX, EntryError, next_entry_hash, verify_entries};
pub use error::VerifierError;
pub use reports::SourceId;
pub use slot_hashes::{newest_slot_hash, slot_hashes};
pub use stakes::{StakedVoters, VOTERS_MAX};
pub use verdict::{Verdict, VerdictChange, WRITTEN_LISTED_MAX};
pub use verifier::{SLOTS_AHEAD_MAX, Verifier, VerifierConfig, VerifierUsage};
pub use vote::{SignedVote, UnverifiedVote, VoteError};
