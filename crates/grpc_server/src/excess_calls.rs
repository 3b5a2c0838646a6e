//! The calls of a connection beyond both rates of their client: that of calls, and that of refusals.
//!
//! In: each of these calls. Out: the end of the connection, or the delay of its next read.
//! Shape: all connections of a client share its rates, and without API keys all clients of an address do. So a few
//! excess calls have no effect on their connection: another one may have used up the rates, and this one may have
//! subscriptions. A client with up to [`EXCESS_CALLS_MAX`] calls at once that waits for its refusals does not exceed
//! that. One with more calls, or one that resets them to avoid the wait, loses the connection. A connection of several
//! clients does not end, because others of them may be within their rates. It is read later, so that its calls do not
//! use up a processor.
//! Bounds: two token buckets. A read is delayed by [`READ_DELAY_MAX`] at most, so that a short flood does not delay the
//! acknowledgement of HTTP/2's pings, which would end the connection. A long one does.
//! Not here: the rates (`request_budget`).

use std::time::Duration;

use clients::TokenBucket;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::request_budget::REFUSAL_WAIT_MAX;

/// Excess calls of a connection in [`REFUSAL_WAIT_MAX`] that have no effect on it. A larger value lets more refusals
/// wait; a smaller one ends connections of clients that make few calls.
pub(crate) const EXCESS_CALLS_MAX: u32 = 20;
/// Time by which each further call delays the next read of a connection of several clients. A larger value delays the
/// other clients more; a smaller one lets one client use more of a processor.
const READ_DELAY: Duration = Duration::from_millis(2);
/// Maximum delay of one read, however many calls came before it.
const READ_DELAY_MAX: Duration = Duration::from_secs(2);

/// The excess calls of one connection.
#[derive(Default)]
pub(crate) struct ExcessCalls {
    buckets: Mutex<Buckets>,
    /// Notified if the connection must end.
    end: Notify,
}

#[derive(Default)]
struct Buckets {
    calls: TokenBucket,
    /// Full when the next read is due.
    reads: TokenBucket,
}

impl ExcessCalls {
    /// Records an excess call. Returns whether the connection has too many of them.
    pub(crate) fn record(&self, now: Duration) -> bool {
        let cost = REFUSAL_WAIT_MAX / EXCESS_CALLS_MAX;
        self.buckets.lock().calls.try_take(cost, REFUSAL_WAIT_MAX, now).is_err()
    }

    /// Notifies the task of the connection that it must end.
    pub(crate) fn end_connection(&self) {
        self.end.notify_one();
    }

    /// Waits until the connection must end.
    pub(crate) async fn wait_for_end(&self) {
        self.end.notified().await;
    }

    /// Delays the next read of the connection.
    pub(crate) fn delay_read(&self, now: Duration) {
        self.buckets.lock().reads.take_up_to(READ_DELAY, READ_DELAY_MAX, now);
    }

    /// Returns the time until the next read is due.
    pub(crate) fn read_delay(&self, now: Duration) -> Duration {
        self.buckets.lock().reads.time_to_full(now)
    }
}
