//! Counting the calls of a task, and logging its body if that was slow.
//!
//! Not here: calls without a task (`dispatch`).

use super::{About, Job};
use crate::metrics::{ExecutionPath, Outcome, SlowRequest};

impl Job {
    /// Counts the call whose answer was being made.
    pub(super) fn count(&mut self, outcome: Outcome) {
        let Some((subject, lane)) = self.subject.take() else { return };
        let took = self.node.pool.now().saturating_sub(self.about.asker.arrived);
        self.node.metrics.record_call(subject, lane, took, outcome);
        self.made.last = Some((subject, outcome));
    }

    /// Logs the body if its answer took too long.
    pub(super) fn tell(&mut self) {
        let About { asker, class, is_batch, .. } = &self.about;
        let now = self.node.pool.now();
        let took = now.saturating_sub(asker.arrived);
        let Some((subject, outcome)) = self.made.last.filter(|_| self.node.is_slow(took)) else {
            return;
        };
        self.made.ran += now.saturating_sub(self.slice_began);
        let slow = SlowRequest {
            context: asker,
            method: if *is_batch { "batch" } else { subject.name() },
            params: self.params.as_deref().filter(|_| !is_batch),
            path: ExecutionPath::Pool(*class),
            took,
            outcome,
            stats: Some(&self.made),
        };
        slow.log(&self.node.metrics, now);
    }
}
