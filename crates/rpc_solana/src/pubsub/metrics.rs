//! PubSub's metrics: connections, calls, notifications, and clients that were closed.

use std::sync::Arc;
use std::time::Duration;

use jsonrpc::MethodOutput;
use jsonrpc::error::RpcError;
use jsonrpc::metrics::{Metrics, Outcome, WebSocketMetrics};
use metrics::{Collector, Counters, Exposition, MetricKind};
use subscriptions::CloseReason;

use super::PubSub;

/// Events of connections that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEvent {
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
}

const SESSION_EVENTS: usize = 11;

/// The methods, and the execution path of each.
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
pub(super) struct PubSubMetrics(Counters, Arc<WebSocketMetrics>);

impl PubSubMetrics {
    pub(super) fn new() -> Self {
        Self(Counters::new(SESSION_EVENTS), Arc::new(WebSocketMetrics::new(METHODS)))
    }

    /// Records a call, or an invalid message, by its result.
    pub(super) fn record_call(
        &self,
        method: Option<&str>,
        duration: Duration,
        result: Result<&MethodOutput, &RpcError>,
    ) {
        let outcome = result.map_or_else(|err| Outcome::Refused(err.code), |_| Outcome::Succeeded);
        self.1.record(method, duration, outcome);
    }

    /// Adds `count` events.
    pub(super) fn add(&self, event: SessionEvent, count: u64) {
        self.0.add(event as usize, count);
    }

    /// Counts a client that was closed.
    pub(super) fn record_close(&self, reason: CloseReason) {
        match reason {
            CloseReason::MessagesFull { .. } => self.add(SessionEvent::MessagesFull, 1),
            CloseReason::BytesFull { .. } => self.add(SessionEvent::BytesFull, 1),
            CloseReason::NodeBytesFull { .. } => self.add(SessionEvent::NodeBytesFull, 1),
            CloseReason::EventsLost => self.add(SessionEvent::EventsLost, 1),
            CloseReason::ShutDown => {}
        }
    }
}

impl PubSub {
    /// Adds its metrics, and its calls, to those of a node.
    pub fn add_metrics_to(self: &Arc<Self>, metrics: &Metrics) {
        metrics.add_websocket(Arc::clone(&self.metrics.1));
        metrics.add(Arc::clone(self) as Arc<dyn Collector>);
    }
}

impl Collector for PubSub {
    fn write(&self, exposition: &mut Exposition) {
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
                "Bytes of the blocks retained for clients that resume (pubsub.resume_bytes).",
                stats.resume_bytes,
            ),
        ];
        for (name, help, value) in gauges {
            exposition.single(name, MetricKind::Gauge, help, value);
        }
        let count = |event: SessionEvent| self.metrics.0.sum(event as usize);
        let counters = [
            (
                "hydrant_websocket_messages_received_total",
                "Messages of clients.",
                count(SessionEvent::Received),
            ),
            (
                "hydrant_notifications_sent_total",
                "Notifications written to a client, each client's counted.",
                count(SessionEvent::Sent),
            ),
            (
                "hydrant_notifications_conflated_total",
                "Notifications that became one with others because their client was slow.",
                count(SessionEvent::Conflated),
            ),
            (
                "hydrant_websocket_refused_total",
                "Connections closed at once (pubsub.connections_max).",
                count(SessionEvent::Refused),
            ),
        ];
        for (name, help, value) in counters {
            exposition.single(name, MetricKind::Counter, help, value);
        }
        let help = "Clients closed because they lagged, or because events were lost.";
        let mut family =
            exposition.family("hydrant_websocket_lagged_total", MetricKind::Counter, help);
        family.put(&[("cause", "messages_full")], count(SessionEvent::MessagesFull));
        family.put(&[("cause", "bytes_full")], count(SessionEvent::BytesFull));
        family.put(&[("cause", "queues_full")], count(SessionEvent::NodeBytesFull));
        family.put(&[("cause", "events_lost")], count(SessionEvent::EventsLost));
        let help = "Clients closed for a message: too long, not complete in time, or no memory.";
        let name = "hydrant_websocket_messages_refused_total";
        let mut family = exposition.family(name, MetricKind::Counter, help);
        family.put(&[("cause", "too_long")], count(SessionEvent::TooLong));
        family.put(&[("cause", "timeout")], count(SessionEvent::Late));
        family.put(&[("cause", "incoming_full")], count(SessionEvent::IncomingFull));
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let usage = self.subscriptions.memory_usage();
        let stats = self.subscriptions.stats();
        vec![
            ("resume", stats.retained_bytes as u64),
            ("tracked_sets", (usage.index + usage.sets) as u64),
            ("websocket_queues", self.subscriptions.queue_memory().bytes() as u64),
            ("websocket_messages", self.incoming.bytes() as u64),
        ]
    }
}
