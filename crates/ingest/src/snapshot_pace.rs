//! The pace of the snapshots that readers need behind damages: each damage, and each wrong record, can require one.
//!
//! Input: the starts and ends of snapshots. Output: whether the next one may start.
//! Invariant: of a long time at most half is spent on them, so a log that has damage after damage, or an ingester that
//! logs wrong blocks, does not occupy the store. The first snapshot does not wait.
//! Not here: whether readers need one (`plan`), snapshots that are due by their age (`upkeep`).

use std::time::Duration;

use tokio::time::Instant;

/// Delay before a snapshot that failed is tried again.
const FAILURE_BACKOFF: Duration = Duration::from_secs(10);

/// Why a leader writes a snapshot of the running generation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SnapshotCause {
    /// The newest one is too old.
    Age,
    /// Readers do not get past a damage of the log.
    Damage,
}

/// The pace of snapshots.
pub(crate) struct SnapshotPace {
    /// Shortest pause after a snapshot that was written.
    pause_min: Duration,
    /// Start of the snapshot that is being written. `None` for one that is due by its age.
    started_at: Option<Instant>,
    paused_until: Option<Instant>,
}

impl SnapshotPace {
    /// Creates the pace of snapshots after which there is a pause of at least `pause_min`.
    pub(crate) fn new(pause_min: Duration) -> Self {
        Self { pause_min, started_at: None, paused_until: None }
    }

    /// Notes the start of a snapshot.
    pub(crate) fn note_snapshot_start(&mut self, now: Instant, cause: SnapshotCause) {
        self.started_at = match cause {
            SnapshotCause::Age => None,
            SnapshotCause::Damage => Some(now),
        };
    }

    /// Notes the end of a snapshot. A needed one is followed by a pause of its own length.
    pub(crate) fn note_snapshot_end(&mut self, now: Instant, is_written: bool) {
        let started_at = self.started_at.take();
        let pause = match is_written {
            true => started_at.map(|at| now.saturating_duration_since(at).max(self.pause_min)),
            false => Some(FAILURE_BACKOFF),
        };
        self.paused_until = pause.and_then(|pause| now.checked_add(pause)).or(self.paused_until);
    }

    /// Whether a needed snapshot may start.
    pub(crate) fn can_start_needed_snapshot(&self, now: Instant) -> bool {
        self.paused_until.is_none_or(|until| now >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn needed_snapshots_take_at_most_half_of_the_time() {
        let mut pace = SnapshotPace::new(SECOND * 60);
        let start = Instant::now();
        let mut now = start;
        let mut written = Duration::ZERO;
        for took in [5, 90, 600, 1] {
            let took = SECOND * took;
            assert!(pace.can_start_needed_snapshot(now));
            pace.note_snapshot_start(now, SnapshotCause::Damage);
            now += took;
            written += took;
            pace.note_snapshot_end(now, true);
            let pause = took.max(SECOND * 60);
            assert!(!pace.can_start_needed_snapshot(now + pause - SECOND));
            now += pause;
        }
        assert!(written * 2 <= now - start);
    }

    #[test]
    fn a_failure_has_a_short_pause_and_a_snapshot_that_is_due_by_its_age_none() {
        let mut pace = SnapshotPace::new(SECOND * 60);
        let now = Instant::now();
        pace.note_snapshot_start(now, SnapshotCause::Age);
        pace.note_snapshot_end(now + SECOND * 600, true);
        assert!(pace.can_start_needed_snapshot(now + SECOND * 600));
        pace.note_snapshot_start(now, SnapshotCause::Damage);
        pace.note_snapshot_end(now, false);
        assert!(!pace.can_start_needed_snapshot(now + SECOND * 9));
        assert!(pace.can_start_needed_snapshot(now + SECOND * 10));
    }
}
