//! The system's time, which updates and pings carry, and the clock that measures the publisher's work.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 before.
#[expect(clippy::disallowed_methods, reason = "updates and pings carry the system's time")]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time for measurements.
#[expect(clippy::disallowed_methods, reason = "the publisher's work is measured")]
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}
