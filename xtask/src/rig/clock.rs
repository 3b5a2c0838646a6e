//! Time and pauses of the rig: it waits for other programs.

use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "the rig waits for other programs")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the rig polls other programs")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
