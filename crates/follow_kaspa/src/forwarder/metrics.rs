//! Counters of forwarded calls.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Collector, Exposition, MetricKind};

use super::{ForwardError, Forwarder};

/// The outcomes of calls, each with its counter at the same index.
const OUTCOMES: [&str; 10] = [
    "reply",
    "malformed",
    "invalid_params",
    "request_too_long",
    "unavailable",
    "client_limit",
    "queue_full",
    "timeout",
    "reply_too_long",
    "replies_full",
];

/// Counts calls by their outcome.
#[derive(Debug, Default)]
pub(super) struct ForwardMetrics {
    outcomes: [AtomicU64; OUTCOMES.len()],
}

impl ForwardMetrics {
    pub(super) fn record<T>(&self, result: &Result<T, ForwardError>) {
        let label = result.as_ref().err().map_or("reply", ForwardError::label);
        if let Some(at) = OUTCOMES.iter().position(|outcome| *outcome == label) {
            self.outcomes[at].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Collector for Forwarder {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("kaspa_forward_queue", self.requests.bytes_in_use() as u64),
            ("kaspa_forward_replies", self.replies.bytes_in_use() as u64),
        ]
    }

    fn write(&self, out: &mut Exposition) {
        let help = "Calls of clients for the upstream, by outcome.";
        let mut family = out.family("hydrant_kaspa_forwarded_total", MetricKind::Counter, help);
        for (outcome, count) in OUTCOMES.into_iter().zip(&self.metrics.outcomes) {
            family.put(&[("outcome", outcome)], count.load(Ordering::Relaxed));
        }
        let help = "Calls of clients that wait for the upstream, by kind of method.";
        let mut family = out.family("hydrant_kaspa_forwarding", MetricKind::Gauge, help);
        let queues = [Some(&self.borsh), self.json.as_ref()];
        let encodings = ["borsh", "json"].into_iter().zip(queues);
        for (encoding, queues) in encodings.filter_map(|(name, queues)| Some((name, queues?))) {
            for (kind, queue) in [("common", &queues.common), ("slow", &queues.slow)] {
                family.put(&[("encoding", encoding), ("kind", kind)], queue.calls());
            }
        }
    }
}
