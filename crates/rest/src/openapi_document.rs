//! The OpenAPI document that is served, with examples that this node can serve.
//!
//! Bounds: up to [`BLOCKS_MAX`] blocks are searched for a transaction. The document is rebuilt only when its examples
//! are no longer retained, or when the first transaction exists.

use std::sync::Arc;

use jsonrpc::error::RpcError;
use ledger::{Commitment, Slot};
use parking_lot::Mutex;
use rpc_solana::SolanaServer;

use crate::error::ApiError;
use crate::params::Limits;
use crate::response::StaticResponse;
use crate::{openapi, routes};

/// Finalized blocks that are searched for a transaction, newest first.
const BLOCKS_MAX: usize = 256;

/// Example values from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Examples {
    /// The slot of a finalized block.
    pub(crate) slot: Option<Slot>,
    /// The signature of a transaction in it.
    pub(crate) signature: Option<String>,
}

impl Examples {
    fn from_node(server: &SolanaServer) -> Self {
        let history = server.api.history.snapshot();
        let mut newest = history.blocks(.., Commitment::Finalized).rev().take(BLOCKS_MAX);
        let Some(first) = newest.next() else { return Self::default() };
        let with_transaction = std::iter::once(first).chain(newest).find_map(|block| {
            let signature = block.transactions.first()?.signature().to_string();
            Some(Self { slot: Some(block.id.slot), signature: Some(signature) })
        });
        with_transaction.unwrap_or(Self { slot: Some(first.id.slot), signature: None })
    }

    /// Whether the node can still serve all examples.
    fn are_available(&self, server: &SolanaServer) -> bool {
        let history = server.api.history.snapshot();
        let is_retained =
            self.slot.is_some_and(|slot| history.block(slot, Commitment::Finalized).is_some());
        is_retained && self.signature.is_some()
    }
}

/// The document, built at the first request.
#[derive(Debug, Default)]
pub(crate) struct OpenApiDocument {
    cached: Mutex<Option<(Examples, Arc<StaticResponse>)>>,
    /// Locked while the document is built, so that it is built once at a time, even if its request is cancelled.
    build_lock: Arc<tokio::sync::Mutex<()>>,
}

impl OpenApiDocument {
    /// The document with the examples of the node's current state.
    pub(crate) async fn get_or_build(
        &self,
        server: &Arc<SolanaServer>,
    ) -> Result<Arc<StaticResponse>, ApiError> {
        let cached = self.cached.lock().clone();
        if let Some((examples, response)) = &cached
            && examples.are_available(server)
        {
            return Ok(Arc::clone(response));
        }
        let examples = Examples::from_node(server);
        if let Some((old, response)) = cached
            && old == examples
        {
            return Ok(response);
        }
        let guard = Arc::clone(&self.build_lock).lock_owned().await;
        let cached = self.cached.lock().clone();
        if let Some((_, response)) = cached.filter(|(old, _)| *old == examples) {
            return Ok(response);
        }
        // Takes some milliseconds: not on a thread that polls sockets.
        let (used, limits) = (examples.clone(), Limits::from_node(server));
        let response = tokio::task::spawn_blocking(move || {
            let _guard = guard;
            let document = openapi::document(routes::ROUTES, &used, limits).to_string();
            Arc::new(StaticResponse::new("application/json", document.as_bytes()))
        });
        let response = response.await.map_err(|_| RpcError::internal())?;
        *self.cached.lock() = Some((examples, Arc::clone(&response)));
        Ok(response)
    }
}
