//! Counting the calls of a task, and logging its body if that was slow.
//!
//! Not here: calls without a task (`dispatch`).

use super::{CallTask, TaskInfo};
use crate::metrics::{ExecutionPath, Outcome, SlowRequest};

impl CallTask {
    /// Counts the call whose answer was being made.
    pub(super) fn record_call(&mut self, outcome: Outcome) {
        let Some((subject, lane)) = self.label.take() else { return };
        let took = self.node.pool.now().saturating_sub(self.info.context.arrived);
        self.node.metrics.record_call(subject, lane, took, outcome);
        self.stats.last = Some((subject, outcome));
    }

    /// Logs the body if its answer took too long.
    pub(super) fn log_if_slow(&mut self) {
        let TaskInfo { context: asker, class, is_batch, .. } = &self.info;
        let now = self.node.pool.now();
        let took = now.saturating_sub(asker.arrived);
        let Some((subject, outcome)) = self.stats.last.filter(|_| self.node.is_slow(took)) else {
            return;
        };
        self.stats.ran += now.saturating_sub(self.slice_started);
        let slow = SlowRequest {
            context: asker,
            method: if *is_batch { "batch" } else { subject.name() },
            params: self.params.as_deref().filter(|_| !is_batch),
            path: ExecutionPath::Pool(*class),
            took,
            outcome,
            stats: Some(&self.stats),
        };
        slow.log(&self.node.metrics, now);
    }
}
