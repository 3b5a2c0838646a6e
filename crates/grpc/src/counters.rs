//! The counters of messages and clients. `grpc_server` counts connections, calls and requests.

use ::metrics::Counters;

/// A counted event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
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
    /// The subscriptions of a client were closed because the publisher was behind, mostly by its filters.
    Shed,
    /// Writes of accounts were lost.
    WritesLost,
    /// Transactions were lost before the end of their bank.
    TransactionsLost,
}

const EVENTS: usize = 9;

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
