//! Metrics of the queue in front of the executing thread.

use std::sync::Arc;

use chain_solana::QueueBound;
use localnet::{CallKind, QueuedLoad, RetryStats, TransactionQueue};
use metrics::{Collector, Exposition, MetricKind};

/// The metrics of the transaction queue.
pub(crate) struct QueueMetrics(pub(crate) Arc<TransactionQueue>);

impl Collector for QueueMetrics {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let stats = self.0.stats();
        vec![
            ("transaction_queue", stats.waiting.bytes),
            ("transaction_retries", stats.retries.bytes),
        ]
    }

    fn write(&self, out: &mut Exposition) {
        let stats = self.0.stats();
        let quantities = |load: QueuedLoad| {
            [
                ("transactions", load.transactions),
                ("compute_units", load.compute_units),
                ("bytes", load.bytes),
            ]
        };
        let help = "The load that waits for execution: transactions, requested compute units, bytes of memory.";
        let mut family = out.family("hydrant_transaction_queue", MetricKind::Gauge, help);
        for (quantity, count) in quantities(stats.waiting) {
            family.put(&[("quantity", quantity)], count);
        }
        let help = "The largest share of that load of one client.";
        let mut family =
            out.family("hydrant_transaction_queue_largest_client", MetricKind::Gauge, help);
        for (quantity, count) in quantities(stats.largest_client) {
            family.put(&[("quantity", quantity)], count);
        }
        let name = "hydrant_transaction_queue_clients";
        out.single(
            name,
            MetricKind::Gauge,
            "Clients with waiting transactions.",
            stats.clients as u64,
        );
        let help = "Transactions refused because the queue or a share of it was full, by bound.";
        let mut family =
            out.family("hydrant_transaction_queue_refused_total", MetricKind::Counter, help);
        for (bound, count) in QueueBound::ALL.into_iter().zip(stats.refused) {
            family.put(&[("bound", bound.name())], count);
        }
        let help = "Compute units by which the queue's price of transactions rose because code had to be compiled.";
        let name = "hydrant_transaction_queue_code_units_total";
        out.single(name, MetricKind::Counter, help, stats.code_surcharge_units);
        let RetryStats { waiting, bytes, retried, expired, refused } = stats.retries;
        let help = "Transactions that could not run yet, and wait for a write of their fee payer or nonce account.";
        let mut family = out.family("hydrant_transaction_retries", MetricKind::Gauge, help);
        for (quantity, count) in [("transactions", waiting), ("bytes", bytes)] {
            family.put(&[("quantity", quantity)], count);
        }
        let help = "Transactions that were tried again, waited in vain, or did not wait because too many did.";
        let mut family = out.family("hydrant_transaction_retries_total", MetricKind::Counter, help);
        for (outcome, count) in [("retried", retried), ("expired", expired), ("refused", refused)] {
            family.put(&[("outcome", outcome)], count);
        }
        let help = "Calls that wait for the executing thread: commands of cheat codes, and calls that control forks.";
        let mut family = out.family("hydrant_ledger_calls", MetricKind::Gauge, help);
        for (kind, waiting) in CallKind::ALL.into_iter().zip(stats.calls.waiting) {
            family.put(&[("kind", kind.name())], waiting as u64);
        }
        let help = "Calls refused because too many of their kind waited.";
        let mut family =
            out.family("hydrant_ledger_calls_refused_total", MetricKind::Counter, help);
        for (kind, count) in CallKind::ALL.into_iter().zip(stats.calls.refused) {
            family.put(&[("kind", kind.name())], count);
        }
    }
}
