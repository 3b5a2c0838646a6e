//! What comes back from a task of the pool.
//!
//! Invariant: nothing is left running for a client that has gone: a [`ResponseReceiver`] that is dropped ends its task.
//! Not here: what the task does ([`crate::job`]), its pieces ([`crate::outlet`]).

use std::time::Duration;

use pool::{Class as PoolClass, TaskEnd};

use super::response::{FullBody, JsonRpcResponse, RETRY_AFTER_S, encode_response};
use crate::envelope::Id;
use crate::error::RpcError;
use crate::node::Node;
use crate::offload;
use crate::request_context::RequestContext;
use crate::response_channel::{BodyChunk, Received, ResponseReceiver};

/// The answer of a task: whole if it is short.
pub(super) async fn recv_response(
    node: &Node,
    (mut taker, class): (ResponseReceiver, PoolClass),
    asker: RequestContext,
    id: &Id,
) -> JsonRpcResponse {
    match taker.recv().await {
        Received::Chunk(piece) if piece.is_last => {
            let BodyChunk { bytes: text, coding, meta: told, is_overload, .. } = piece;
            let (retry_after_s, is_from_pool) = (is_overload.then_some(RETRY_AFTER_S), true);
            JsonRpcResponse::Full(FullBody {
                text,
                coding,
                retry_after_s,
                meta: told,
                is_from_pool,
            })
        }
        Received::Chunk(piece) => JsonRpcResponse::Streamed(piece, taker),
        Received::Cached(entry, slot) => match &entry.value {
            Some(kept) => JsonRpcResponse::from_cached(kept, asker, slot, id),
            None => JsonRpcResponse::from_call(encode_response(Err(RpcError::internal()), id)),
        },
        Received::Ended(why) => {
            JsonRpcResponse::from_call(encode_response(Err(offload::ended(node, class, why)), id))
        }
    }
}

/// What comes of something before the deadline of a class is over, for a request that may have waited already; else
/// what is told then, which is counted.
pub(super) async fn with_deadline<T>(
    node: &Node,
    asker: &RequestContext,
    class: PoolClass,
    awaited: impl Future<Output = T>,
) -> Result<T, RpcError> {
    let waited = node.pool.now().saturating_sub(asker.arrived);
    let left = Duration::from_millis(node.pool.deadline_ms(class)).saturating_sub(waited);
    let late = |_| offload::ended(node, class, Some(TaskEnd::ExpiredWaiting));
    tokio::time::timeout(left, awaited).await.map_err(late)
}
