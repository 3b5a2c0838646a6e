//! The clocks of the follower. Everything below takes the time as an argument.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "the time at which an update was received")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the time of an event")]
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
