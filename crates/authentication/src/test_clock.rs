//! The clock of this crate's tests.

use std::time::{Duration, Instant};

/// The system's monotonic clock, from 0 at its creation.
pub(crate) struct TestClock(Instant);

impl TestClock {
    #[expect(clippy::disallowed_methods, reason = "where time enters the tests")]
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl pool::Clock for TestClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
