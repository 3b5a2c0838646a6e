//! What the door for transactions over QUIC, the ledger's thread and the relay behind it say in `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ::tpu::{Counters, DestinationStats, Forwarder};
use localnet::ExecutorMetrics;
use rpc::metrics::{Collector, Exposition, MetricKind};

/// The counts of a door. The relay is not kept alive by who tells of it.
pub(crate) struct TpuMetrics {
    pub(crate) counters: Arc<Counters>,
    pub(crate) executor_metrics: Arc<ExecutorMetrics>,
    pub(crate) forwarder: Option<Weak<Forwarder>>,
}

impl Collector for TpuMetrics {
    fn write(&self, to: &mut Exposition) {
        let figures = self.counters.snapshot();
        let counts = [
            (
                "hydrant_quic_transactions_received_total",
                "Transactions read whole from QUIC.",
                figures.received,
            ),
            (
                "hydrant_quic_transaction_bytes_total",
                "Bytes of transactions read whole.",
                figures.received_bytes,
            ),
            (
                "hydrant_quic_transactions_accepted_total",
                "Transactions that the ledger took.",
                figures.accepted,
            ),
            ("hydrant_quic_datagrams_total", "Datagrams read.", figures.datagrams),
            ("hydrant_quic_connections_total", "Connections admitted.", figures.connections),
            ("hydrant_quic_retries_total", "Retry tokens sent.", figures.retries),
        ];
        for (name, help, count) in counts {
            to.single(name, MetricKind::Counter, help, count);
        }
        let name = "hydrant_quic_connections_open";
        to.single(name, MetricKind::Gauge, "Connections that are open.", figures.open);
        let help = "Transactions, streams, connections and handshakes refused, by cause.";
        let mut family = to.family("hydrant_quic_refused_total", MetricKind::Counter, help);
        for (cause, count) in figures.drop_reasons() {
            family.put(&[("cause", cause)], count);
        }
        let name = "hydrant_quic_transaction_duration_seconds";
        let help = "Time from a transaction's first byte until the ledger took it.";
        let mut family = to.family(name, MetricKind::Histogram, help);
        let last = figures.latencies().count() - 1;
        let buckets = figures.latencies().enumerate().map(|(at, (below_us, count))| {
            (if at == last { f64::INFINITY } else { below_us as f64 / 1e6 }, count)
        });
        family.buckets(&[], buckets, figures.latency_us as f64 / 1e6);
        let help = "Time of the threads that check transactions, by what they did.";
        let mut family = to.family("hydrant_quic_step_seconds_total", MetricKind::Counter, help);
        for (step, took) in figures.steps() {
            family.put(&[("step", step)], took.as_secs_f64());
        }
        let help = "Time of the thread that executes transactions, by what it did.";
        let mut family = to.family("hydrant_executor_seconds_total", MetricKind::Counter, help);
        for (part, took) in self.executor_metrics.phases() {
            family.put(&[("part", part)], took.as_secs_f64());
        }
        if let Some(relay) = self.forwarder.as_ref().and_then(Weak::upgrade) {
            write_forwarder(to, &relay);
        }
    }
}

type DestinationCounter = fn(&DestinationStats) -> &AtomicU64;

fn write_forwarder(to: &mut Exposition, relay: &Forwarder) {
    let destinations: Vec<_> = relay
        .destinations()
        .into_iter()
        .map(|(address, counts)| (address.to_string(), counts))
        .collect();
    let outcomes: [(&str, DestinationCounter); 6] = [
        ("sent", |it| &it.sent),
        ("delivered", |it| &it.delivered),
        ("again", |it| &it.requeued),
        ("refused", |it| &it.refused),
        ("expired", |it| &it.expired),
        ("full", |it| &it.queue_full),
    ];
    let help = "Forwarded transactions by destination and by what became of them.";
    let mut family = to.family("hydrant_forwarded_total", MetricKind::Counter, help);
    for (address, counts) in &destinations {
        for (outcome, figure) in outcomes {
            let count = figure(counts).load(Ordering::Relaxed);
            family.put(&[("destination", address), ("outcome", outcome)], count);
        }
    }
    let outcomes: [(&str, DestinationCounter); 2] =
        [("made", |it| &it.connections), ("broken", |it| &it.broken)];
    let help = "Connections to destinations that were made, and that broke.";
    let mut family = to.family("hydrant_forward_connections_total", MetricKind::Counter, help);
    for (address, counts) in &destinations {
        for (outcome, figure) in outcomes {
            let count = figure(counts).load(Ordering::Relaxed);
            family.put(&[("destination", address), ("outcome", outcome)], count);
        }
    }
}
