//! Limits how often a line about a repeated fault is logged.
//!
//! Bounds: a line each second. The next one has the number of those in between.

use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(1);

/// The limit of one line of the log.
#[derive(Default)]
pub(crate) struct LineLimit {
    logged_at: Option<Instant>,
    omitted: u64,
}

impl LineLimit {
    /// Returns the number of lines that were omitted before this one. `None` if it is omitted, too.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.logged_at.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL) {
            self.omitted += 1;
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;

    #[test]
    fn a_repeated_line_is_logged_once_a_second_with_the_number_of_the_others() {
        let start = monotonic();
        let mut limit = LineLimit::default();
        let mut admit = |ms| limit.admit(start + Duration::from_millis(ms));
        assert_eq!([0, 1, 999].map(&mut admit), [Some(0), None, None]);
        assert_eq!([1_000, 1_999, 2_000].map(&mut admit), [Some(2), None, Some(1)]);
    }
}
