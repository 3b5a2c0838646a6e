//! The counters of the server.

use ::metrics::Counters;

/// A counted event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Accepted,
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
    /// A client was closed because it was too slow.
    Lagged,
    /// A message was queued for a client.
    Message,
    /// Bytes of messages, before compression.
    Bytes,
    /// A message was encoded, for one or more clients.
    Encoded,
    /// Updates that clients replayed.
    Replayed,
    /// Events of the ledger were lost.
    EventsLost,
    /// A connection was closed because its address has too many.
    ConnectionRefused,
    /// A connection was closed because it had no accepted call for too long.
    Idle,
    /// A call ended because its request message was not complete in time.
    MessageLate,
    /// The subscriptions of a client were closed because the publisher was behind, mostly by its filters.
    Shed,
    /// Writes of accounts were lost.
    WritesLost,
    /// Transactions were lost before the end of their bank.
    TransactionsLost,
    /// A request waited because its client sent more than its rate.
    RequestDelayed,
}

const EVENTS: usize = 21;

pub(crate) struct GrpcCounters(Counters);

impl GrpcCounters {
    pub(crate) fn new() -> Self {
        Self(Counters::new(EVENTS))
    }

    pub(crate) fn record(&self, event: Event) {
        self.add(event, 1);
    }

    pub(crate) fn add(&self, event: Event, by: u64) {
        self.0.add(event as usize, by);
    }

    pub(crate) fn sum(&self, event: Event) -> u64 {
        self.0.sum(event as usize)
    }
}
