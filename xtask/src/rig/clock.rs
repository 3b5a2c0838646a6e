//! Time and pauses of the rig: it waits for other programs.

use std::time::{Duration, Instant};

/// The time now.
#[expect(clippy::disallowed_methods, reason = "the rig waits for other programs")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "the rig polls other programs")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
