//! What comes back from a task of the pool.
//!
//! Invariant: nothing is left running for a client that has gone: a [`Taker`] that is dropped ends its task.
//! Not here: what the task does ([`crate::job`]), its pieces ([`crate::outlet`]).

use std::time::Duration;

use pool::{Class as PoolClass, TaskEnd};

use super::reply::{RETRY_AFTER_S, Reply, Whole, reply};
use crate::asker::Asker;
use crate::envelope::Id;
use crate::error::RpcError;
use crate::node::Node;
use crate::outlet::{Piece, Taken, Taker};
use crate::work;

/// The answer of a task: whole if it is short.
pub(super) async fn receive(
    node: &Node,
    (mut taker, class): (Taker, PoolClass),
    asker: Asker,
    id: &Id,
) -> Reply {
    match taker.take().await {
        Taken::Piece(piece) if piece.is_last => {
            let Piece { bytes: text, coding, told, is_overload, .. } = piece;
            let (retry_after_s, is_from_pool) = (is_overload.then_some(RETRY_AFTER_S), true);
            Reply::Whole(Whole { text, coding, retry_after_s, told, is_from_pool })
        }
        Taken::Piece(piece) => Reply::Streamed(piece, taker),
        Taken::Kept(entry, slot) => match &entry.value {
            Some(kept) => Reply::kept(kept, asker, slot, id),
            None => Reply::whole(reply(Err(RpcError::internal()), id)),
        },
        Taken::Ended(why) => Reply::whole(reply(Err(work::ended(node, class, why)), id)),
    }
}

/// What comes of something before the deadline of a class is over, for a request that may have waited already; else
/// what is told then, which is counted.
pub(super) async fn in_time<T>(
    node: &Node,
    asker: &Asker,
    class: PoolClass,
    awaited: impl Future<Output = T>,
) -> Result<T, RpcError> {
    let waited = node.pool.now().saturating_sub(asker.arrived);
    let left = Duration::from_millis(node.pool.deadline_ms(class)).saturating_sub(waited);
    let late = |_| work::ended(node, class, Some(TaskEnd::ExpiredWaiting));
    tokio::time::timeout(left, awaited).await.map_err(late)
}
