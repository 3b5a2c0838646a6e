//! Real time, which a load generator must measure.

use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "a load measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a schedule is a time to wait for, not a value")]
pub(crate) fn sleep_until(when: Instant) {
    let left = when.saturating_duration_since(now());
    if left > Duration::ZERO {
        std::thread::sleep(left);
    }
}
