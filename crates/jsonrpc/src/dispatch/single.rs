//! A single call: answered from the cache, on this thread, or on the pool.
//!
//! Not here: which of these it is ([`super::plan`], [`super::cached`]), its response ([`super::response`]).

use std::sync::Arc;

use cpu_pool::Class as PoolClass;
use response_cache::CacheableCall;

use super::cached::{CacheMiss, await_cached, cacheable, lookup_text, validator_builder};
use super::plan::{BodyPlan, PooledBody, resolve};
use super::receive::{recv_response, with_deadline};
use super::response::{Answer, CallEnd, JsonRpcResponse, finish};
use super::slot_wait::wait_for_call;
use crate::api::{Api, Server};
use crate::envelope::Call;
use crate::error::RpcError;
use crate::metrics::ExecutionPath;
use crate::planned_call::{CallPlan, Placement, PlannedCall};
use crate::request_context::RequestContext;
use crate::task::{CallTask, TaskInfo};

/// Answers a call if it is cached or cheap, on this thread.
pub(super) fn plan_single<'a, A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    path: ExecutionPath,
    call: Call<'a>,
) -> BodyPlan<'a, A> {
    let ended = match resolve(server, context, call) {
        None => return BodyPlan::Answered(JsonRpcResponse::Empty),
        Some(CallPlan::Done(call)) => call.end_at(path),
        Some(CallPlan::Run(mut call)) => {
            call.check_preparation(server, context);
            let end = match lookup_text(server, context, &call) {
                Some(hit) => CallEnd::at(ExecutionPath::Cached, Answer::Cached(hit)),
                None => {
                    let found = call.place(server, context, &mut server.inline_budget());
                    let result = match (found, call.placement) {
                        (Some(result), _) => result,
                        (None, Placement::Pool(class)) => {
                            return plan_pooled(server, context, call, class);
                        }
                        (None, _) => call.run(server, context),
                    };
                    CallEnd::at(path, Answer::Result(result))
                }
            };
            call.end_with(end)
        }
    };
    BodyPlan::Answered(finish(&server.context, context, ended))
}

fn plan_pooled<'a, A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    call: PlannedCall<'a, A>,
    class: PoolClass,
) -> BodyPlan<'a, A> {
    let cacheable = match call.must_prepare {
        true => None,
        false => cacheable(server, context, &call.method, call.params(context)),
    };
    BodyPlan::Pooled(PooledBody::Single { call: Box::new(call), class, cacheable })
}

/// Handles a call that is not cheap: from the cache, or on the pool, after the wait for a slot that it requires.
pub(super) async fn run_single<A: Api>(
    server: &Arc<Server<A>>,
    mut context: RequestContext,
    call: PlannedCall<'_, A>,
    class: PoolClass,
    cacheable: Option<CacheableCall>,
) -> JsonRpcResponse {
    if call.is_behind
        && let Err(err) = wait_for_call(server, &mut context, &call).await
    {
        let end = CallEnd::refusal(ExecutionPath::Pool(class), err);
        return finish(&server.context, &context, call.end_with(end));
    }
    let end = match cacheable {
        Some(cacheable) if cacheable.dependencies.is_cacheable => {
            match await_cached(server, &context, &call, class, cacheable).await {
                Ok(end) => end,
                Err(miss) => run_task(server, &context, &call, class, miss).await,
            }
        }
        uncached => {
            let miss = CacheMiss::without_lookup(uncached);
            run_task(server, &context, &call, class, miss).await
        }
    };
    finish(&server.context, &context, call.end_with(end))
}

/// Runs a call that was not found in the cache as a task of the pool.
async fn run_task<A: Api>(
    server: &Arc<Server<A>>,
    context: &RequestContext,
    call: &PlannedCall<'_, A>,
    class: PoolClass,
    miss: CacheMiss,
) -> CallEnd {
    let has_waited = miss.has_waited;
    let info = TaskInfo { context: *context, class, cache: miss.cache, is_batch: false };
    let validator_builder = validator_builder(server, context, miss.call.as_ref());
    let (task, receiver) = CallTask::new(Arc::clone(server), info, vec![call.to_owned_plan()]);
    let task = task.with_validator_builder(validator_builder).with_cache_fill(miss.into_fill());
    let receiver = match server.context.pool.submit(class, context.client, Box::new(task)) {
        Ok(ticket) => receiver.with_ticket(ticket),
        Err(full) => return CallEnd::refusal(ExecutionPath::Pool(class), RpcError::full(&full)),
    };
    let receiving = recv_response(&server.context, context, class, receiver);
    CallEnd::counted_by_task(match has_waited {
        false => receiving.await, // the pool enforces the deadline
        true => match with_deadline(&server.context, context, class, receiving).await {
            Ok(answer) => answer,
            Err(late) => Answer::Result(Err(late)),
        },
    })
}
