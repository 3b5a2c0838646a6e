//! Counters of forwarded calls.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Exposition, MetricKind};

use super::error::ForwardError;

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

    pub(super) fn write(&self, out: &mut Exposition) {
        let help = "Calls of clients for the upstream, by outcome.";
        let mut family = out.family("hydrant_kaspa_forwarded_total", MetricKind::Counter, help);
        for (outcome, count) in OUTCOMES.into_iter().zip(&self.outcomes) {
            family.put(&[("outcome", outcome)], count.load(Ordering::Relaxed));
        }
    }
}
