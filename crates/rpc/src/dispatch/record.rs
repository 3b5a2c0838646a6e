//! Counting and logging a call that has no task of its own.
//!
//! Not here: calls of a task, which counts them itself ([`crate::job`]).

use crate::metrics::{ExecutionPath, MethodLabel, Outcome, SlowRequest};
use crate::node::Node;
use crate::params::Params;
use crate::request_context::RequestContext;

/// Counts a call that was answered without a task of its own, and logs it if it took too long. What it
/// was asked is told where it is known.
pub(super) fn record_call(
    node: &Node,
    asker: &RequestContext,
    (subject, params): (MethodLabel, Option<Params<'_>>),
    lane: ExecutionPath,
    outcome: Outcome,
) {
    let now = node.pool.now();
    let took = now.saturating_sub(asker.arrived);
    node.metrics.record_call(subject, lane, took, outcome);
    if node.is_slow(took) {
        let params = params.and_then(|params| params.text());
        SlowRequest {
            context: asker,
            method: subject.name(),
            params,
            path: lane,
            took,
            outcome,
            stats: None,
        }
        .log(&node.metrics, now);
    }
}
