//! Metrics of the TPU and its forwarder.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ::tpu::{CONNECTION_BYTES, Counters, DestinationStats, Forwarder, STREAM_BYTES};
use metrics::{Collector, Exposition, MetricKind};

/// The sources of the metrics, without a reference that would prevent the forwarder from being dropped.
pub(crate) struct TpuMetrics {
    pub(crate) counters: Arc<Counters>,
    pub(crate) forwarder: Option<Weak<Forwarder>>,
}

impl Collector for TpuMetrics {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let snapshot = self.counters.snapshot();
        let bytes = snapshot.open * CONNECTION_BYTES
            + snapshot.stream_states * STREAM_BYTES
            + snapshot.unfinished_bytes;
        vec![("quic_connections", bytes)]
    }

    fn write(&self, out: &mut Exposition) {
        let snapshot = self.counters.snapshot();
        let counts = [
            (
                "hydrant_quic_transactions_received_total",
                "Transactions received completely over QUIC.",
                snapshot.received,
            ),
            (
                "hydrant_quic_transaction_bytes_total",
                "Bytes of completely received transactions.",
                snapshot.received_bytes,
            ),
            (
                "hydrant_quic_transactions_accepted_total",
                "Transactions that the ledger accepted.",
                snapshot.accepted,
            ),
            ("hydrant_quic_datagrams_total", "Datagrams received.", snapshot.datagrams),
            ("hydrant_quic_connections_total", "Connections admitted.", snapshot.connections),
            ("hydrant_quic_retries_total", "Retry tokens sent.", snapshot.retries),
        ];
        for (name, help, count) in counts {
            out.single(name, MetricKind::Counter, help, count);
        }
        let name = "hydrant_quic_connections_open";
        out.single(name, MetricKind::Gauge, "Connections that are open.", snapshot.open);
        let help = "Transactions, streams, connections and handshakes refused, by cause.";
        let mut family = out.family("hydrant_quic_refused_total", MetricKind::Counter, help);
        for (cause, count) in snapshot.drop_reasons() {
            family.put(&[("cause", cause)], count);
        }
        let name = "hydrant_quic_transaction_duration_seconds";
        let help = "Time from a transaction's first byte until the ledger accepted it.";
        let mut family = out.family(name, MetricKind::Histogram, help);
        family.histogram(&[], &snapshot.latency);
        let help = "Time of the threads that check transactions, by step.";
        let mut family = out.family("hydrant_quic_step_seconds_total", MetricKind::Counter, help);
        for (step, duration) in snapshot.steps() {
            family.put(&[("step", step)], duration.as_secs_f64());
        }
        if let Some(forwarder) = self.forwarder.as_ref().and_then(Weak::upgrade) {
            write_forwarder(out, &forwarder);
        }
    }
}

type DestinationCounter = fn(&DestinationStats) -> &AtomicU64;

fn write_forwarder(out: &mut Exposition, forwarder: &Forwarder) {
    let destinations: Vec<_> = forwarder
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
    let help = "Forwarded transactions by destination and outcome.";
    let mut family = out.family("hydrant_forwarded_total", MetricKind::Counter, help);
    for (address, counts) in &destinations {
        for (outcome, counter) in outcomes {
            let count = counter(counts).load(Ordering::Relaxed);
            family.put(&[("destination", address), ("outcome", outcome)], count);
        }
    }
    let outcomes: [(&str, DestinationCounter); 2] =
        [("made", |it| &it.connections), ("broken", |it| &it.broken)];
    let help = "Connections to destinations that were established and that broke.";
    let mut family = out.family("hydrant_forward_connections_total", MetricKind::Counter, help);
    for (address, counts) in &destinations {
        for (outcome, counter) in outcomes {
            let count = counter(counts).load(Ordering::Relaxed);
            family.put(&[("destination", address), ("outcome", outcome)], count);
        }
    }
}
