//! Metrics of the gRPC server.

use std::sync::Arc;

use ::metrics::{Collector, Exposition, MetricKind};
use chain_solana::EventCounters;

use crate::broker::Broker;
use crate::counters::Event;
use crate::gossip_table::GossipTable;

/// The memory of an open connection: its task, and the buffers of its socket and of HTTP/2. Requests that are not read
/// come in addition: its window.
const CONNECTION_BYTES: u64 = 100 * 1024;
/// The memory of its TLS: the session and its buffers.
const TLS_BYTES: u64 = 16 * 1024;

/// The metrics of a server, for a scrape.
pub struct GrpcMetrics {
    pub(crate) broker: Arc<Broker>,
    pub(crate) gossip: Arc<GossipTable>,
    pub(crate) events: EventCounters,
    /// Bytes of the window of a connection.
    pub(crate) window_bytes: u32,
    pub(crate) is_tls: bool,
}

impl GrpcMetrics {
    fn connections(&self) -> u64 {
        let counters = &self.broker.counters;
        counters.sum(Event::Accepted).saturating_sub(counters.sum(Event::Ended))
    }
}

impl Collector for GrpcMetrics {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let memory = self.broker.memory();
        let incomplete = self.broker.shares.incoming.units_in_use() as u64;
        let tls_bytes = if self.is_tls { TLS_BYTES } else { 0 };
        let connection_bytes = CONNECTION_BYTES + u64::from(self.window_bytes) + tls_bytes;
        vec![
            ("grpc_connections", self.connections() * connection_bytes + incomplete),
            ("grpc_events", self.events.bytes() as u64),
            ("grpc_queues", memory.queues as u64),
            ("grpc_sending", memory.sending as u64),
            ("grpc_filters", memory.filters as u64),
            ("grpc_replay", memory.log as u64),
            ("grpc_gossip", self.gossip.bytes() as u64),
        ]
    }

    fn write(&self, out: &mut Exposition) {
        let memory = self.broker.memory();
        let counters = &self.broker.counters;
        let gauges = [
            ("hydrant_grpc_connections_open", "Connections that are open.", self.connections()),
            (
                "hydrant_grpc_subscriptions_open",
                "Subscriptions that are open.",
                memory.listeners as u64,
            ),
            (
                "hydrant_grpc_sending_bytes",
                "Bytes of messages that left their queue and are not written to a socket.",
                memory.sending as u64,
            ),
            (
                "hydrant_grpc_replay_slots",
                "Slots that from_slot can go back.",
                memory.log_slots as u64,
            ),
            (
                "hydrant_grpc_unindexed_cost",
                "Cost of the filters of all clients without an address, owner or signature.",
                self.broker.shares.unindexed_cost.units_in_use() as u64,
            ),
        ];
        for (name, help, value) in gauges {
            out.single(name, MetricKind::Gauge, help, value);
        }
        let counts = [
            (
                "hydrant_grpc_requests_delayed_total",
                "Requests that waited because their client sent more than its rate.",
                Event::RequestDelayed,
            ),
            ("hydrant_grpc_connections_total", "Connections accepted.", Event::Accepted),
            ("hydrant_grpc_messages_total", "Messages queued for clients.", Event::Message),
            (
                "hydrant_grpc_message_bytes_total",
                "Bytes of these messages, before compression.",
                Event::Bytes,
            ),
            (
                "hydrant_grpc_messages_encoded_total",
                "Messages encoded, each for one or more clients.",
                Event::Encoded,
            ),
            ("hydrant_grpc_replayed_total", "Updates sent from the log.", Event::Replayed),
            (
                "hydrant_grpc_lagged_total",
                "Clients closed because they were too slow.",
                Event::Lagged,
            ),
            (
                "hydrant_grpc_events_lost_total",
                "Times that all clients were closed because events of the ledger were lost.",
                Event::EventsLost,
            ),
            (
                "hydrant_grpc_writes_lost_total",
                "Times that the clients of accounts were closed because writes were lost.",
                Event::WritesLost,
            ),
            (
                "hydrant_grpc_transactions_lost_total",
                "Times that transactions were sent at the end of their bank because they were lost before.",
                Event::TransactionsLost,
            ),
        ];
        for (name, help, event) in counts {
            out.single(name, MetricKind::Counter, help, counters.sum(event));
        }
        let help = "Connections, calls and requests refused or ended, by cause.";
        let mut family = out.family("hydrant_grpc_refused_total", MetricKind::Counter, help);
        let causes = [
            ("token", Event::Unauthenticated),
            ("bound", Event::SubscriptionRefused),
            ("filter", Event::RequestRefused),
            ("status_unread", Event::Aborted),
            ("handshake", Event::Late),
            ("connections", Event::ConnectionRefused),
            ("idle", Event::Idle),
            ("request_late", Event::MessageLate),
            ("publishing_time", Event::Shed),
            ("tls", Event::TlsFailed),
        ];
        for (cause, event) in causes {
            family.put(&[("cause", cause)], counters.sum(event));
        }
    }
}
