//! Receives the response of a pool task.
//!
//! Invariant: nothing runs on for a client that has disconnected: dropping a [`ResponseReceiver`] ends its
//! task.
//! Not here: the task itself (`task`), its chunks (`response_channel`).

use std::time::Duration;

use cpu_pool::{Class as PoolClass, TaskEnd};
use response_cache::CacheHit;

use super::response::Answer;
use crate::error::RpcError;
use crate::offload;
use crate::request_context::RequestContext;
use crate::response_channel::{Received, ResponseReceiver};
use crate::server_context::ServerContext;

/// Receives the first chunk from a task of `class`, which counts its calls. The response must begin in time
/// ([`crate::Config::first_byte_timeout_ms`]).
pub(super) async fn recv_response(
    server: &ServerContext,
    context: &RequestContext,
    class: PoolClass,
    mut receiver: ResponseReceiver,
) -> Answer {
    let received = match first_byte_timeout(server, context, class) {
        // The pool enforces the deadline.
        None => receiver.recv().await,
        Some(left) => match tokio::time::timeout(left, receiver.recv()).await {
            Ok(received) => received,
            Err(_) => return Answer::Result(Err(offload::late_response(server, class))),
        },
    };
    match received {
        Received::Chunk(chunk) if chunk.is_last => Answer::Pooled(chunk, None),
        Received::Chunk(chunk) => Answer::Pooled(chunk, Some(receiver)),
        Received::Cached(entry, slot) => Answer::Cached(CacheHit { entry, slot }),
        Received::Ended(why) => Answer::Result(Err(offload::ended(server, class, why))),
    }
}

/// Returns the time left for the first byte of a response; `None` if the deadline of its class is earlier.
fn first_byte_timeout(
    server: &ServerContext,
    context: &RequestContext,
    class: PoolClass,
) -> Option<Duration> {
    let timeout_ms = server.config.first_byte_timeout_ms;
    let is_earlier = timeout_ms < server.pool.deadline_ms(class);
    is_earlier.then(|| time_left(server, context, timeout_ms))
}

fn time_left(server: &ServerContext, context: &RequestContext, timeout_ms: u64) -> Duration {
    let waited = server.pool.now().saturating_sub(context.arrived);
    Duration::from_millis(timeout_ms).saturating_sub(waited)
}

/// Awaits a future until the deadline of a class, or until the response must begin, for a request that may have waited
/// already. After the deadline the error is returned and counted.
pub(super) async fn with_deadline<T>(
    server: &ServerContext,
    context: &RequestContext,
    class: PoolClass,
    future: impl Future<Output = T>,
) -> Result<T, RpcError> {
    if let Some(left) = first_byte_timeout(server, context, class) {
        let late = |_| offload::late_response(server, class);
        return tokio::time::timeout(left, future).await.map_err(late);
    }
    let left = time_left(server, context, server.pool.deadline_ms(class));
    let late = |_| offload::ended(server, class, Some(TaskEnd::ExpiredWaiting));
    tokio::time::timeout(left, future).await.map_err(late)
}
