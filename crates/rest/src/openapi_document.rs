//! The description that is served: with examples that this node can answer.
//!
//! Bounds: [`BLOCKS_MAX`] blocks are looked at for a transaction. It is made again only when what it gives as
//! an example is no longer kept, or when there is a transaction at last.

use std::sync::Arc;

use ledger::{Commitment, Slot};
use parking_lot::Mutex;
use rpc::Node;
use rpc::error::RpcError;

use crate::error::ApiError;
use crate::params::Limits;
use crate::response::StaticResponse;
use crate::{openapi, routes};

/// Final blocks that are looked at for a transaction, the newest first.
const BLOCKS_MAX: usize = 256;

/// What a node has to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Examples {
    /// A final block.
    pub(crate) slot: Option<Slot>,
    /// A transaction in it.
    pub(crate) signature: Option<String>,
}

impl Examples {
    fn from_node(node: &Node) -> Self {
        let root = node.reader.view(Commitment::Finalized).block().slot;
        let history = node.history.snapshot();
        let mut newest = history.blocks(..=root).rev().take(BLOCKS_MAX);
        let Some(first) = newest.next() else { return Self::default() };
        let with_one = std::iter::once(first).chain(newest).find_map(|block| {
            let signature = block.transactions.first()?.signature().to_string();
            Some(Self { slot: Some(block.id.slot), signature: Some(signature) })
        });
        with_one.unwrap_or(Self { slot: Some(first.id.slot), signature: None })
    }

    /// Whether they can still be answered, and are as good as can be.
    fn are_available(&self, node: &Node) -> bool {
        let is_kept = self.slot.is_some_and(|slot| node.history.snapshot().block(slot).is_some());
        is_kept && self.signature.is_some()
    }
}

/// The description, made when it is first asked for.
#[derive(Debug, Default)]
pub(crate) struct OpenApiDocument {
    cached: Mutex<Option<(Examples, Arc<StaticResponse>)>>,
    /// Held by whoever makes it: one, whether or not anybody still waits for it.
    build_lock: Arc<tokio::sync::Mutex<()>>,
}

impl OpenApiDocument {
    /// The description as this node gives it now.
    pub(crate) async fn get_or_build(
        &self,
        node: &Arc<Node>,
    ) -> Result<Arc<StaticResponse>, ApiError> {
        let made = self.cached.lock().clone();
        if let Some((examples, fixed)) = &made
            && examples.are_available(node)
        {
            return Ok(Arc::clone(fixed));
        }
        let examples = Examples::from_node(node);
        if let Some((old, fixed)) = made
            && old == examples
        {
            return Ok(fixed);
        }
        let making = Arc::clone(&self.build_lock).lock_owned().await;
        let made = self.cached.lock().clone();
        if let Some((_, fixed)) = made.filter(|(made_of, _)| *made_of == examples) {
            return Ok(fixed);
        }
        // Some milliseconds: not on a thread that polls sockets.
        let (of, limits) = (examples.clone(), Limits::from_node(node));
        let fixed = tokio::task::spawn_blocking(move || {
            let _making = making;
            let document = openapi::document(routes::ROUTES, &of, limits).to_string();
            Arc::new(StaticResponse::new("application/json", document.as_bytes()))
        });
        let fixed = fixed.await.map_err(|_| RpcError::internal())?;
        *self.cached.lock() = Some((examples, Arc::clone(&fixed)));
        Ok(fixed)
    }
}
