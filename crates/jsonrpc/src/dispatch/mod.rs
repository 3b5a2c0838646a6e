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
//! Invariant: a file uses only those named before it.
//!
//! The files: `record` (metrics and log of a call), `response` (responses), `admission`
//! (limits of the client), `parse` (from a body to calls),
//! `plan` (how to run a call), `blocking` (tools), `receive` (results of pool tasks), `cached` and `single` (a
//! single call), `batch`, `offloaded` (bodies that are parsed on the pool).

mod admission;
mod batch;
mod blocking;
mod cached;
mod offloaded;
mod parse;
mod plan;
mod receive;
mod record;
mod response;
mod single;

use std::str::Utf8Error;
use std::sync::Arc;

use http_server::poll_budget;

use crate::api::{Api, Server};
use crate::envelope::Request;
use crate::metrics::ExecutionPath;
use crate::offload::INLINE_BODY_BYTES_MAX;
use crate::request_context::RequestContext;

pub(crate) use admission::admit_method;
pub use blocking::handle_blocking;
pub(crate) use cached::revalidate;
pub(crate) use offloaded::call_method_offloaded;
pub(crate) use response::JsonRpcResponse;
pub(crate) use single::call_method;

/// Handles a body. A large one is parsed on the pool.
///
/// Errors: it is not UTF-8.
pub(crate) async fn handle_body<A: Api>(
    server: &Arc<Server<A>>,
    context: RequestContext,
    body: bytes::Bytes,
) -> Result<JsonRpcResponse, Utf8Error> {
    if body.len() > INLINE_BODY_BYTES_MAX {
        // In a box, as below: otherwise the future of every request would be as large as this one, and it is moved.
        return Box::pin(offloaded::handle_offloaded_body(server, context, body)).await;
    }
    poll_budget::charge_parsed(body.len());
    let body = std::str::from_utf8(&body)?;
    Ok(match parse::read(server, &context, ExecutionPath::Inline, body) {
        Err(response) => *response,
        Ok(Request::Single(call)) => single::handle_single(server, context, call).await,
        Ok(Request::Batch(calls)) => Box::pin(batch::handle_batch(server, context, calls)).await,
    })
}
