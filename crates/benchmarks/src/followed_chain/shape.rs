//! The content of a slot of the benchmark's chain.

#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) votes: usize,
    /// Transactions that are not votes.
    pub(super) transactions: usize,
    /// Stake accounts that a bank pays at the start of an epoch.
    pub(super) rewarded_stakes: usize,
    /// Hashes of Proof of History between two ticks.
    pub(super) tick_hashes: u64,
}
