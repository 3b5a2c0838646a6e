//! A final block that an archive waits for, and the times at which the log is read for it.
//!
//! In: the reads of the log without the block. Out: whether another read is due.
//! Not here: the reads, and the hole that is recorded without the block (`close_gap`).

use std::time::Duration;

use ledger::Slot;
use tokio::time::Instant;

/// Pause before a log that could not be read to its end is read again for a missing block. It doubles with each read.
const REREAD_BACKOFF: Duration = Duration::from_secs(2);
/// The longest such pause.
const REREAD_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// A final block that neither the history nor the log has.
#[derive(Clone, Copy)]
pub(super) struct ArchiveGap {
    pub(super) slot: Slot,
    pub(super) since: Instant,
    /// The time of the next read of a log that could not be read to its end. It may have the block.
    pub(super) reread_at: Option<Instant>,
    /// The pause after the next read.
    backoff: Duration,
}

impl ArchiveGap {
    pub(super) fn new(slot: Slot, now: Instant) -> Self {
        Self { slot, since: now, reread_at: None, backoff: REREAD_BACKOFF }
    }

    pub(super) fn is_read_due(&self, now: Instant) -> bool {
        self.reread_at.is_some_and(|at| now >= at)
    }

    /// Notes a read of the log without the block.
    pub(super) fn note_read(&mut self, now: Instant, is_incomplete: bool) {
        self.reread_at = is_incomplete.then(|| now + self.backoff);
        self.backoff = (self.backoff * 2).min(REREAD_BACKOFF_MAX);
    }
}
