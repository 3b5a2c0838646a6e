//! A large body, which is read on the pool; what is cheap in it is answered there.
//!
//! Bounds: those of [`crate::work`], where it is said what a large body is.
//! Not here: what is heavy in it, which becomes a task of its own ([`super::single`], [`super::batch`]).

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

/// Reads a body on the pool, looks at its calls there, and runs there what is cheap.
pub(super) async fn handle_offloaded_body(
    node: &Arc<Node>,
    asker: RequestContext,
    body: bytes::Bytes,
) -> Result<JsonRpcResponse, Utf8Error> {
    let class = offload::class_of(body.len());
    let lane = ExecutionPath::Pool(class);
    let here = Arc::clone(node);
    let look = move || Ok(parse_and_plan(&here, &asker, lane, std::str::from_utf8(&body)?));
    Ok(match offload::run_on_pool(node, class, asker.client, look).await {
        Ok(large) => handle_parsed(node, asker, large?).await,
        Err(err) => refuse_body(node, &asker, lane, &err),
    })
}

/// Answers one call of a method whose parameters are long, as the call with the id `null`. They are read on the
/// pool. It was admitted already.
pub(crate) async fn call_method_offloaded(
    node: &Arc<Node>,
    asker: RequestContext,
    method: &str,
    params: &str,
) -> JsonRpcResponse {
    let class = offload::class_of(params.len());
    let lane = ExecutionPath::Pool(class);
    let here = Arc::clone(node);
    let (method, params) = (method.to_owned(), params.to_owned());
    let look = move || {
        let params = Params::new(Some(&params));
        let call = Call::Method { id: Id::Null, method: method.as_str().into(), params };
        parse_and_plan_single(&here, &asker, lane, call)
    };
    match offload::run_on_pool(node, class, asker.client, look).await {
        Ok(large) => handle_parsed(node, asker, large).await,
        Err(err) => refuse_body(node, &asker, lane, &err),
    }
}

/// Answers what was read on the pool.
async fn handle_parsed(
    node: &Arc<Node>,
    asker: RequestContext,
    large: OffloadedBody,
) -> JsonRpcResponse {
    match large {
        OffloadedBody::Answered(reply) => reply.made_on_pool(),
        OffloadedBody::Single { id, method, params, class, cacheable: asked } => {
            let params = Params::new(params.as_deref());
            respond_on_pool(node, asker, (&id, method, params, class), asked).await
        }
        OffloadedBody::Batch(calls, class) => match submit_batch(node, asker, calls, class) {
            Ok(taker) => recv_response(node, (taker, class), asker, &Id::Null).await,
            Err(err) => refuse_body(node, &asker, ExecutionPath::Pool(class), &err),
        },
    }
}

/// What a large body comes to.
enum OffloadedBody {
    /// It is answered.
    Answered(JsonRpcResponse),
    /// One call, to be run on the pool; what it reads was looked up already.
    Single {
        id: Id,
        method: MethodRef,
        params: Option<Box<str>>,
        class: PoolClass,
        cacheable: Option<CacheableCall>,
    },
    /// A batch, and where it is to be run.
    Batch(Vec<OwnedCall>, PoolClass),
}

fn parse_and_plan(
    node: &Node,
    asker: &RequestContext,
    lane: ExecutionPath,
    body: &str,
) -> OffloadedBody {
    let calls = match read(node, asker, lane, body) {
        Err(reply) => return OffloadedBody::Answered(*reply),
        Ok(Request::Single(call)) => return parse_and_plan_single(node, asker, lane, call),
        Ok(Request::Batch(calls)) => calls,
    };
    if calls.len() > INLINE_BATCH_MAX {
        let (calls, class) = into_owned_calls(calls);
        return match calls.is_empty() {
            true => OffloadedBody::Answered(JsonRpcResponse::Empty),
            false => OffloadedBody::Batch(calls, class),
        };
    }
    let plans = plan_calls(node, asker, calls);
    let Some(class) = max_class(&plans) else {
        let reply = respond_all_inline(node, asker, lane, plans, &RpcError::internal());
        return OffloadedBody::Answered(reply);
    };
    match lookup_all_by_text(node, asker, &plans) {
        Some(hits) => {
            OffloadedBody::Answered(respond_cached_inline(node, asker, lane, plans, hits))
        }
        None => OffloadedBody::Batch(plans.iter().map(CallPlan::to_owned_call).collect(), class),
    }
}

fn parse_and_plan_single(
    node: &Node,
    asker: &RequestContext,
    lane: ExecutionPath,
    call: Call<'_>,
) -> OffloadedBody {
    let plan = match plan_single(node, *asker, call) {
        Ok(Some(plan)) => plan,
        Ok(None) => return OffloadedBody::Answered(JsonRpcResponse::Empty),
        Err(kept) => return OffloadedBody::Answered(*kept),
    };
    match plan {
        CallPlan::OnPool { id, method, params, class } => {
            let asked = cacheable(node, asker, &method, params);
            OffloadedBody::Single {
                id,
                method,
                params: params.text().map(Box::from),
                class,
                cacheable: asked,
            }
        }
        plan => {
            let done = plan.respond_inline(node, asker, lane, &RpcError::internal());
            OffloadedBody::Answered(JsonRpcResponse::from_call(done))
        }
    }
}
