//! Metrics of the gRPC server.

use std::sync::Arc;

use ::metrics::{Collector, Exposition, MetricKind};
use chain_solana::EventCounters;
use grpc_server::{Refusals, ServerMetrics};

use crate::broker::Broker;
use crate::counters::Event;
use crate::gossip_table::GossipTable;

/// The metrics of a server, for a scrape.
pub struct GrpcMetrics {
    pub(crate) broker: Arc<Broker>,
    pub(crate) gossip: Arc<GossipTable>,
    pub(crate) events: EventCounters,
    pub(crate) server: ServerMetrics,
}

impl Collector for GrpcMetrics {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let memory = self.broker.memory();
        vec![
            ("grpc_connections", self.server.connections_bytes()),
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
        let refusals = [Refusals { cause: "publishing_time", count: counters.sum(Event::Shed) }];
        self.server.write_with(out, &refusals);
    }
}
