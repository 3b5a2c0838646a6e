//! Receives the response of a pool task.
//!
//! Invariant: nothing runs on for a client that has disconnected: dropping a [`ResponseReceiver`] ends its
//! task.
//! Not here: the task itself (`task`), its chunks (`response_channel`).

use std::time::Duration;

use pool::{Class as PoolClass, TaskEnd};

use super::response::{FullBody, JsonRpcResponse, RETRY_AFTER_S, encode_result};
use crate::envelope::Id;
use crate::error::RpcError;
use crate::offload;
use crate::request_context::RequestContext;
use crate::response_channel::{BodyChunk, Received, ResponseReceiver};
use crate::server_context::ServerContext;

/// The response of a task: whole if it is short.
pub(super) async fn recv_response(
    server: &ServerContext,
    (mut receiver, class): (ResponseReceiver, PoolClass),
    context: RequestContext,
    id: &Id,
) -> JsonRpcResponse {
    match receiver.recv().await {
        Received::Chunk(chunk) if chunk.is_last => {
            let BodyChunk { bytes: text, coding, meta, is_overload, .. } = chunk;
            let (retry_after_s, is_from_pool) = (is_overload.then_some(RETRY_AFTER_S), true);
            JsonRpcResponse::Full(FullBody { text, coding, retry_after_s, meta, is_from_pool })
        }
        Received::Chunk(chunk) => JsonRpcResponse::Streamed(chunk, receiver),
        Received::Cached(entry, slot) => match &entry.value {
            Some(cached) => JsonRpcResponse::from_cached(cached, context, slot, id),
            None => {
                let internal = Err(RpcError::internal());
                JsonRpcResponse::from_call(encode_result(&context, internal, id))
            }
        },
        Received::Ended(why) => {
            let ended = Err(offload::ended(server, class, why));
            JsonRpcResponse::from_call(encode_result(&context, ended, id))
        }
    }
}

/// Awaits a future until the deadline of a class, for a request that may have waited already. After the
/// deadline the error is returned and counted.
pub(super) async fn with_deadline<T>(
    server: &ServerContext,
    context: &RequestContext,
    class: PoolClass,
    future: impl Future<Output = T>,
) -> Result<T, RpcError> {
    let waited = server.pool.now().saturating_sub(context.arrived);
    let left = Duration::from_millis(server.pool.deadline_ms(class)).saturating_sub(waited);
    let late = |_| offload::ended(server, class, Some(TaskEnd::ExpiredWaiting));
    tokio::time::timeout(left, future).await.map_err(late)
}
