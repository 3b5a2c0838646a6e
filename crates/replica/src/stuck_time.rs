//! How long a replica has been stuck at a fault: it reaches the log, and finds no way to continue.
//!
//! Input: attempts to continue that failed, and outages of the log or the store. Output: the time since the first
//! attempt, without the outages. A fault is reported after some of it.
//! Invariant: outages are left out, because a report cannot end them. They do not reset the time: a fault of a log that
//! is out of reach now and then would never be reported.
//! Not here: the report (`log_follower`).

use std::time::Duration;

use tokio::time::Instant;

/// The time that a replica has been stuck since the last good record.
#[derive(Debug, Default)]
pub(crate) struct StuckTime {
    /// The time up to the last attempt or outage.
    total: Duration,
    /// The last attempt, unless an outage has followed it.
    counted_to: Option<Instant>,
}

impl StuckTime {
    /// Notes an attempt that found no way to continue. Returns the time since the first one, without the outages.
    pub(crate) fn note_attempt(&mut self, now: Instant) -> Duration {
        self.note_outage(now);
        self.counted_to = Some(now);
        self.total
    }

    /// Notes that the log or the store cannot be reached.
    pub(crate) fn note_outage(&mut self, now: Instant) {
        if let Some(from) = self.counted_to.take() {
            self.total += now.saturating_duration_since(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn outages_neither_count_nor_start_the_time_again() {
        let start = Instant::now();
        let mut stuck = StuckTime::default();
        stuck.note_outage(start);
        assert_eq!(stuck.note_attempt(start), Duration::ZERO);
        assert_eq!(stuck.note_attempt(start + SECOND * 10), SECOND * 10);
        stuck.note_outage(start + SECOND * 11);
        stuck.note_outage(start + SECOND * 300);
        assert_eq!(stuck.note_attempt(start + SECOND * 600), SECOND * 11);
        assert_eq!(stuck.note_attempt(start + SECOND * 605), SECOND * 16);
    }
}
