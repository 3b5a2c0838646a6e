//! The OpenAPI document that is served, with examples that this node can serve.
//!
//! Bounds: the document is rebuilt only when its examples are no longer available, one at a time.

use std::sync::Arc;

use jsonrpc::Server;
use jsonrpc::error::RpcError;
use parking_lot::Mutex;

use crate::error::ApiError;
use crate::openapi::build_openapi;
use crate::rest_api::{Examples, RestApi};
use crate::static_response::StaticResponse;

/// The document, built at the first request.
#[derive(Debug, Default)]
pub(crate) struct OpenApiDocument {
    cached: Mutex<Option<(Examples, Arc<StaticResponse>)>>,
    /// Locked while the document is built. So only one build runs at a time, even if its request is cancelled.
    build_lock: Arc<tokio::sync::Mutex<()>>,
}

impl OpenApiDocument {
    /// The document with the examples of the node's current state.
    pub(crate) async fn get_or_build<R: RestApi>(
        &self,
        api: &R,
        server: &Server<R::Api>,
    ) -> Result<Arc<StaticResponse>, ApiError> {
        let cached = self.cached.lock().clone();
        if let Some((examples, response)) = &cached
            && api.are_available(server, examples)
        {
            return Ok(Arc::clone(response));
        }
        let examples = api.examples(server);
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
        let used = examples.clone();
        let limits = api.limits(server);
        let response = tokio::task::spawn_blocking(move || {
            let _guard = guard;
            let document = build_openapi(R::TABLE, &used, limits).to_string();
            Arc::new(StaticResponse::new("application/json", document.as_bytes()))
        });
        let response = response.await.map_err(|_| RpcError::internal())?;
        *self.cached.lock() = Some((examples, Arc::clone(&response)));
        Ok(response)
    }
}
