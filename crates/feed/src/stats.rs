//! The state of a feed, as its caller reports it.

use ledger::{BlockId, Slot};

/// The state of a feed between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedStatus {
    /// The newest rooted bank.
    pub root: BlockId,
    /// The newest confirmed bank.
    pub confirmed: BlockId,
    /// The newest bank of the preferred fork.
    pub tip: BlockId,
    /// The lowest slot such that a jump to it, or to a later one, lets a session that started above the root continue.
    /// `None` without such a session, or if it has no block yet.
    pub joinable_from: Option<Slot>,
    /// The limit of each source's open bytes ([`FeedConfig::bytes_max`](crate::FeedConfig::bytes_max)).
    pub bytes_max: usize,
    /// Counters, and the memory in use.
    pub stats: FeedStats,
}

/// The progress of one source: what it sent, as far as it leads anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceProgress {
    /// Number of whole banks that continue the chain, or that wait for the root to jump.
    pub banks: u64,
    /// The newest slot of these banks; 0 without one.
    pub newest: Slot,
}

impl SourceProgress {
    pub(crate) fn record(&mut self, slot: Slot) {
        self.banks += 1;
        self.newest = self.newest.max(slot);
    }
}

/// Counters since the start, and the current use of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedStats {
    /// Number of handled updates.
    pub updates: u64,
    /// Updates without effect: older writes, repeated transactions and statuses.
    pub duplicates: u64,
    /// Updates of slots at or below the root.
    pub stale: u64,
    /// Updates of closed sources, and of banks that were replaced or dead.
    pub ignored: u64,
    /// Number of reported whole banks.
    pub banks: u64,
    /// Banks that were reported without entries although the source counts some: it did not send all of them, or they
    /// do not fit the block.
    pub banks_without_entries: u64,
    /// Whole banks that another source or session had completed before.
    pub duplicate_banks: u64,
    /// Banks that ended without a report: dead, abandoned or replaced while they were open.
    pub unreported_banks: u64,
    /// Writes of banks that had been reported as whole.
    pub late_writes: u64,
    /// Number of sources closed with a gap.
    pub gaps: u64,
    /// Banks now that are open or wait for their parents.
    pub open_banks: usize,
    /// Bytes of these banks, and of the write versions of unrooted ones.
    pub open_bytes: usize,
    /// Number of whole banks above the root.
    pub unrooted_banks: usize,
}
