//! The time that CI may take, and whether a step still fits into it.
//!
//! Input: the start of the run, and for each finished step its time here and on the reference machine. Output: whether
//! the next step is started, or why it is skipped.
//! Machines differ by a factor of five, so a fixed list of steps is too long for some of them. The first steps
//! are never skipped, and they show how fast this machine is.
//! Invariant: time is an argument, so that the decisions can be tested.

use std::time::Duration;

/// The default budget of a run. The CI service ends a run after 90 minutes.
pub(crate) const TOTAL: Duration = Duration::from_secs(80 * 60);

/// The least slowness that is assumed. Earlier builds make the first steps short, but not the later ones.
const SLOWNESS_MIN: f64 = 0.5;

/// Time that is left for a run, and how slow its machine has been so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    total: Duration,
    /// Time of the finished steps on this machine, and on the reference machine.
    took: Duration,
    reference: Duration,
}

impl Budget {
    pub(crate) fn new(total: Duration) -> Self {
        Self { total, took: Duration::ZERO, reference: Duration::ZERO }
    }

    /// Adds the times of a finished step.
    pub(crate) fn record(&mut self, reference: Duration, took: Duration) {
        self.took += took;
        self.reference += reference;
    }

    /// Returns the time of this machine as a multiple of the reference machine's.
    pub(crate) fn slowness(&self) -> f64 {
        if self.reference.is_zero() {
            return 1.0;
        }
        (self.took.as_secs_f64() / self.reference.as_secs_f64()).max(SLOWNESS_MIN)
    }

    /// Returns the remaining time after `elapsed`.
    pub(crate) fn remaining_after(&self, elapsed: Duration) -> Duration {
        self.total.saturating_sub(elapsed)
    }

    /// Whether a step that takes `reference` on the reference machine fits after `elapsed`; if not, why.
    pub(crate) fn check_fits(&self, reference: Duration, elapsed: Duration) -> Result<(), String> {
        let slowness = self.slowness();
        let needed = reference.mul_f64(slowness);
        let left = self.remaining_after(elapsed);
        if needed <= left {
            return Ok(());
        }
        Err(format!(
            "needs about {} s here ({slowness:.1} times the reference machine), and {} s of {} s are left",
            needed.as_secs(),
            left.as_secs(),
            self.total.as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_step_that_fits_is_started_and_one_that_does_not_says_why() {
        let mut budget = Budget::new(seconds(1_000));
        budget.record(seconds(100), seconds(300));
        assert_eq!(budget.check_fits(seconds(200), seconds(400)), Ok(()));
        assert_eq!(
            budget.check_fits(seconds(201), seconds(400)),
            Err("needs about 603 s here (3.0 times the reference machine), and 600 s of 1000 s are left"
                .to_owned())
        );
    }

    #[test]
    fn nothing_fits_once_the_time_is_over() {
        let budget = Budget::new(seconds(1_000));
        assert!(budget.check_fits(seconds(1), seconds(1_001)).is_err());
        assert_eq!(budget.remaining_after(seconds(5_000)), Duration::ZERO);
    }

    #[test]
    fn what_was_built_before_does_not_make_later_steps_free() {
        let mut budget = Budget::new(seconds(1_000));
        budget.record(seconds(400), seconds(2));
        assert!(budget.check_fits(seconds(600), seconds(701)).is_err());
        assert!(budget.check_fits(seconds(600), seconds(700)).is_ok());
    }
}
