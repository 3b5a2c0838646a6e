//! Counts the calls of a task. Logs its body if it was slow, and sends its span if it has a trace.
//!
//! Not here: calls without a task (`dispatch`).

use super::{CallTask, TaskInfo};
use crate::api::Api;
use crate::metrics::{ExecutionPath, Outcome, SlowRequest};

impl<A: Api> CallTask<A> {
    /// Counts the active call.
    pub(super) fn record_call(&mut self, outcome: Outcome) {
        let Some((label, path)) = self.label.take() else { return };
        let took = self.server.context.pool.now().saturating_sub(self.info.context.arrived);
        self.server.context.metrics.record_call(label, path, took, outcome);
        self.stats.last = Some((label, outcome));
    }

    /// Logs the body if its response took too long, and sends its span if it has a trace.
    pub(super) fn log_if_slow(&mut self) {
        let TaskInfo { context, class, is_batch, .. } = &self.info;
        let now = self.server.context.pool.now();
        let took = now.saturating_sub(context.arrived);
        let is_slow = self.server.context.is_slow(took);
        let is_recorded = is_slow || context.trace.is_some();
        let Some((label, outcome)) = self.stats.last.filter(|_| is_recorded) else { return };
        self.stats.ran += now.saturating_sub(self.slice_started);
        let request = SlowRequest {
            context,
            method: if *is_batch {
                "batch"
            } else {
                self.server.context.metrics.method_name(label)
            },
            params: self.params.as_deref().filter(|_| !is_batch),
            path: ExecutionPath::Pool(*class),
            took,
            outcome,
            stats: Some(&self.stats),
        };
        request.trace(self.server.context.metrics.span_sink());
        if is_slow {
            request.log(&self.server.context.metrics.slow_log, now);
        }
    }
}
