//! The response to a body, and to one call of it.
//!
//! In: the result of a method, an error, or a cached response. Out: bytes with their newline, or the channel
//! that they come from.
//! Invariant: a client gets a `Retry-After` only if every call of its body was refused.
//! Not here: running a call ([`super::plan`]), sending the response (`service`).

use pool::{Class as PoolClass, RateLimited};

use super::record::record_call;
use crate::cached_response::CachedResponse;
use crate::content_encoding::ContentEncoding;
use crate::envelope::{self, Id};
use crate::error::RpcError;
use crate::methods::{MethodRef, MethodResult};
use crate::metrics::{ExecutionPath, MethodLabel, Outcome};
use crate::node::Node;
use crate::params::Params;
use crate::poll_budget;
use crate::request_context::RequestContext;
use crate::response_channel::{BodyChunk, ResponseReceiver};
use crate::task::OwnedCall;
use crate::value_response::ResponseMeta;

/// Seconds after which a client that met a full queue should retry: by then a second of work is done.
pub(super) const RETRY_AFTER_S: u64 = 1;

/// The response to a body.
pub(crate) enum JsonRpcResponse {
    /// No call of the body gets a response.
    Empty,
    /// The whole response.
    Full(FullBody),
    /// The whole response from the cache, and its metadata for an interface other than JSON-RPC.
    Cached(Vec<bytes::Bytes>, ContentEncoding, ResponseMeta),
    /// Its first chunk, and the channel that the rest comes from.
    Streamed(BodyChunk, ResponseReceiver),
}

/// A complete response.
#[derive(Default)]
pub(crate) struct FullBody {
    /// The bytes to send, including the final newline.
    pub(crate) text: bytes::Bytes,
    /// How it is compressed.
    pub(crate) coding: ContentEncoding,
    /// Set if every call was refused because of overload: HTTP 429, and after how many seconds to retry.
    pub(crate) retry_after_s: Option<u64>,
    /// Metadata of a value for an interface other than JSON-RPC.
    pub(crate) meta: Option<Box<ResponseMeta>>,
    /// Whether the pool produced it.
    pub(crate) is_from_pool: bool,
}

impl JsonRpcResponse {
    pub(super) fn from_cached(
        cached: &CachedResponse,
        context: RequestContext,
        slot: u64,
        id: &Id,
    ) -> Self {
        match context.options {
            None => Self::Cached(
                cached.response_body(slot, id),
                cached.coding(),
                ResponseMeta::default(),
            ),
            Some(_) => Self::Cached(cached.value_body(), cached.coding(), cached.meta(slot)),
        }
    }

    /// The same response, marked as produced on the pool.
    pub(super) fn made_on_pool(self) -> Self {
        match self {
            Self::Full(full) => Self::Full(FullBody { is_from_pool: true, ..full }),
            other => other,
        }
    }

    fn error(err: &RpcError) -> Self {
        Self::from_call(encode_response(Err(err.clone()), &Id::Null))
    }

    /// The response to a client that reached its rate limit.
    pub(crate) fn too_many(too_many: &RateLimited, id: &Id) -> Self {
        let err = RpcError::too_many(too_many);
        let text = envelope::error_response(&err, id, true);
        let retry_after_s = Some(too_many.retry_after.as_secs() + 1);
        Self::Full(FullBody { text: with_newline(text), retry_after_s, ..FullBody::default() })
    }

    pub(super) fn from_call(response: CallResponse) -> Self {
        let retry_after_s = response.overloaded.then_some(RETRY_AFTER_S);
        Self::Full(FullBody {
            text: with_newline(response.text),
            retry_after_s,
            ..FullBody::default()
        })
    }
}

/// The response to one call.
#[derive(Clone)]
pub(super) struct CallResponse {
    pub(super) text: Vec<u8>,
    overloaded: bool,
    pub(super) outcome: Outcome,
}

impl CallResponse {
    pub(super) fn into_owned_call(self, label: MethodLabel) -> OwnedCall {
        OwnedCall::Answered { text: self.text, label, outcome: self.outcome }
    }
}

pub(super) fn encode_response(result: MethodResult, id: &Id) -> CallResponse {
    match result.and_then(|output| output.into_response(id)) {
        Ok(text) => {
            // Has no effect on threads of the CPU pool.
            poll_budget::charge(text.len());
            CallResponse { text, overloaded: false, outcome: Outcome::Succeeded }
        }
        Err(err) => {
            let (overloaded, outcome) = (err.is_overload(), Outcome::Refused(err.code));
            CallResponse { text: envelope::error_response(&err, id, true), overloaded, outcome }
        }
    }
}

/// The response to a call that is not valid.
pub(super) fn encode_invalid(err: &RpcError, id: &Id, versioned: bool) -> CallResponse {
    let text = envelope::error_response(err, id, versioned);
    CallResponse { text, overloaded: false, outcome: Outcome::Refused(err.code) }
}

/// The responses of a batch; empty if there are none.
pub(super) fn join_batch(responses: impl Iterator<Item = CallResponse>) -> JsonRpcResponse {
    let mut text = Vec::new();
    let mut overloaded = true;
    for response in responses {
        text.push(if text.is_empty() { b'[' } else { b',' });
        text.extend_from_slice(&response.text);
        overloaded &= response.overloaded;
    }
    if text.is_empty() {
        return JsonRpcResponse::Empty;
    }
    text.push(b']');
    JsonRpcResponse::from_call(CallResponse { text, overloaded, outcome: Outcome::Succeeded })
}

/// The response to a body that is refused as a whole.
pub(super) fn refuse_body(
    node: &Node,
    context: &RequestContext,
    path: ExecutionPath,
    err: &RpcError,
) -> JsonRpcResponse {
    record_call(node, context, (MethodLabel::none(), None), path, Outcome::Refused(err.code));
    JsonRpcResponse::error(err)
}

/// The response to a call that the pool cannot accept.
pub(super) fn refuse_call(
    node: &Node,
    context: &RequestContext,
    (id, method, params, class): (&Id, MethodRef, Params<'_>, PoolClass),
    err: RpcError,
) -> JsonRpcResponse {
    let response = encode_response(Err(err), id);
    record_call(
        node,
        context,
        (method.label(), Some(params)),
        ExecutionPath::Pool(class),
        response.outcome,
    );
    JsonRpcResponse::from_call(response)
}

fn with_newline(mut text: Vec<u8>) -> bytes::Bytes {
    text.push(b'\n');
    text.into()
}
