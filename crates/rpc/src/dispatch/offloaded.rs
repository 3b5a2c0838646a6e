//! A large body, which is parsed on the pool; the cheap calls in it are answered there.
//!
//! Bounds: those of [`crate::offload`], which defines what a large body is.
//! Not here: heavy calls, which become a task of their own ([`super::single`], [`super::batch`]).

use std::str::Utf8Error;
use std::sync::Arc;

use pool::Class as PoolClass;

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
use crate::dependencies::CacheableCall;
use crate::envelope::{Call, Id, Request};
use crate::error::RpcError;
use crate::methods::MethodRef;
use crate::metrics::ExecutionPath;
use crate::node::Node;
use crate::offload;
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::task::OwnedCall;

/// Parses a body on the pool, plans its calls there, and runs the cheap ones there.
pub(super) async fn handle_offloaded_body(
    node: &Arc<Node>,
    context: RequestContext,
    body: bytes::Bytes,
) -> Result<JsonRpcResponse, Utf8Error> {
    let class = offload::class_of(body.len());
    let path = ExecutionPath::Pool(class);
    let pool_node = Arc::clone(node);
    let parse = move || Ok(parse_and_plan(&pool_node, &context, path, std::str::from_utf8(&body)?));
    Ok(match offload::run_on_pool(node, class, context.client, parse).await {
        Ok(parsed) => handle_parsed(node, context, parsed?).await,
        Err(err) => refuse_body(node, &context, path, &err),
    })
}

/// Handles a call of a method with long parameters, with the id `null`. They are parsed on the pool. The
/// request was admitted already.
pub(crate) async fn call_method_offloaded(
    node: &Arc<Node>,
    context: RequestContext,
    method: &str,
    params: &str,
) -> JsonRpcResponse {
    let class = offload::class_of(params.len());
    let path = ExecutionPath::Pool(class);
    let pool_node = Arc::clone(node);
    let (method, params) = (method.to_owned(), params.to_owned());
    let parse = move || {
        let params = Params::new(Some(&params));
        let call = Call::Method { id: Id::Null, method: method.as_str().into(), params };
        parse_and_plan_single(&pool_node, &context, path, call)
    };
    match offload::run_on_pool(node, class, context.client, parse).await {
        Ok(parsed) => handle_parsed(node, context, parsed).await,
        Err(err) => refuse_body(node, &context, path, &err),
    }
}

/// Handles a body that was parsed on the pool.
async fn handle_parsed(
    node: &Arc<Node>,
    context: RequestContext,
    parsed: OffloadedBody,
) -> JsonRpcResponse {
    match parsed {
        OffloadedBody::Answered(response) => response.made_on_pool(),
        OffloadedBody::Single { id, method, params, class, cacheable } => {
            let params = Params::new(params.as_deref());
            respond_on_pool(node, context, (&id, method, params, class), cacheable).await
        }
        OffloadedBody::Batch(calls, class) => match submit_batch(node, context, calls, class) {
            Ok(receiver) => recv_response(node, (receiver, class), context, &Id::Null).await,
            Err(err) => refuse_body(node, &context, ExecutionPath::Pool(class), &err),
        },
    }
}

/// A large body after parsing and planning.
enum OffloadedBody {
    /// Answered already.
    Answered(JsonRpcResponse),
    /// One call, to be run on the pool, with its cache key and dependencies.
    Single {
        id: Id,
        method: MethodRef,
        params: Option<Box<str>>,
        class: PoolClass,
        cacheable: Option<CacheableCall>,
    },
    /// A batch, and the class that runs it.
    Batch(Vec<OwnedCall>, PoolClass),
}

fn parse_and_plan(
    node: &Node,
    context: &RequestContext,
    path: ExecutionPath,
    body: &str,
) -> OffloadedBody {
    let calls = match read(node, context, path, body) {
        Err(response) => return OffloadedBody::Answered(*response),
        Ok(Request::Single(call)) => return parse_and_plan_single(node, context, path, call),
        Ok(Request::Batch(calls)) => calls,
    };
    if calls.len() > INLINE_BATCH_MAX {
        let (calls, class) = into_owned_calls(calls);
        return match calls.is_empty() {
            true => OffloadedBody::Answered(JsonRpcResponse::Empty),
            false => OffloadedBody::Batch(calls, class),
        };
    }
    let plans = plan_calls(node, context, calls);
    let Some(class) = max_class(&plans) else {
        let response = respond_all_inline(node, context, path, plans, &RpcError::internal());
        return OffloadedBody::Answered(response);
    };
    match lookup_all_by_text(node, context, &plans) {
        Some(hits) => {
            OffloadedBody::Answered(respond_cached_inline(node, context, path, plans, hits))
        }
        None => OffloadedBody::Batch(plans.iter().map(CallPlan::to_owned_call).collect(), class),
    }
}

fn parse_and_plan_single(
    node: &Node,
    context: &RequestContext,
    path: ExecutionPath,
    call: Call<'_>,
) -> OffloadedBody {
    let plan = match plan_single(node, *context, call) {
        Ok(Some(plan)) => plan,
        Ok(None) => return OffloadedBody::Answered(JsonRpcResponse::Empty),
        Err(response) => return OffloadedBody::Answered(*response),
    };
    match plan {
        CallPlan::OnPool { id, method, params, class } => {
            let cacheable = cacheable(node, context, &method, params);
            OffloadedBody::Single {
                id,
                method,
                params: params.text().map(Box::from),
                class,
                cacheable,
            }
        }
        plan => {
            let response = plan.respond_inline(node, context, path, &RpcError::internal());
            OffloadedBody::Answered(JsonRpcResponse::from_call(response))
        }
    }
}
