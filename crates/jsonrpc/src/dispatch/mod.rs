//! From the text of a body to its response: decides which call runs where.
//!
//! A cheap call runs where the socket is polled. Any other call goes to the CPU pool, together with all calls
//! of its batch, as one task (`task`) that returns its response in chunks. A large body is parsed on
//! the pool as well (`offload`), and the cheap calls in it are answered there. The cache is used where
//! it has a valid response ([`response_cache`]): a single call is looked up here. A call of a batch is
//! looked up when it runs, unless the batch is short and all of it is cached.
//! Bounds: `Config::batch_max` calls; the limits of the pool, past which the client gets an error at once.
//! Invariant: nothing runs on for a client that has disconnected. The task ends when its
//! `response_channel::ResponseReceiver`, or the future that waits for it, is dropped.
//! Invariant: an error travels as a value up to `response`, which encodes and counts it.
//! Invariant: a file uses only those named before it.
//!
//! The files: `admission` (from a body to calls, limits of the client), `response` (the exit: responses, metrics and log
//! of calls), `plan` (how to run a call), `blocking` (tools), `receive` (results of pool tasks), `slot_wait` (calls
//! that wait for a slot), `cached` and `single` (a single call), `batch`, `revalidate` (conditional requests).

mod admission;
mod batch;
mod blocking;
mod cached;
mod plan;
mod receive;
mod response;
mod revalidate;
mod single;
mod slot_wait;

use std::pin::Pin;
use std::str::Utf8Error;
use std::sync::Arc;

use bytes::Bytes;
use http_server::poll_budget;

use crate::api::{Api, Server};
use crate::envelope::{Call, Id, Request};
use crate::error::RpcError;
use crate::metrics::ExecutionPath;
use crate::offload::{self, INLINE_BODY_BYTES_MAX};
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::state_slots::StateSlots;

use admission::{RefusedBody, parse_body};
use batch::{plan_batch, run_batch};
use plan::{BodyPlan, PooledBody};
use response::finish;
use single::{plan_single, run_single};

pub(crate) use admission::admit_method;
pub use blocking::handle_blocking;
pub(crate) use response::{CachedBody, JsonRpcResponse, record_current_result};
pub use revalidate::WatchedCall;
pub(crate) use revalidate::{revalidate, watch_call};

/// In a box, so that the future of a cheap call, which is moved, is small.
type PooledResponse<'a> = Pin<Box<dyn Future<Output = JsonRpcResponse> + Send + 'a>>;

/// Handles a body. A large one is parsed on the pool.
///
/// Errors: it is not UTF-8.
pub(crate) async fn handle_body<A: Api>(
    server: &Arc<Server<A>>,
    mut context: RequestContext,
    body: Bytes,
) -> Result<JsonRpcResponse, Utf8Error> {
    context.slots = StateSlots::read(&server.api);
    if body.len() > INLINE_BODY_BYTES_MAX {
        return Box::pin(handle_large_body(server, context, body)).await;
    }
    poll_budget::charge_parsed(body.len());
    let body = std::str::from_utf8(&body)?;
    let pooled = match plan_body(server, &context, ExecutionPath::Inline, body) {
        BodyPlan::Answered(response) => return Ok(response),
        BodyPlan::Pooled(body) => run_pooled(server, context, body),
    };
    Ok(pooled.await)
}

async fn handle_large_body<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    body: Bytes,
) -> Result<JsonRpcResponse, Utf8Error> {
    let class = offload::class_of(body.len());
    let path = ExecutionPath::Pool(class);
    let planner = Arc::clone(server);
    let plan = move || {
        let body = std::str::from_utf8(&body)?;
        Ok(plan_body(&planner, &context, path, body).into_offloaded())
    };
    let planned = match offload::run_on_pool(&server.context, class, context.client, plan).await {
        Ok(plan) => Ok(plan?),
        Err(err) => Err(err),
    };
    Ok(finish_offloaded(server, context, path, planned).await)
}

/// Handles a call of a method with the id `null`. Long parameters are parsed on the pool. The request was admitted
/// already.
pub(crate) async fn call_method<A: Api>(
    server: &Arc<Server<A>>,
    mut context: RequestContext,
    method: &str,
    params: &str,
) -> JsonRpcResponse {
    context.slots = StateSlots::read(&server.api);
    if params.len() > INLINE_BODY_BYTES_MAX {
        return Box::pin(call_method_offloaded(server, context, method, params)).await;
    }
    poll_budget::charge_parsed(params.len());
    let call = call_with_null_id(method, params);
    let pooled = match plan_single(server, &context, ExecutionPath::Inline, call) {
        BodyPlan::Answered(response) => return response,
        BodyPlan::Pooled(body) => run_pooled(server, context, body),
    };
    pooled.await
}

async fn call_method_offloaded<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    method: &str,
    params: &str,
) -> JsonRpcResponse {
    let class = offload::class_of(params.len());
    let path = ExecutionPath::Pool(class);
    let planner = Arc::clone(server);
    let method = method.to_owned();
    let params = params.to_owned();
    let plan = move || {
        let call = call_with_null_id(&method, &params);
        plan_single(&planner, &context, path, call).into_offloaded()
    };
    let planned = offload::run_on_pool(&server.context, class, context.client, plan).await;
    finish_offloaded(server, context, path, planned).await
}

fn call_with_null_id<'a>(method: &'a str, params: &'a str) -> Call<'a> {
    Call::Method { id: Id::Null, method: method.into(), params: Params::new(Some(params)) }
}

/// Parses a body, and runs it if all of its calls are cached or cheap.
fn plan_body<'a, A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    path: ExecutionPath,
    body: &'a str,
) -> BodyPlan<'a, A> {
    match parse_body(server, context.client, body) {
        Ok(Request::Single(call)) => plan_single(server, context, path, call),
        Ok(Request::Batch(calls)) => plan_batch(server, context, path, calls),
        Err(refused) => BodyPlan::Answered(finish(&server.context, context, refused.end_at(path))),
    }
}

/// Runs a body that was planned on the pool, or that the pool refused to plan.
async fn finish_offloaded<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    path: ExecutionPath,
    planned: Result<BodyPlan<'static, A>, RpcError>,
) -> JsonRpcResponse {
    let pooled = match planned {
        Ok(BodyPlan::Answered(response)) => return response,
        Ok(BodyPlan::Pooled(body)) => run_pooled(server, context, body),
        Err(err) => {
            let refused = RefusedBody::from(err).end_at(path);
            return finish(&server.context, &context, refused);
        }
    };
    pooled.await
}

/// Runs a body that needs the pool.
fn run_pooled<'a, A: Api>(
    server: &'a Arc<Server<A>>,
    context: RequestContext,
    body: PooledBody<'a, A>,
) -> PooledResponse<'a> {
    match body {
        PooledBody::Single { call, class, cacheable } => {
            Box::pin(run_single(server, context, *call, class, cacheable))
        }
        PooledBody::Batch { plans, class, fallback } => {
            Box::pin(run_batch(server, context, plans, class, fallback))
        }
    }
}
