//! Stakes: how much stake counts for each vote account in an epoch, and what follows from it: voters and leaders.
//!
//! Shape: [`read_delegations`] reads the stake accounts of a view, and [`by_voter`] adds them up. [`StakeTracker`] does
//! the same for every bank of a chain with forks, from the stake accounts that the bank wrote. [`leader_schedule`]
//! computes the leaders of an epoch from its [`EpochStakes`](solana::EpochStakes), which [`epoch_stakes()`] finds at a
//! block.
//! Bounds: see [`StakeTracker`]; everything else is the caller's.
//! Not here: rewards (`localnet`), whose votes were counted (`verify`).
#![forbid(unsafe_code)]

mod admission;
mod delegations;
mod epoch_stakes;
mod stake_math;
mod tracker;

pub use admission::{VoteCandidate, admit};
pub use delegations::{Delegated, by_voter, read_delegation, read_delegations, total};
pub use epoch_stakes::{epoch_stakes, leader_schedule};
pub use stake_math::StakeMath;
pub use tracker::{BankStakes, NewBank, StakeChange, StakeTracker};
