//! A batch. It is answered on this thread if it is short and its calls are cheap or cached; otherwise all of it
//! is one task of the pool.
//!
//! Bounds: up to [`INLINE_BATCH_MAX`] calls are planned one by one; of a longer batch only the method names are
//! read.
//! Not here: its calls on the pool, each of which is looked up in the cache before it runs (`task`).

use std::sync::Arc;

use cache::Weight;
use cpu_pool::{Class as PoolClass, Refused};
use http_server::ContentEncoding;
use ledger::Commitment;
use response_cache::{CacheHit, CallText, inline_batch_bytes_max};

use super::admission::RefusedBody;
use super::plan::{BatchFallback, BodyPlan, PooledBody, plan_call, resolve};
use super::receive::recv_response;
use super::response::{Answer, BatchWriter, CallEnd, EndedCall, JsonRpcResponse, finish};
use super::slot_wait::wait_for_batch;
use crate::api::{Api, Server};
use crate::envelope::Call;
use crate::error::RpcError;
use crate::metrics::ExecutionPath;
use crate::planned_call::{CallPlan, Placement, PlannedCall};
use crate::request_context::RequestContext;
use crate::task::{CallTask, TaskInfo};

/// A batch of more calls runs on the pool even if each call is cheap.
const INLINE_BATCH_MAX: usize = 16;

/// Answers a batch on this thread if it is short and all of it is cached or cheap.
pub(super) fn plan_batch<'a, A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    path: ExecutionPath,
    calls: Vec<Call<'a>>,
) -> BodyPlan<'a, A> {
    if calls.len() > INLINE_BATCH_MAX {
        return plan_long_batch(server, context, calls);
    }
    let mut budget = server.inline_budget();
    let plan = |call| plan_call(server, context, call, &mut budget);
    let plans: Vec<_> = calls.into_iter().filter_map(plan).collect();
    let class = plans.iter().filter_map(CallPlan::class).max_by_key(|class| class.index());
    let hits = match class {
        None => Vec::new(),
        Some(class) => match lookup_all_by_text(server, context, &plans) {
            Some(hits) => hits,
            None => {
                let fallback = BatchFallback::RunCheapCalls;
                return BodyPlan::Pooled(PooledBody::Batch { plans, class, fallback });
            }
        },
    };
    // Every call that is not cheap has a hit.
    let refusal = RpcError::internal();
    BodyPlan::Answered(answer_all(server, context, path, plans, hits, &refusal))
}

/// Planning each call would take too long here, so all of them go to the pool or none. The class depends on the method
/// names only.
fn plan_long_batch<'a, A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    calls: Vec<Call<'a>>,
) -> BodyPlan<'a, A> {
    let is_heavy = |call: &Call<'_>| match call {
        Call::Method { method, .. } => {
            server.find_method(method).is_some_and(|method| method.may_be_heavy())
        }
        Call::Notification | Call::Invalid { .. } => false,
    };
    let class = if calls.iter().any(is_heavy) { PoolClass::Heavy } else { PoolClass::Medium };
    let resolve = |call| resolve(server, context, call);
    let plans: Vec<_> = calls.into_iter().filter_map(resolve).collect();
    if plans.is_empty() {
        return BodyPlan::Answered(JsonRpcResponse::Empty);
    }
    let fallback = BatchFallback::RefuseBody;
    BodyPlan::Pooled(PooledBody::Batch { plans, class, fallback })
}

/// The cached responses to all calls of a short batch that are not cheap. `None` unless all of them are cached,
/// found by their texts, and short enough together.
fn lookup_all_by_text<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    plans: &[CallPlan<'_, A>],
) -> Option<Vec<CacheHit>> {
    let mut budget = inline_batch_bytes_max(context.coding);
    let mut hits = Vec::new();
    let cache = &server.context.response_cache;
    for plan in plans {
        let CallPlan::Run(call @ PlannedCall { placement: Placement::Pool(_), .. }) = plan else {
            continue;
        };
        if call.must_wait() {
            return None;
        }
        let params = call.text.as_deref();
        let text = CallText { method: call.method.name, params, coding: ContentEncoding::Plain };
        let hit = cache.lookup_text(&server.api, text)?;
        budget = budget.checked_sub(hit.entry.value.as_ref()?.bytes())?;
        hits.push(hit);
    }
    Some(hits)
}

/// Answers all calls of a batch on this thread. One that needs the pool gets the next of `hits`, or `refusal`.
fn answer_all<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    path: ExecutionPath,
    plans: Vec<CallPlan<'_, A>>,
    hits: Vec<CacheHit>,
    refusal: &RpcError,
) -> JsonRpcResponse {
    let mut hits = hits.into_iter();
    let mut batch = BatchWriter::new();
    for plan in plans {
        let ended = match plan {
            CallPlan::Done(call) => call.end_at(path),
            CallPlan::Run(call) => {
                let end = match call.placement {
                    Placement::Inline => {
                        CallEnd::at(path, Answer::Result(call.run(server, context)))
                    }
                    Placement::Pool(class) => match hits.next() {
                        Some(hit) => {
                            server.context.response_cache.record_text_hit();
                            CallEnd::at(ExecutionPath::Cached, Answer::Cached(hit))
                        }
                        None => CallEnd::refusal(ExecutionPath::Pool(class), refusal.clone()),
                    },
                    Placement::Undecided => CallEnd::refusal(path, refusal.clone()),
                };
                call.end_with(end)
            }
        };
        batch.push(&server.context, context, ended);
    }
    batch.finish()
}

/// Runs a batch as one task of the pool, after the wait for the slots that its calls require.
pub(super) async fn run_batch<A: Api>(
    server: &Arc<Server<A>>,
    mut context: RequestContext,
    plans: Vec<CallPlan<'_, A>>,
    class: PoolClass,
    fallback: BatchFallback,
) -> JsonRpcResponse {
    let plans = wait_for_batch(server, &mut context, plans).await;
    let commitment = plans.iter().map(CallPlan::commitment).max().unwrap_or(Commitment::Finalized);
    let calls = plans.into_iter().map(CallPlan::into_owned).collect();
    let info = TaskInfo { context, class, cache: "none", is_batch: true };
    let (task, receiver) = CallTask::new(Arc::clone(server), info, calls);
    let (task, full) = match server.context.pool.try_submit(class, context.client, Box::new(task)) {
        Ok(ticket) => {
            let receiver = receiver.with_ticket(ticket);
            let answer = recv_response(&server.context, &context, class, receiver).await;
            return finish(&server.context, &context, EndedCall::for_batch(answer, commitment));
        }
        Err(Refused { task, full }) => (task, full),
    };
    let refusal = RpcError::full(&full);
    match fallback {
        BatchFallback::RunCheapCalls => {
            let plans = task.into_calls();
            answer_all(server, &context, ExecutionPath::Inline, plans, Vec::new(), &refusal)
        }
        BatchFallback::RefuseBody => {
            let refused = RefusedBody::from(refusal).end_at(ExecutionPath::Pool(class));
            finish(&server.context, &context, refused)
        }
    }
}
