//! Metrics of the thread that executes the transactions of a local ledger.

use std::sync::Arc;

use localnet::ExecutorMetrics;
use metrics::{Collector, Exposition, MetricKind};

/// The time of the thread, for a scrape.
pub(crate) struct ExecutorTimes(pub(crate) Arc<ExecutorMetrics>);

impl Collector for ExecutorTimes {
    fn write(&self, out: &mut Exposition) {
        let help = "Time of the thread that executes transactions, by part.";
        let mut family = out.family("hydrant_executor_seconds_total", MetricKind::Counter, help);
        for (part, duration) in self.0.phases() {
            family.put(&[("part", part)], duration.as_secs_f64());
        }
    }
}
