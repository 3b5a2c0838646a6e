//! One method by its name, for a door other than JSON-RPC: the same table, classes, limits, pieces and end.
//!
//! In: the name of a method, its parameters as JSON, and how its result is wanted ([`crate::ResponseOptions`]). Out: what
//! is told of the result, and its bytes, which come piece by piece if they are many.
//! Bounds: those of `dispatch`, and [`crate::ResponseOptions::etag_buffer_bytes_max`].
//! Invariant: dropping what [`MethodClient::call`] gives, or its future, ends the task behind it.

use std::sync::Arc;

use bytes::Bytes;
use pool::ClientId;

use crate::body::ResponseBody;
use crate::content_encoding::ContentEncoding;
use crate::dispatch::{self, JsonRpcResponse};
use crate::error::RpcError;
use crate::node::Node;
use crate::offload::{self, INLINE_BODY_BYTES_MAX};
use crate::poll_budget;
use crate::request_context::RequestContext;
use crate::request_id::RequestId;
use crate::value_response::{ResponseMeta, ResponseOptions, ValueWriter};

/// Who asks, as limits and turns know him.
#[derive(Clone, Copy, Debug, Default)]
pub struct MethodClient {
    client: ClientId,
    request: RequestId,
}

/// A result: what is known of it, and its bytes.
pub struct MethodResponse {
    /// What is known before any of it is sent.
    pub meta: ResponseMeta,
    /// What it is compressed with.
    pub coding: ContentEncoding,
    /// Its bytes, at the pace of whoever reads them. They are counted as the client's once they go.
    pub body: ResponseBody,
}

impl MethodClient {
    pub(crate) fn new(client: ClientId, request: RequestId) -> Self {
        Self { client, request }
    }

    /// What the log calls the request.
    pub fn request(self) -> RequestId {
        self.request
    }

    /// Takes one request of the client's share; -32005 if it had it.
    pub fn admit(self, node: &Node) -> Result<(), RpcError> {
        node.admit(self.client, 1).map_err(|too_many| RpcError::too_many(&too_many))
    }

    /// Reads what a client sent: here if it is short, as one step on the CPU pool if not. `read` owns the bytes, of
    /// which there are `bytes`.
    ///
    /// Errors: -32005 if the pool has no room for it, -32603 if `read` panics.
    pub async fn parse_offloaded<T: Send + 'static>(
        self,
        node: &Node,
        bytes: usize,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        if bytes <= INLINE_BODY_BYTES_MAX {
            return Ok(read());
        }
        offload::run_on_pool(node, offload::class_of(bytes), self.client, read).await
    }

    /// Counts bytes that are sent.
    pub fn charge(self, node: &Node, bytes: usize) {
        node.charge(self.client, bytes);
    }

    /// What is told of a result that is too long to be hashed, without making it, if `is_known` says that
    /// the client has the one of that [`ResponseMeta::etag`]. It is the one that would be made now.
    ///
    /// Cost: parameters are read, and what the result depends on is looked up: some microseconds.
    pub fn revalidate(
        self,
        node: &Node,
        method: &str,
        params: &str,
        want: ResponseOptions,
        is_known: impl FnOnce(&[u8; 16]) -> bool,
    ) -> Option<ResponseMeta> {
        dispatch::revalidate(node, self.request_context(node, want), (method, params), is_known)
    }

    fn request_context(self, node: &Node, want: ResponseOptions) -> RequestContext {
        let Self { client, request } = self;
        RequestContext {
            client,
            coding: want.coding,
            options: Some(want),
            request,
            arrived: node.pool.now(),
        }
    }

    /// Runs a method where its class says, on parameters that are an array of JSON. Long ones are read on the CPU
    /// pool.
    ///
    /// Errors: the method's own, and -32005 if there is no room for it.
    pub async fn call(
        self,
        node: &Arc<Node>,
        method: &str,
        params: &str,
        want: ResponseOptions,
    ) -> Result<MethodResponse, RpcError> {
        let asker = self.request_context(node, want);
        poll_budget::charge(params.len());
        let reply = if params.len() > INLINE_BODY_BYTES_MAX {
            Box::pin(dispatch::call_method_offloaded(node, asker, method, params)).await
        } else {
            poll_budget::charge_parsed(params.len());
            dispatch::call_method(node, asker, method, params).await
        };
        let (told, coding, content) = match reply {
            JsonRpcResponse::Empty => return Err(RpcError::internal()),
            JsonRpcResponse::Full(whole) => match whole.meta {
                Some(told) => (*told, whole.coding, whole.text.into()),
                // It was answered where the socket is polled: it is short.
                None => {
                    poll_budget::charge(whole.text.len());
                    let (value, told) = ValueWriter::extract_whole(want, whole.text.into());
                    (told, ContentEncoding::Plain, Bytes::from(value).into())
                }
            },
            JsonRpcResponse::Cached(parts, coding, told) => {
                (told, coding, ResponseBody::from_cached(node, self.client, parts))
            }
            JsonRpcResponse::Streamed(mut first, rest) => {
                let told = first.meta.take().ok_or_else(RpcError::internal)?;
                let coding = first.coding;
                (*told, coding, ResponseBody::streamed(node, self.client, first, rest))
            }
        };
        match told.err {
            Some(err) => Err(err),
            None => Ok(MethodResponse { meta: told, coding, body: content }),
        }
    }
}
