//! Real time, for programs that measure other processes.

use std::thread;
use std::time::{Duration, Instant};

/// The time now.
#[expect(clippy::disallowed_methods, reason = "other processes are measured in real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Sleeps between two polls of another process.
#[expect(clippy::disallowed_methods, reason = "another process has no value to wait on")]
pub fn sleep_for(duration: Duration) {
    thread::sleep(duration);
}
