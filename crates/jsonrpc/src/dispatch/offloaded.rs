//! A large body, which is parsed on the pool; the cheap calls in it are answered there.
//!
//! Bounds: those of `offload`, which defines what a large body is.
//! Not here: heavy calls, which become a task of their own ([`super::single`], [`super::batch`]).

use std::str::Utf8Error;
use std::sync::Arc;

use pool::Class as PoolClass;
use response_cache::CacheableCall;

use super::batch::{
    INLINE_BATCH_MAX, into_owned_calls, lookup_all_by_text, respond_all_inline,
    respond_cached_inline, submit_batch,
};
use super::cached::cacheable;
use super::parse::read;
use super::plan::{CallPlan, max_class, plan_calls};
use super::receive::recv_response;
use super::response::{JsonRpcResponse, refuse_body};
use super::single::{plan_single, respond_on_pool};
use crate::api::{Api, MethodRef, Server};
use crate::envelope::{Call, Id, Request};
use crate::error::RpcError;
use crate::metrics::ExecutionPath;
use crate::offload;
use crate::request_context::RequestContext;
use crate::task::OwnedCall;

/// Parses a body on the pool, plans its calls there, and runs the cheap ones there.
pub(super) async fn handle_offloaded_body<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    body: bytes::Bytes,
) -> Result<JsonRpcResponse, Utf8Error> {
    let class = offload::class_of(body.len());
    let path = ExecutionPath::Pool(class);
    let pool_server = Arc::clone(server);
    let parse =
        move || Ok(parse_and_plan(&pool_server, &context, path, std::str::from_utf8(&body)?));
    Ok(match offload::run_on_pool(&server.context, class, context.client, parse).await {
        Ok(parsed) => handle_parsed(server, context, parsed?).await,
        Err(err) => refuse_body(&server.context, &context, path, &err),
    })
}

/// Handles a call of a method with long parameters, with the id `null`. They are parsed on the pool. The
/// request was admitted already.
pub(crate) async fn call_method_offloaded<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    method: &str,
    params: &str,
) -> JsonRpcResponse {
    let class = offload::class_of(params.len());
    let path = ExecutionPath::Pool(class);
    let pool_server = Arc::clone(server);
    let (method, params) = (method.to_owned(), params.to_owned());
    let parse = move || {
        let params = context.params(Some(&params));
        let call = Call::Method { id: Id::Null, method: method.as_str().into(), params };
        parse_and_plan_single(&pool_server, &context, path, call)
    };
    match offload::run_on_pool(&server.context, class, context.client, parse).await {
        Ok(parsed) => handle_parsed(server, context, parsed).await,
        Err(err) => refuse_body(&server.context, &context, path, &err),
    }
}

/// Handles a body that was parsed on the pool.
async fn handle_parsed<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    parsed: OffloadedBody<A>,
) -> JsonRpcResponse {
    match parsed {
        OffloadedBody::Answered(response) => response.made_on_pool(),
        OffloadedBody::Single { id, method, params, class, cacheable } => {
            let params = context.params(params.as_deref());
            respond_on_pool(server, context, (&id, method, params, class), cacheable).await
        }
        OffloadedBody::Batch(calls, class) => match submit_batch(server, context, calls, class) {
            Ok(receiver) => {
                recv_response(&server.context, (receiver, class), context, &Id::Null).await
            }
            Err(err) => refuse_body(&server.context, &context, ExecutionPath::Pool(class), &err),
        },
    }
}

/// A large body after parsing and planning.
enum OffloadedBody<A: Api> {
    /// Answered already.
    Answered(JsonRpcResponse),
    /// One call, to be run on the pool, with its cache key and dependencies.
    Single {
        id: Id,
        method: MethodRef<A>,
        params: Option<Box<str>>,
        class: PoolClass,
        cacheable: Option<CacheableCall>,
    },
    /// A batch, and the class that runs it.
    Batch(Vec<OwnedCall<A>>, PoolClass),
}

fn parse_and_plan<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    path: ExecutionPath,
    body: &str,
) -> OffloadedBody<A> {
    let calls = match read(server, context, path, body) {
        Err(response) => return OffloadedBody::Answered(*response),
        Ok(Request::Single(call)) => return parse_and_plan_single(server, context, path, call),
        Ok(Request::Batch(calls)) => calls,
    };
    if calls.len() > INLINE_BATCH_MAX {
        let (calls, class) = into_owned_calls(server, context, calls);
        return match calls.is_empty() {
            true => OffloadedBody::Answered(JsonRpcResponse::Empty),
            false => OffloadedBody::Batch(calls, class),
        };
    }
    let plans = plan_calls(server, context, calls);
    let Some(class) = max_class(&plans) else {
        let response = respond_all_inline(server, context, path, plans, &RpcError::internal());
        return OffloadedBody::Answered(response);
    };
    match lookup_all_by_text(server, context, &plans) {
        Some(hits) => {
            OffloadedBody::Answered(respond_cached_inline(server, context, path, plans, hits))
        }
        None => OffloadedBody::Batch(plans.iter().map(CallPlan::to_owned_call).collect(), class),
    }
}

fn parse_and_plan_single<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    path: ExecutionPath,
    call: Call<'_>,
) -> OffloadedBody<A> {
    let plan = match plan_single(server, *context, call) {
        Ok(Some(plan)) => plan,
        Ok(None) => return OffloadedBody::Answered(JsonRpcResponse::Empty),
        Err(response) => return OffloadedBody::Answered(*response),
    };
    match plan {
        CallPlan::OnPool { id, method, params, class } => {
            let cacheable = cacheable(server, context, &method, params);
            OffloadedBody::Single {
                id,
                method,
                params: params.text().map(Box::from),
                class,
                cacheable,
            }
        }
        plan => {
            let response = plan.respond_inline(server, context, path, &RpcError::internal());
            OffloadedBody::Answered(JsonRpcResponse::from_call(response))
        }
    }
}
