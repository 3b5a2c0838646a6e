//! The counters of a server: connections, calls and requests.

use ::metrics::Counters;

/// A counted event.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A connection was accepted.
    Accepted,
    /// A connection ended.
    Ended,
    /// A connection was closed because its client did not read what an ended subscription had for it.
    Aborted,
    /// A connection was closed because its client did not start HTTP/2, or TLS before that.
    Late,
    /// A TLS handshake failed: the client does not speak TLS, or does not trust the certificate.
    TlsFailed,
    /// A call without a valid token.
    Unauthenticated,
    /// A subscription or a request was refused at a bound.
    SubscriptionRefused,
    /// A request was invalid.
    RequestRefused,
    /// A connection was closed because its address has too many.
    ConnectionRefused,
    /// A connection was closed because it had no accepted call for too long.
    Idle,
    /// A call ended because its request message was not complete in time.
    MessageLate,
    /// A request waited because its client sent more than its rate.
    RequestDelayed,
    /// A call or a new connection waited because its client made more than its rate.
    CallDelayed,
    /// A call was refused because it would have waited too long.
    CallRefused,
    /// A connection was closed because it had too many calls beyond the rate of its only client.
    CallExcess,
}

const EVENTS: usize = 15;

/// Counts the events of a server.
pub struct ServerCounters(Counters);

impl ServerCounters {
    pub(crate) fn new() -> Self {
        Self(Counters::new(EVENTS))
    }

    /// Adds 1 to the counter of an event.
    pub fn record(&self, event: Event) {
        self.0.add(event as usize, 1);
    }

    /// Returns the number of events.
    pub fn sum(&self, event: Event) -> u64 {
        self.0.sum(event as usize)
    }
}
