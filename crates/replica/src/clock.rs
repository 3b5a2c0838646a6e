//! The clocks of a replica. Everything below takes the time as an argument.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[expect(
    clippy::disallowed_methods,
    reason = "the time since the last check of the log's generation"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the delay of a record")]
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
