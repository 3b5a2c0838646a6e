//! What PubSub says in `/metrics`: who is connected, what was called and told, and who could not keep up.

use std::time::Duration;

use subscriptions::CloseReason;

use super::PubSub;
use crate::error::RpcError;
use crate::methods::MethodOutput;
use crate::metrics::{Collector, Counters, Exposition, MetricKind, Outcome, WebSocketMetrics};

/// What is counted of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEvent {
    /// A message of a client.
    Received,
    /// A notification, to one client.
    Sent,
    /// A notification that a client did not get: it got the newest of several instead.
    Conflated,
    /// A client that could not be taken on (`pubsub.connections_max`).
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
    /// A client that was closed because a message was not whole in time (`pubsub.message_timeout_ms`).
    Late,
    /// A client that was closed because there was no room for its message (`pubsub.incoming_bytes_max`).
    IncomingFull,
}

const SESSION_EVENTS: usize = 11;

/// What may be called, and where it is answered.
const METHODS: &[(&str, &str)] = &[
    ("accountSubscribe", "inline"),
    ("accountUnsubscribe", "inline"),
    ("addressesSubscribe", "medium"),
    ("addressesUnsubscribe", "medium"),
    ("addressesUpdate", "medium"),
    ("blockSubscribe", "inline"),
    ("blockUnsubscribe", "inline"),
    ("getVersion", "inline"),
    ("logsSubscribe", "inline"),
    ("logsUnsubscribe", "inline"),
    ("programSubscribe", "inline"),
    ("programUnsubscribe", "inline"),
    ("rootSubscribe", "inline"),
    ("rootUnsubscribe", "inline"),
    ("signatureSubscribe", "inline"),
    ("signatureUnsubscribe", "inline"),
    ("slotSubscribe", "inline"),
    ("slotUnsubscribe", "inline"),
    ("slotsUpdatesSubscribe", "inline"),
    ("slotsUpdatesUnsubscribe", "inline"),
    ("transactionSubscribe", "inline"),
    ("transactionUnsubscribe", "inline"),
    ("voteSubscribe", "inline"),
    ("voteUnsubscribe", "inline"),
];

/// The counts, of all connections together.
pub(super) struct PubSubMetrics(Counters, WebSocketMetrics);

impl PubSubMetrics {
    pub(super) fn new() -> Self {
        Self(Counters::new(SESSION_EVENTS), WebSocketMetrics::new(METHODS))
    }

    /// Counts a call, or what is none, by its answer.
    pub(super) fn record_call(
        &self,
        method: Option<&str>,
        took: Duration,
        answer: Result<&MethodOutput, &RpcError>,
    ) {
        let outcome = answer.map_or_else(|err| Outcome::Refused(err.code), |_| Outcome::Succeeded);
        self.1.record(method, took, outcome);
    }

    /// Counts so many.
    pub(super) fn add(&self, what: SessionEvent, by: u64) {
        self.0.add(what as usize, by);
    }

    /// Counts why a client was closed.
    pub(super) fn record_close(&self, why: CloseReason) {
        match why {
            CloseReason::MessagesFull { .. } => self.add(SessionEvent::MessagesFull, 1),
            CloseReason::BytesFull { .. } => self.add(SessionEvent::BytesFull, 1),
            CloseReason::NodeBytesFull { .. } => self.add(SessionEvent::NodeBytesFull, 1),
            CloseReason::EventsLost => self.add(SessionEvent::EventsLost, 1),
            CloseReason::ShutDown => {}
        }
    }
}

impl Collector for PubSub {
    fn websocket_metrics(&self) -> Option<&WebSocketMetrics> {
        Some(&self.metrics.1)
    }

    fn write(&self, to: &mut Exposition) {
        let stats = self.stats();
        let gauges = [
            (
                "hydrant_websocket_connections",
                "WebSocket connections that are open.",
                stats.connections,
            ),
            (
                "hydrant_subscriptions",
                "Subscriptions, each connection's counted.",
                stats.subscriptions,
            ),
            (
                "hydrant_subscriptions_distinct",
                "Subscriptions that differ.",
                stats.distinct_subscriptions,
            ),
            (
                "hydrant_tracked_addresses",
                "Addresses of all subscribed sets.",
                stats.tracked_addresses,
            ),
            (
                "hydrant_websocket_queue_messages",
                "Notifications that wait for clients to read.",
                stats.queue_messages,
            ),
            ("hydrant_websocket_queue_bytes", "Bytes of those notifications.", stats.queue_bytes),
            (
                "hydrant_websocket_notification_bytes",
                "Bytes of notifications in memory, shared ones once (pubsub.queues_bytes_max).",
                stats.notification_bytes,
            ),
            (
                "hydrant_websocket_unwritten_bytes",
                "Bytes that are being written and that clients' sockets have not taken.",
                stats.unwritten_bytes,
            ),
            (
                "hydrant_websocket_incoming_bytes",
                "Bytes of messages that clients have begun to send (pubsub.incoming_bytes_max).",
                stats.incoming_bytes,
            ),
            (
                "hydrant_resume_bytes",
                "Bytes of the blocks kept for those who resume (pubsub.resume_bytes).",
                stats.resume_bytes,
            ),
        ];
        for (name, help, figure) in gauges {
            to.single(name, MetricKind::Gauge, help, figure);
        }
        let told = |what: SessionEvent| self.metrics.0.sum(what as usize);
        let counters = [
            (
                "hydrant_websocket_messages_received_total",
                "Messages of clients.",
                told(SessionEvent::Received),
            ),
            (
                "hydrant_notifications_sent_total",
                "Notifications written to a client, each client's counted.",
                told(SessionEvent::Sent),
            ),
            (
                "hydrant_notifications_conflated_total",
                "Notifications that became one with others because their client was slow.",
                told(SessionEvent::Conflated),
            ),
            (
                "hydrant_websocket_refused_total",
                "Connections closed at once (pubsub.connections_max).",
                told(SessionEvent::Refused),
            ),
        ];
        for (name, help, count) in counters {
            to.single(name, MetricKind::Counter, help, count);
        }
        let help = "Clients closed because they lagged, or because events were lost.";
        let mut family = to.family("hydrant_websocket_lagged_total", MetricKind::Counter, help);
        family.put(&[("cause", "messages_full")], told(SessionEvent::MessagesFull));
        family.put(&[("cause", "bytes_full")], told(SessionEvent::BytesFull));
        family.put(&[("cause", "queues_full")], told(SessionEvent::NodeBytesFull));
        family.put(&[("cause", "events_lost")], told(SessionEvent::EventsLost));
        let help = "Clients closed for a message: too long, not whole in time, or without room.";
        let name = "hydrant_websocket_messages_refused_total";
        let mut family = to.family(name, MetricKind::Counter, help);
        family.put(&[("cause", "too_long")], told(SessionEvent::TooLong));
        family.put(&[("cause", "timeout")], told(SessionEvent::Late));
        family.put(&[("cause", "incoming_full")], told(SessionEvent::IncomingFull));
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let bytes = self.subscriptions.memory_usage();
        let counts = self.subscriptions.stats();
        vec![
            ("resume", counts.retained_bytes as u64),
            ("tracked_sets", (bytes.index + bytes.sets) as u64),
            ("websocket_queues", self.subscriptions.queue_memory().bytes() as u64),
            ("websocket_messages", self.incoming.bytes() as u64),
        ]
    }
}
