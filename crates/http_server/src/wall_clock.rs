//! The clock of this crate's tests: bodies are limited by bytes a second of real time.

use std::time::Instant;

/// Returns a monotonic clock that starts at 0.
#[expect(clippy::disallowed_methods, reason = "where time enters the tests")]
pub(crate) fn wall_clock() -> impl cpu_pool::Clock {
    let started = Instant::now();
    move || started.elapsed()
}
