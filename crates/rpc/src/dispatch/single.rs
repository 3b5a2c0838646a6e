//! A call that comes alone: from the cache, here, or on the pool.
//!
//! Invariant: a call is counted once, here or by its task.
//! Not here: which of these it is ([`super::plan`], [`super::from_cache`]).

use std::sync::Arc;

use pool::Class as PoolClass;

use super::cached::{CacheMiss, await_cached, cacheable, lookup_text, validator_builder};
use super::plan::{CallPlan, run_method};
use super::receive::{recv_response, with_deadline};
use super::record::record_call;
use super::response::{JsonRpcResponse, encode_response, refuse_call};
use crate::dependencies::CacheableCall;
use crate::envelope::{Call, Id};
use crate::error::RpcError;
use crate::methods::{self, InlineBudget, MethodRef};
use crate::metrics::ExecutionPath;
use crate::node::Node;
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::task::{CachePolicy, CallTask, OwnedCall, TaskInfo};

pub(super) async fn handle_single(
    node: &Arc<Node>,
    asker: RequestContext,
    call: Call<'_>,
) -> JsonRpcResponse {
    let plan = match plan_single(node, asker, call) {
        Ok(plan) => plan,
        Err(kept) => return *kept,
    };
    let (subject, params, done) = match plan {
        None => return JsonRpcResponse::Empty,
        Some(CallPlan::Answered(subject, done)) => (subject, None, done),
        Some(CallPlan::Inline { id, method, params }) => {
            let done = encode_response(run_method(node, method, &asker, params), &id);
            (method.label(), Some(params), done)
        }
        Some(CallPlan::OnPool { id, method, params, class }) => {
            let asked = cacheable(node, &asker, &method, params);
            return respond_on_pool(node, asker, (&id, method, params, class), asked).await;
        }
    };
    record_call(node, &asker, (subject, params), ExecutionPath::Inline, done.outcome);
    JsonRpcResponse::from_call(done)
}

/// Answers one call of a method, which was admitted already, as the call with the id `null`.
pub(crate) async fn call_method(
    node: &Arc<Node>,
    asker: RequestContext,
    method: &str,
    params: &str,
) -> JsonRpcResponse {
    let call =
        Call::Method { id: Id::Null, method: method.into(), params: Params::new(Some(params)) };
    handle_single(node, asker, call).await
}

/// What is to be done with a call that comes alone; or its answer, if its text came before and that is kept.
pub(super) fn plan_single<'a>(
    node: &Node,
    asker: RequestContext,
    call: Call<'a>,
) -> Result<Option<CallPlan<'a>>, Box<JsonRpcResponse>> {
    let mut budget = InlineBudget::new(node);
    let (id, name, params) = match call {
        Call::Method { id, method, params } => (id, method, params),
        call => return Ok(CallPlan::for_call(node, &asker, call, &mut budget)),
    };
    let Some(method) = methods::find_method(&name) else {
        let call = Call::Method { id, method: name, params };
        return Ok(CallPlan::for_call(node, &asker, call, &mut budget));
    };
    match lookup_text(node, asker, (&id, method, params)) {
        Some(kept) => Err(Box::new(kept)),
        None => Ok(Some(CallPlan::for_method(node, &asker, (id, method, params), &mut budget))),
    }
}

/// Answers a call of which it is known that it is not cheap: from the cache, or on the pool.
pub(super) async fn respond_on_pool(
    node: &Arc<Node>,
    asker: RequestContext,
    (id, method, params, class): (&Id, MethodRef, Params<'_>, PoolClass),
    asked: Option<CacheableCall>,
) -> JsonRpcResponse {
    let call = (id, method, params, class);
    let run = match asked.as_ref().filter(|asked| asked.dependencies.is_cacheable) {
        Some(asked) => match await_cached(node, asker, call, asked).await {
            Ok(kept) => return kept,
            Err(run) => run,
        },
        None => CacheMiss::uncached("none"),
    };
    let about = TaskInfo { context: asker, class, cache: run.cache, is_batch: false };
    let calls = vec![OwnedCall::new(id.clone(), method, params, CachePolicy::Bypass)];
    let stamper = validator_builder(node, &asker, asked.as_ref());
    let (job, taker) = CallTask::new(Arc::clone(node), about, calls);
    let job = job.with_validator_builder(stamper).with_cache_fill(asked.zip(run.ticket));
    let taker = match node.pool.submit(class, asker.client, Box::new(job)) {
        Ok(ticket) => taker.with_ticket(ticket),
        Err(full) => return refuse_call(node, &asker, call, RpcError::full(&full)),
    };
    let receiving = recv_response(node, (taker, class), asker, id);
    if !run.has_waited {
        return receiving.await; // the pool sees to its deadline
    }
    match with_deadline(node, &asker, class, receiving).await {
        Ok(reply) => reply,
        // Its task counts it.
        Err(late) => JsonRpcResponse::from_call(encode_response(Err(late), id)),
    }
}
