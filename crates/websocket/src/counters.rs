//! Counters of connections: messages, notifications, and clients that were closed.
//!
//! Not here: the metric families (`collect`).

use metrics::Counters;
use subscriptions::CloseReason;

/// Events of connections that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEvent {
    /// A message of a client.
    Received,
    /// A notification, to one client.
    Sent,
    /// A notification that a client did not get: it got the newest state of several instead.
    Conflated,
    /// A client that was refused (`pubsub.connections_max`).
    Refused,
    /// A client that was closed because too many messages waited for it.
    MessagesFull,
    /// A client that was closed because too many bytes waited for it.
    BytesFull,
    /// A client that was closed because too many bytes waited for all clients.
    NodeBytesFull,
    /// A client that was closed because events were lost (`pubsub.events_max`).
    EventsLost,
    /// A client that was closed because a message was over a limit.
    TooLong,
    /// A client that was closed because a message was not complete in time (`pubsub.message_timeout_ms`).
    Late,
    /// A client that was closed because there was no memory for its message (`pubsub.incoming_bytes_max`).
    IncomingFull,
    /// A client that was closed because its API key was removed.
    Revoked,
}

const SESSION_EVENTS: usize = 12;

/// The counts, of all connections together.
pub(crate) struct SessionCounters(Counters);

impl SessionCounters {
    pub(crate) fn new() -> Self {
        Self(Counters::new(SESSION_EVENTS))
    }

    pub(crate) fn sum(&self, event: SessionEvent) -> u64 {
        self.0.sum(event as usize)
    }

    /// Adds `count` events.
    pub(crate) fn add(&self, event: SessionEvent, count: u64) {
        self.0.add(event as usize, count);
    }

    /// Counts a client that was closed.
    pub(crate) fn record_close(&self, reason: CloseReason) {
        match reason {
            CloseReason::MessagesFull { .. } => self.add(SessionEvent::MessagesFull, 1),
            CloseReason::BytesFull { .. } => self.add(SessionEvent::BytesFull, 1),
            CloseReason::NodeBytesFull { .. } => self.add(SessionEvent::NodeBytesFull, 1),
            CloseReason::EventsLost => self.add(SessionEvent::EventsLost, 1),
            CloseReason::Revoked => self.add(SessionEvent::Revoked, 1),
            CloseReason::ShutDown => {}
        }
    }
}
