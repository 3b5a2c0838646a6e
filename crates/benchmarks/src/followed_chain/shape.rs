//! How many transactions a slot of the benchmark's chain has.

/// What a slot has.
pub(super) struct Shape {
    pub(super) votes: usize,
    /// Number of transactions other than votes.
    pub(super) transactions: usize,
    /// Stake accounts that a bank pays at the start of an epoch.
    pub(super) rewarded_stakes: usize,
}
