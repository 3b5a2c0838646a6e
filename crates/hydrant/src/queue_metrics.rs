//! What the queue in front of the executing thread says in `/metrics`.

use std::sync::Arc;

use chain_solana::QueueBound;
use localnet::{Load, TransactionQueue};
use rpc::metrics::{Collector, Exposition, MetricKind};

/// The queue, for a scrape.
pub(crate) struct QueueMetrics(pub(crate) Arc<TransactionQueue>);

impl Collector for QueueMetrics {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![("transaction_queue", self.0.stats().waiting.bytes)]
    }

    fn write(&self, to: &mut Exposition) {
        let stats = self.0.stats();
        let of = |load: Load| {
            [
                ("transactions", load.transactions),
                ("compute_units", load.compute_units),
                ("bytes", load.bytes),
            ]
        };
        let help = "What waits for execution: transactions, the compute units that they ask for, bytes of memory.";
        let mut family = to.family("hydrant_transaction_queue", MetricKind::Gauge, help);
        for (quantity, count) in of(stats.waiting) {
            family.put(&[("quantity", quantity)], count);
        }
        let help = "The most of it that one client has waiting.";
        let mut family =
            to.family("hydrant_transaction_queue_largest_client", MetricKind::Gauge, help);
        for (quantity, count) in of(stats.largest_client) {
            family.put(&[("quantity", quantity)], count);
        }
        let name = "hydrant_transaction_queue_clients";
        to.single(
            name,
            MetricKind::Gauge,
            "Clients that have something waiting.",
            stats.clients as u64,
        );
        let help = "Transactions refused because the queue, or a share of it, was full, by bound.";
        let mut family =
            to.family("hydrant_transaction_queue_refused_total", MetricKind::Counter, help);
        for (bound, count) in QueueBound::ALL.into_iter().zip(stats.refused) {
            family.put(&[("bound", bound.name())], count);
        }
    }
}
