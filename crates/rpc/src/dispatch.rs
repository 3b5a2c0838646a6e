//! From the text of a body to the text of its answer: which method runs where.
//!
//! A cheap method runs where the socket is polled; a heavy one goes to the CPU pool and its answer
//! comes back over a one-shot channel. Calls of a batch run one after another, so that a batch has at
//! most one job in the pool however long it is.
//! Bounds: `Config::batch_max` calls; the pool's own queue, past which the client is told at once.
//! Invariant: nothing is left running for a client that has gone. Dropping the future of [`answer`]
//! closes the channel, and a job whose channel is closed is not begun.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::envelope::{self, Call, Id, Request};
use crate::error::{OVERLOADED, RpcError};
use crate::methods::{self, Class, Method, MethodResult};
use crate::node::Node;
use crate::params::Params;

/// After so many calls of a batch other connections of this thread get their turn.
const CALLS_BETWEEN_YIELDS: usize = 16;

/// The answer to a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// What to send, without the final newline; `None` if there was nothing to answer.
    pub(crate) text: Option<Vec<u8>>,
    /// Whether all of it was refused because the pool is full: HTTP 429.
    pub(crate) overloaded: bool,
}

/// The answer to one call.
struct Answered {
    text: Vec<u8>,
    overloaded: bool,
}

/// Answers a body.
pub(crate) async fn answer(node: &Arc<Node>, body: &str) -> Reply {
    match envelope::read(body) {
        Err(err) => Reply::error(&err),
        Ok(Request::Single(call)) => match answer_call(node, call).await {
            None => Reply { text: None, overloaded: false },
            Some(done) => Reply { text: Some(done.text), overloaded: done.overloaded },
        },
        Ok(Request::Batch(calls)) => answer_batch(node, calls).await,
    }
}

/// Answers a body on the calling thread, heavy methods too; `None` if there is nothing to answer.
///
/// For tools and fuzzing: it has no pool, no bound on a batch but its own, and takes as long as it takes.
pub fn answer_here(node: &Node, body: &str) -> Option<Vec<u8>> {
    let calls = match envelope::read(body) {
        Err(err) => return Some(envelope::error_reply(&err, &Id::Null, true)),
        Ok(Request::Single(call)) => return answer_call_here(node, call),
        Ok(Request::Batch(calls)) => calls,
    };
    let replies: Vec<_> =
        calls.into_iter().filter_map(|call| answer_call_here(node, call)).collect();
    (!replies.is_empty()).then(|| [&b"["[..], &replies.join(&b',')[..], b"]"].concat())
}

fn answer_call_here(node: &Node, call: Call<'_>) -> Option<Vec<u8>> {
    match call {
        Call::Notification => None,
        Call::Invalid { id, versioned, err } => Some(envelope::error_reply(&err, &id, versioned)),
        Call::Method { id, method, params } => {
            let result = methods::find(&method).ok_or_else(RpcError::method_not_found);
            let result =
                result.and_then(|method| guarded(method, || (method.run)(node, params))).flatten();
            Some(reply(result, &id))
        }
    }
}

async fn answer_batch(node: &Arc<Node>, calls: Vec<Call<'_>>) -> Reply {
    let (calls_len, limit) = (calls.len(), node.config.batch_max);
    if calls_len > limit {
        let message = format!("a batch of {calls_len} calls, at most {limit} (rpc.batch_max)");
        return Reply::error(&RpcError::invalid_request(message));
    }
    let mut text = Vec::new();
    let mut overloaded = true;
    for (index, call) in calls.into_iter().enumerate() {
        if index % CALLS_BETWEEN_YIELDS == CALLS_BETWEEN_YIELDS - 1 {
            tokio::task::yield_now().await;
        }
        let Some(done) = answer_call(node, call).await else { continue };
        text.push(if text.is_empty() { b'[' } else { b',' });
        text.extend_from_slice(&done.text);
        overloaded &= done.overloaded;
    }
    if text.is_empty() {
        return Reply { text: None, overloaded: false };
    }
    text.push(b']');
    Reply { text: Some(text), overloaded }
}

async fn answer_call(node: &Arc<Node>, call: Call<'_>) -> Option<Answered> {
    let (id, method, params) = match call {
        Call::Notification => return None,
        Call::Invalid { id, versioned, err } => {
            return Some(Answered {
                text: envelope::error_reply(&err, &id, versioned),
                overloaded: false,
            });
        }
        Call::Method { id, method, params } => (id, method, params),
    };
    let result = match methods::find(&method) {
        None => Err(RpcError::method_not_found()),
        Some(method) => run(node, method, params).await,
    };
    let overloaded = matches!(&result, Err(err) if is_overload(err));
    Some(Answered { text: reply(result, &id), overloaded })
}

fn reply(result: MethodResult, id: &Id) -> Vec<u8> {
    match result {
        Ok(answer) => answer.into_reply(id),
        Err(err) => envelope::error_reply(&err, id, true),
    }
}

async fn run(node: &Arc<Node>, method: &'static Method, params: Params<'_>) -> MethodResult {
    let heavy = match method.class {
        Class::Inline => false,
        Class::Heavy => true,
        Class::HeavyIf(heavy) => guarded(method, || heavy(node, params))?,
    };
    if !heavy {
        return guarded(method, || (method.run)(node, params))?;
    }
    let (done, result) = oneshot::channel();
    let params: Option<Box<str>> = params.text().map(Box::from);
    let for_job = Arc::clone(node);
    let job = move || {
        if !done.is_closed() {
            let result = guarded(method, || (method.run)(&for_job, Params::new(params.as_deref())));
            // The client may have gone meanwhile; then nobody wants it.
            let _ = done.send(result.flatten());
        }
    };
    node.pool.submit(Box::new(job)).map_err(|full| overload(&full))?;
    // The pool drops a job without running it only when the node shuts down.
    result.await.unwrap_or_else(|_| Err(RpcError::internal_with("the node is shutting down")))
}

/// Runs a method's code; a panic in it is the answer to this call and nothing more.
fn guarded<T>(method: &Method, run: impl FnOnce() -> T) -> Result<T, RpcError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
        tracing::error!(method = method.name, "a method panicked; its request got -32603");
        RpcError::internal()
    })
}

fn overload(full: &pool::Full) -> RpcError {
    let data = serde_json::json!({ "queued": full.queued, "limit": full.limit });
    RpcError::new(OVERLOADED, full.to_string()).with_data(data)
}

fn is_overload(err: &RpcError) -> bool {
    err.code == OVERLOADED && err.data.as_ref().is_some_and(|data| data.get("limit").is_some())
}

impl Reply {
    fn error(err: &RpcError) -> Self {
        Self { text: Some(envelope::error_reply(err, &Id::Null, true)), overloaded: false }
    }
}
