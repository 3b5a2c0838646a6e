//! The clock of this crate. All other code takes `now` as an argument.

use std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "the threads with sockets are where time begins")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
