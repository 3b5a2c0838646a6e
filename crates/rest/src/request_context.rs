//! The context of a request: its client, its server, and its accepted representations.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_server::ContentEncoding;
use hyper::Uri;
use hyper::header::HeaderMap;
use jsonrpc::error::RpcError;
use jsonrpc::{Api, MethodClient, MethodResponse, ResponseOptions, Server};
use ledger::{Commitment, Slot};

use crate::content_negotiation::Media;
use crate::error::ApiError;
use crate::route::MethodCall;

/// Bytes of a response that are buffered for its `ETag`.
pub(crate) const ETAG_BUFFER_BYTES_MAX: usize = 1024 * 1024;

/// A request, its client and its node.
pub struct RequestContext<'a, A: Api> {
    /// The server that executes the methods.
    pub server: &'a Arc<Server<A>>,
    pub(crate) caller: MethodClient,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) media: Media,
    /// Whether the method is GET or HEAD, so that the response may be 304.
    pub(crate) is_read: bool,
    /// Bytes of a response that are buffered for its `ETag`.
    pub(crate) etag_buffer_bytes_max: usize,
}

/// The result of a method that is always short.
#[derive(Debug)]
pub struct ShortResult {
    /// The slot of its context, if it has one.
    pub slot: Option<Slot>,
    /// The whole result as JSON text.
    pub json: Bytes,
}

impl<A: Api> RequestContext<'_, A> {
    pub(crate) async fn call(
        &self,
        call: &MethodCall,
        options: ResponseOptions,
    ) -> Result<MethodResponse, ApiError> {
        let MethodCall::Single(method, params) = call else {
            return Err(RpcError::internal().into());
        };
        Ok(self.caller.call(self.server, method, &params.to_string(), options).await?)
    }

    /// Returns a server with its state fixed at the current view, for several calls with results from one view.
    pub fn pinned_server(&self) -> Arc<Server<A>> {
        Arc::new(self.server.pinned())
    }

    /// Returns the context of the same request on another server.
    pub fn with_server<'s>(&'s self, server: &'s Arc<Server<A>>) -> RequestContext<'s, A> {
        RequestContext { server, ..*self }
    }

    /// Calls a method that always has a short result. The result is buffered as a whole, without compression.
    ///
    /// Errors: those of the method; -32603 if `call` is not of one method.
    pub async fn call_short(&self, call: &MethodCall) -> Result<ShortResult, ApiError> {
        let options = ResponseOptions {
            etag_buffer_bytes_max: ETAG_BUFFER_BYTES_MAX,
            ..ResponseOptions::default()
        };
        let MethodResponse { meta, body, .. } = self.call(call, options).await?;
        let collected = body.collect().await.map_err(|_| RpcError::internal())?;
        Ok(ShortResult { slot: meta.slot, json: collected.to_bytes() })
    }

    /// The slot of the state at a commitment.
    pub(crate) fn slot(&self, commitment: Commitment) -> Slot {
        self.server.api.version_and_slot(commitment).1
    }

    pub(crate) fn content_encoding(&self) -> ContentEncoding {
        ContentEncoding::negotiate(self.headers)
    }
}
