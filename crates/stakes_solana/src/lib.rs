//! Stakes: how much stake counts for each vote account in an epoch, and what follows from it: voters and leaders.
//!
//! Shape: [`delegated`] reads the stake accounts of a view, and [`by_voter`] adds them up. [`StakeTracker`] does the same
//! for every bank of a chain with forks, from the stake accounts that the bank wrote. [`EpochStakes`] are the voters of
//! an epoch, and [`EpochStakes::leaders`] its leader schedule.
//! Bounds: see [`StakeTracker`]; everything else is the caller's.
//! Not here: rewards (`localnet`), whose votes were counted (`verify`).
#![forbid(unsafe_code)]

mod admission;
mod delegations;
mod epoch_stakes;
mod stake_math;
mod tracker;

pub use admission::{VoteCandidate, admit};
pub use delegations::{Delegated, by_voter, delegated, delegation_of, total};
pub use epoch_stakes::{EpochStakes, EpochVoter};
pub use stake_math::StakeMath;
pub use tracker::{BankStakes, NewBank, StakeChange, StakeTracker};
