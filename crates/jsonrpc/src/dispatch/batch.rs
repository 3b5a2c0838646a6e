//! A batch. It is answered on this thread if it is short and its calls are cheap or cached; otherwise all of it
//! is one task of the pool.
//!
//! Bounds: up to [`INLINE_BATCH_MAX`] calls are planned one by one; of a longer batch only the method names are
//! read.
//! Not here: its calls on the pool, each of which is looked up in the cache before it runs (`task`).

use std::sync::Arc;

use cache::Weight;
use http_server::ContentEncoding;
use pool::Class as PoolClass;
use response_cache::{self, CacheHit, CallText, inline_batch_bytes_max};

use super::plan::{CallPlan, max_class, plan_calls};
use super::receive::recv_response;
use super::record::record_call;
use super::response::{
    JsonRpcResponse, cached_parts, encode_invalid, encode_response, join_batch, refuse_body,
};
use crate::api::{Api, Server};
use crate::envelope::{Call, Id};
use crate::error::RpcError;
use crate::metrics::{ExecutionPath, MethodLabel, Outcome};
use crate::request_context::RequestContext;
use crate::response_channel::ResponseReceiver;
use crate::task::{CachePolicy, CallTask, OwnedCall, TaskInfo};
use crate::value_response::ResponseMeta;

/// A batch of more calls runs on the pool even if each call is cheap.
pub(super) const INLINE_BATCH_MAX: usize = 16;

pub(super) async fn handle_batch<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    calls: Vec<Call<'_>>,
) -> JsonRpcResponse {
    if calls.len() > INLINE_BATCH_MAX {
        return handle_long_batch(server, context, calls).await;
    }
    let plans = plan_calls(server, &context, calls);
    let Some(class) = max_class(&plans) else {
        return respond_all_inline(
            server,
            &context,
            ExecutionPath::Inline,
            plans,
            &RpcError::internal(),
        );
    };
    if let Some(hits) = lookup_all_by_text(server, &context, &plans) {
        return respond_cached_inline(server, &context, ExecutionPath::Inline, plans, hits);
    }
    let calls = plans.iter().map(CallPlan::to_owned_call).collect();
    match submit_batch(server, context, calls, class) {
        Ok(receiver) => recv_response(&server.context, (receiver, class), context, &Id::Null).await,
        // The cheap calls are answered nevertheless.
        Err(err) => respond_all_inline(server, &context, ExecutionPath::Inline, plans, &err),
    }
}

pub(super) fn respond_all_inline<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    path: ExecutionPath,
    plans: Vec<CallPlan<'_, A>>,
    refusal: &RpcError,
) -> JsonRpcResponse {
    join_batch(plans.into_iter().map(|plan| plan.respond_inline(server, context, path, refusal)))
}

/// The cached responses to all calls of a short batch that are not cheap. `None` unless all of them are cached,
/// found by their texts, and short enough together.
pub(super) fn lookup_all_by_text<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    plans: &[CallPlan<'_, A>],
) -> Option<Vec<CacheHit>> {
    let (mut budget, mut hits) = (inline_batch_bytes_max(context.coding), Vec::new());
    let cache = &server.context.response_cache;
    for plan in plans {
        if let CallPlan::OnPool { method, params, .. } = plan {
            let (method, params, coding) = (method.name, params.text(), ContentEncoding::Plain);
            let text = CallText { method, params, coding };
            let hit = cache.lookup_text(&server.api, text)?;
            budget = budget.checked_sub(hit.entry.value.as_ref()?.bytes())?;
            hits.push(hit);
        }
    }
    Some(hits)
}

/// Responds to a batch each of whose calls is cheap or has a hit.
pub(super) fn respond_cached_inline<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    path: ExecutionPath,
    plans: Vec<CallPlan<'_, A>>,
    hits: Vec<CacheHit>,
) -> JsonRpcResponse {
    let (mut parts, mut hits) = (Vec::new(), hits.into_iter());
    for plan in plans {
        parts.push(bytes::Bytes::from_static(if parts.is_empty() { b"[" } else { b"," }));
        let label = plan.label();
        let hit = plan.class().and_then(|_| hits.next());
        let cached = hit.as_ref().and_then(|hit| Some((hit.entry.value.as_ref()?, hit.slot)));
        match (plan, cached) {
            (CallPlan::OnPool { id, .. }, Some((cached, slot))) => {
                parts.extend(cached_parts(cached, slot, &id, false));
                server.context.response_cache.record_text_hit();
                record_call(
                    &server.context,
                    context,
                    (label, None),
                    ExecutionPath::Cached,
                    Outcome::Succeeded,
                );
            }
            // Every call that is not cheap has a hit.
            (plan, _) => {
                let response = plan.respond_inline(server, context, path, &RpcError::internal());
                parts.push(response.text.into_bytes());
            }
        }
    }
    parts.push(bytes::Bytes::from_static(b"]\n"));
    JsonRpcResponse::Cached(parts, ContentEncoding::Plain, ResponseMeta::default())
}

/// Planning each call would take too long here, so all of them go to the pool or none.
async fn handle_long_batch<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    calls: Vec<Call<'_>>,
) -> JsonRpcResponse {
    let (calls, class) = into_owned_calls(server, &context, calls);
    if calls.is_empty() {
        return JsonRpcResponse::Empty;
    }
    match submit_batch(server, context, calls, class) {
        Ok(receiver) => recv_response(&server.context, (receiver, class), context, &Id::Null).await,
        Err(err) => refuse_body(&server.context, &context, ExecutionPath::Pool(class), &err),
    }
}

/// The calls of a long batch, and its class, which depends on the method names only.
pub(super) fn into_owned_calls<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    calls: Vec<Call<'_>>,
) -> (Vec<OwnedCall<A>>, PoolClass) {
    let is_heavy = |call: &Call<'_>| match call {
        Call::Method { method, .. } => {
            server.find_method(method).is_some_and(|method| method.may_be_heavy())
        }
        Call::Notification | Call::Invalid { .. } => false,
    };
    let class = if calls.iter().any(is_heavy) { PoolClass::Heavy } else { PoolClass::Medium };
    let owned = |call| match call {
        Call::Notification => None,
        Call::Invalid { id, versioned, err } => {
            Some(encode_invalid(&err, &id, versioned).into_owned_call(MethodLabel::none()))
        }
        Call::Method { id, method, params } => Some(match server.find_method(&method) {
            Some(method) => match method.check_access(context.page_access) {
                Ok(()) => OwnedCall::new(id, method, params, CachePolicy::ByCost),
                Err(err) => encode_response(Err(err), &id).into_owned_call(method.label()),
            },
            None => encode_response(Err(RpcError::method_not_found()), &id)
                .into_owned_call(MethodLabel::other()),
        }),
    };
    (calls.into_iter().filter_map(owned).collect(), class)
}

pub(super) fn submit_batch<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    calls: Vec<OwnedCall<A>>,
    class: PoolClass,
) -> Result<ResponseReceiver, RpcError> {
    let info = TaskInfo { context, class, cache: "none", is_batch: true };
    let (task, receiver) = CallTask::new(Arc::clone(server), info, calls);
    let ticket = server.context.pool.submit(class, context.client, Box::new(task));
    Ok(receiver.with_ticket(ticket.map_err(|full| RpcError::full(&full))?))
}
