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

/// The longest wait for a log that cannot be read at all. Meanwhile later blocks may leave the history.
const UNREADABLE_TIMEOUT: Duration = Duration::from_secs(1_800);

/// A final block that neither the history nor the log has.
#[derive(Clone, Copy)]
pub(super) struct ArchiveGap {
    pub(super) slot: Slot,
    since: Instant,
    /// The end of the first read. `None` if the log could not be read.
    read_at: Option<Instant>,
    /// The time of the next read of a log that could not be read to its end. It may have the block.
    pub(super) reread_at: Option<Instant>,
    /// The pause after the next read.
    backoff: Duration,
}

impl ArchiveGap {
    pub(super) fn new(slot: Slot, now: Instant) -> Self {
        Self { slot, since: now, read_at: None, reread_at: None, backoff: REREAD_BACKOFF }
    }

    pub(super) fn is_read_due(&self, now: Instant) -> bool {
        self.reread_at.is_some_and(|at| now >= at)
    }

    /// Notes a read of the log without the block.
    pub(super) fn note_read(&mut self, now: Instant, is_incomplete: bool) {
        self.read_at.get_or_insert(now);
        self.reread_at = is_incomplete.then(|| now + self.backoff);
        self.double_backoff();
    }

    /// Notes that the log could not be read.
    pub(super) fn note_failure(&mut self, now: Instant) {
        self.reread_at = Some(now + self.backoff);
        self.double_backoff();
    }

    fn double_backoff(&mut self) {
        self.backoff = (self.backoff * 2).min(REREAD_BACKOFF_MAX);
    }

    /// Whether the wait for the block is over: `timeout` after the first read, or later if the log cannot be read.
    pub(super) fn is_over(&self, now: Instant, timeout: Duration) -> bool {
        let has_passed = |since: Instant, timeout| now.duration_since(since) >= timeout;
        self.read_at.is_some_and(|at| has_passed(at, timeout))
            || has_passed(self.since, UNREADABLE_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_cannot_be_read_is_waited_for_longer_and_tried_less_and_less_often() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let timeout = Duration::from_secs(120);
        let mut gap = ArchiveGap::new(7, start);
        let mut tried = Vec::new();
        for seconds in 0..200 {
            if seconds == 0 || gap.is_read_due(at(seconds)) {
                gap.note_failure(at(seconds));
                tried.push(seconds);
            }
            assert!(!gap.is_over(at(seconds), timeout));
        }
        assert_eq!(tried, [0, 2, 6, 14, 30, 62, 122, 182]);
        assert!(gap.is_over(at(1_800), timeout));
        gap.note_read(at(200), false);
        assert!(!gap.is_read_due(at(10_000)), "it was read to its end");
        assert!(!gap.is_over(at(319), timeout) && gap.is_over(at(320), timeout));
    }
}
