//! From the text of a body to its answer: which call runs where.
//!
//! A cheap call runs where the socket is polled. Any other goes to the CPU pool, with all calls of its
//! batch, as one task ([`crate::job`]) whose answer comes back piece by piece. A large body is read on the pool
//! as well ([`crate::work`]), and what is cheap in it is answered there. What is kept is not made again
//! ([`crate::look`]): for a call alone that is looked for here, for those of a batch when their turn comes, unless
//! all of a short one is known.
//! Bounds: `Config::batch_max` calls; the pool's own, past which the client is told at once.
//! Invariant: nothing is left running for a client that has gone: dropping what [`into_result`] gives, or its
//! future, ends the task.
//! Invariant: a file uses only those named before it.
//!
//! The files: `count` (metrics and log of a call), `reply` (answers), `read` (from a body to calls), `plan` (what is
//! to be done with a call), `here` (tools), `task` (what comes back from the pool), `from_cache` and `single` (a
//! call alone), `batch`, `large` (bodies read on the pool).

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

use crate::envelope::Request;
use crate::metrics::ExecutionPath;
use crate::node::Node;
use crate::offload::INLINE_BODY_BYTES_MAX;
use crate::poll_budget;
use crate::request_context::RequestContext;

pub use blocking::handle_blocking;
pub(crate) use cached::revalidate;
pub(crate) use offloaded::call_method_offloaded;
pub(crate) use response::JsonRpcResponse;
pub(crate) use single::call_method;

/// Answers a body. A large one is read on the pool.
///
/// Errors: it is no text.
pub(crate) async fn handle_body(
    node: &Arc<Node>,
    asker: RequestContext,
    body: bytes::Bytes,
) -> Result<JsonRpcResponse, Utf8Error> {
    if body.len() > INLINE_BODY_BYTES_MAX {
        // In a box: nearly no body is large, and each would carry the room for it.
        return Box::pin(offloaded::handle_offloaded_body(node, asker, body)).await;
    }
    poll_budget::charge_parsed(body.len());
    let body = std::str::from_utf8(&body)?;
    Ok(match parse::read(node, &asker, ExecutionPath::Inline, body) {
        Err(reply) => *reply,
        Ok(Request::Single(call)) => single::handle_single(node, asker, call).await,
        Ok(Request::Batch(calls)) => batch::handle_batch(node, asker, calls).await,
    })
}
