//! The pace of the rounds of a log's upkeep.
//!
//! Input: the starts and ends of rounds. Output: whether the next one is due.
//! Invariant: the first round of a term is due at once, and a round that did not list the snapshots is repeated soon: a
//! new leader writes no snapshot that readers need before it knows those of the leaders before it. The delay doubles
//! with each further failure, up to the interval, so a failure that lasts costs hardly more requests than a success.
//! Not here: the content of a round (`upkeep`), the pace of snapshots (`snapshot_pace`).

use std::time::Duration;

use tokio::time::Instant;

/// Delay after the first round that did not list the snapshots. A smaller value sends more requests to a store that
/// fails.
const FAILURE_BACKOFF: Duration = Duration::from_secs(5);

/// The pace of rounds.
pub(crate) struct RoundPace {
    interval: Duration,
    /// Delay after the next failure.
    failure_backoff: Duration,
    last: Option<LastRound>,
}

/// The last round that was started.
struct LastRound {
    /// The term in which it started.
    term: u64,
    /// The time at which the next one of this term is due.
    next_at: Instant,
}

impl RoundPace {
    /// Creates the pace of rounds that start an interval apart within a term.
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, failure_backoff: FAILURE_BACKOFF, last: None }
    }

    /// Whether a round of this term is due.
    pub(crate) fn is_due(&self, now: Instant, term: u64) -> bool {
        self.last.as_ref().is_none_or(|last| last.term != term || now >= last.next_at)
    }

    /// Notes the start of a round.
    pub(crate) fn note_start(&mut self, now: Instant, term: u64) {
        if self.last.as_ref().is_none_or(|last| last.term != term) {
            self.failure_backoff = FAILURE_BACKOFF;
        }
        self.last = Some(LastRound { term, next_at: now + self.interval });
    }

    /// Notes the end of the round.
    pub(crate) fn note_end(&mut self, now: Instant, has_listed_snapshots: bool) {
        if has_listed_snapshots {
            self.failure_backoff = FAILURE_BACKOFF;
        } else if let Some(last) = &mut self.last {
            last.next_at = last.next_at.min(now + self.failure_backoff);
            self.failure_backoff = (self.failure_backoff * 2).min(self.interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(60);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn rounds_of_a_term_are_apart_and_the_first_one_is_due_at_once() {
        let start = Instant::now();
        let mut pace = RoundPace::new(INTERVAL);
        assert!(pace.is_due(start, 1));
        pace.note_start(start, 1);
        pace.note_end(start + SECOND, true);
        assert!(!pace.is_due(start + INTERVAL - SECOND, 1));
        assert!(pace.is_due(start + INTERVAL, 1));
        assert!(pace.is_due(start + SECOND, 2));
    }

    /// Starts a round that fails at once, and checks the delay of the next one. Returns the time of that one.
    fn fail_round(pace: &mut RoundPace, now: Instant, term: u64, delay: Duration) -> Instant {
        assert!(pace.is_due(now, term));
        pace.note_start(now, term);
        pace.note_end(now, false);
        assert!(!pace.is_due(now + delay - SECOND, term), "{delay:?}");
        now + delay
    }

    #[test]
    fn rounds_that_fail_are_repeated_with_growing_delays() {
        let mut now = Instant::now();
        let mut pace = RoundPace::new(INTERVAL);
        for seconds in [5, 10, 20, 40, 60, 60] {
            now = fail_round(&mut pace, now, 1, Duration::from_secs(seconds));
        }
        assert!(pace.is_due(now, 1));
        pace.note_start(now, 1);
        pace.note_end(now, true);
        assert!(!pace.is_due(now + INTERVAL - SECOND, 1));
        now = fail_round(&mut pace, now + INTERVAL, 1, FAILURE_BACKOFF);
        now = fail_round(&mut pace, now, 1, FAILURE_BACKOFF * 2);
        now = fail_round(&mut pace, now, 2, FAILURE_BACKOFF);
        assert!(pace.is_due(now, 2), "a new term starts with the shortest delay");
    }

    #[test]
    fn a_failure_does_not_delay_the_next_round() {
        let start = Instant::now();
        let mut pace = RoundPace::new(SECOND);
        pace.note_start(start, 1);
        pace.note_end(start, false);
        assert!(pace.is_due(start + SECOND, 1));
    }
}
