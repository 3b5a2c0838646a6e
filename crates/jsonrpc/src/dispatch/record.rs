//! Counts, logs and traces a call that has no task of its own.
//!
//! Not here: calls of a task, which counts them itself (`task`).

use crate::metrics::{ExecutionPath, MethodLabel, Outcome, SlowRequest};
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::server_context::ServerContext;

/// Counts a call that was answered without a task of its own, sends its span if it has a trace, and logs it if it was
/// slow, with its params if they are available.
pub(super) fn record_call(
    server: &ServerContext,
    context: &RequestContext,
    (label, params): (MethodLabel, Option<Params<'_>>),
    path: ExecutionPath,
    outcome: Outcome,
) {
    let now = server.pool.now();
    let took = now.saturating_sub(context.arrived);
    server.metrics.record_call(label, path, took, outcome);
    let is_slow = server.is_slow(took);
    if is_slow || context.trace.is_some() {
        let params = params.and_then(|params| params.text());
        let method = server.metrics.method_name(label);
        let request = SlowRequest { context, method, params, path, took, outcome, stats: None };
        request.trace(server.metrics.span_sink());
        if is_slow {
            request.log(&server.metrics.slow_log, now);
        }
    }
}
