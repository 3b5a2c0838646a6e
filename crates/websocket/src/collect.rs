//! The metric families of connections and subscriptions, and the memory of their parts.

use metrics::{Collector, Exposition, MetricKind};

use crate::counters::SessionEvent;
use crate::protocol_types::ProtocolTypes;
use crate::server::Server;

impl<P: ProtocolTypes> Collector for Server<P> {
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
                "Distinct addresses of all subscribed sets (--max-tracked-addresses).",
                stats.tracked_addresses,
            ),
            (
                "hydrant_tracked_pairs",
                "Pairs of a distinct subscription and an address (pubsub.tracked_pairs_max).",
                stats.tracked_pairs,
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
        let count = |event: SessionEvent| self.counters.sum(event);
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
            (
                "hydrant_websocket_revoked_total",
                "Connections closed because their API key was removed.",
                count(SessionEvent::Revoked),
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
