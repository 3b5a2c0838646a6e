//! A single call: answered from the cache, on this thread, or on the pool.
//!
//! Invariant: a call is counted once, here or by its task.
//! Not here: which of these it is ([`super::plan`], [`super::cached`]).

use std::sync::Arc;

use pool::Class as PoolClass;
use response_cache::CacheableCall;

use super::cached::{CacheMiss, await_cached, cacheable, lookup_text, validator_builder};
use super::plan::{CallPlan, run_method};
use super::receive::{recv_response, with_deadline};
use super::record::record_call;
use super::response::{JsonRpcResponse, encode_result, refuse_call};
use crate::api::{Api, MethodRef, Server};
use crate::envelope::{Call, Id};
use crate::error::RpcError;
use crate::metrics::ExecutionPath;
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::task::{CachePolicy, CallTask, OwnedCall, TaskInfo};

pub(super) async fn handle_single<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    call: Call<'_>,
) -> JsonRpcResponse {
    let plan = match plan_single(server, context, call) {
        Ok(plan) => plan,
        Err(response) => return *response,
    };
    let (label, params, response) = match plan {
        None => return JsonRpcResponse::Empty,
        Some(CallPlan::Answered(label, response)) => (label, None, response),
        Some(CallPlan::Inline { id, method, params }) => {
            let result = run_method(server, method, &context, params);
            let response = encode_result(&context, result, &id);
            (method.label(), Some(params), response)
        }
        Some(CallPlan::OnPool { id, method, params, class }) => {
            let cacheable = cacheable(server, &context, &method, params);
            let call = (&id, method, params, class);
            // In a box: the future of a cheap call is small.
            return Box::pin(respond_on_pool(server, context, call, cacheable)).await;
        }
    };
    record_call(
        &server.context,
        &context,
        (label, params),
        ExecutionPath::Inline,
        response.outcome,
    );
    JsonRpcResponse::from_call(response)
}

/// Handles a call of a method with the id `null`. The request was admitted already.
pub(crate) async fn call_method<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    method: &str,
    params: &str,
) -> JsonRpcResponse {
    let params = context.params(Some(params));
    let call = Call::Method { id: Id::Null, method: method.into(), params };
    handle_single(server, context, call).await
}

/// Plans a single call. `Err` is its cached response, if its text was received before.
pub(super) fn plan_single<'a, A: Api>(
    server: &Server<A>,
    context: RequestContext,
    call: Call<'a>,
) -> Result<Option<CallPlan<'a, A>>, Box<JsonRpcResponse>> {
    let mut budget = server.inline_budget();
    let (id, name, params) = match call {
        Call::Method { id, method, params } => (id, method, params),
        call => return Ok(CallPlan::for_call(server, &context, call, &mut budget)),
    };
    let Some(method) = server.find_method(&name) else {
        let call = Call::Method { id, method: name, params };
        return Ok(CallPlan::for_call(server, &context, call, &mut budget));
    };
    match lookup_text(server, context, (&id, method, params)) {
        Some(response) => Err(Box::new(response)),
        None => Ok(Some(CallPlan::for_method(server, &context, (id, method, params), &mut budget))),
    }
}

/// Handles a call that is not cheap: from the cache, or on the pool.
pub(super) async fn respond_on_pool<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    (id, method, params, class): (&Id, MethodRef<A>, Params<'_>, PoolClass),
    cacheable: Option<CacheableCall>,
) -> JsonRpcResponse {
    let call = (id, method, params, class);
    let miss = match cacheable {
        Some(cacheable) if cacheable.dependencies.is_cacheable => {
            match await_cached(server, context, call, cacheable).await {
                Ok(response) => return response,
                Err(miss) => miss,
            }
        }
        uncached => CacheMiss::without_lookup(uncached),
    };
    let has_waited = miss.has_waited;
    let info = TaskInfo { context, class, cache: miss.cache, is_batch: false };
    let calls = vec![OwnedCall::new(id.clone(), method, params, CachePolicy::Bypass)];
    let validator_builder = validator_builder(server, &context, miss.call.as_ref());
    let (task, receiver) = CallTask::new(Arc::clone(server), info, calls);
    let task = task.with_validator_builder(validator_builder).with_cache_fill(miss.into_fill());
    let receiver = match server.context.pool.submit(class, context.client, Box::new(task)) {
        Ok(ticket) => receiver.with_ticket(ticket),
        Err(full) => {
            let call = (id, method.label(), params, class);
            return refuse_call(&server.context, &context, call, RpcError::full(&full));
        }
    };
    let receiving = recv_response(&server.context, (receiver, class), context, id);
    if !has_waited {
        return receiving.await; // the pool enforces the deadline
    }
    match with_deadline(&server.context, &context, class, receiving).await {
        Ok(response) => response,
        // Its task counts it.
        Err(late) => JsonRpcResponse::from_call(encode_result(&context, Err(late), id)),
    }
}
