//! The response to a body, and to one call of it.
//!
//! In: the result of a method, an error, or a cached response. Out: bytes with their newline, or the channel
//! that they come from.
//! Invariant: a client gets a `Retry-After` only if every call of its body was refused.
//! Not here: running a call ([`super::plan`]), sending the response (`service`).

use http_server::{ContentEncoding, poll_budget};
use pool::{Class as PoolClass, RateLimited};
use response_cache::CachedResponse;

use super::record::record_call;
use crate::api::Api;
use crate::envelope::{self, Id, ResponseText};
use crate::error::RpcError;
use crate::method_output::{MethodOutput, MethodResult};
use crate::metrics::{ExecutionPath, MethodLabel, Outcome};
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::response_channel::{BodyChunk, ResponseReceiver};
use crate::server_context::ServerContext;
use crate::task::OwnedCall;
use crate::value_response::{ResponseMeta, ValueWriter};

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
            None => {
                let parts = cached_parts(cached, slot, id, true);
                Self::Cached(parts, cached.coding(), ResponseMeta::default())
            }
            Some(_) => Self::Cached(
                cached.value_body(),
                cached.coding(),
                ResponseMeta::from_cached(cached, slot),
            ),
        }
    }

    /// The same response, marked as produced on the pool.
    pub(super) fn made_on_pool(self) -> Self {
        match self {
            Self::Full(full) => Self::Full(FullBody { is_from_pool: true, ..full }),
            other => other,
        }
    }

    fn error(context: &RequestContext, err: &RpcError) -> Self {
        Self::from_call(encode_result(context, Err(err.clone()), &Id::Null))
    }

    /// The response to a client that reached its rate limit.
    pub(crate) fn too_many(too_many: &RateLimited, id: &Id) -> Self {
        let err = RpcError::too_many(too_many);
        let text = ResponseText::from(envelope::error_response(&err, id, true)).into_line();
        let retry_after_s = Some(too_many.retry_after.as_secs() + 1);
        Self::Full(FullBody { text, retry_after_s, ..FullBody::default() })
    }

    pub(super) fn from_call(response: CallResponse) -> Self {
        let retry_after_s = response.overloaded.then_some(RETRY_AFTER_S);
        let CallResponse { text, meta, .. } = response;
        let text = if meta.is_some() { text.into_bytes() } else { text.into_line() };
        Self::Full(FullBody { text, retry_after_s, meta, ..FullBody::default() })
    }
}

/// The response to one call.
#[derive(Clone)]
pub(super) struct CallResponse {
    pub(super) text: ResponseText,
    /// Metadata of a value for an interface other than JSON-RPC; the text is the value then.
    meta: Option<Box<ResponseMeta>>,
    overloaded: bool,
    pub(super) outcome: Outcome,
}

impl CallResponse {
    pub(super) fn into_owned_call<A: Api>(self, label: MethodLabel) -> OwnedCall<A> {
        OwnedCall::Answered { text: self.text, label, outcome: self.outcome }
    }
}

pub(super) fn encode_response(result: MethodResult, id: &Id) -> CallResponse {
    match result.and_then(|output| output.into_response(id)) {
        Ok(text) => {
            // Has no effect on threads of the CPU pool.
            poll_budget::charge(text.as_bytes().len());
            CallResponse { text, meta: None, overloaded: false, outcome: Outcome::Succeeded }
        }
        Err(err) => encode_error(&err, id, true),
    }
}

/// The result of a call as its interface sends it: in an envelope, or alone.
pub(super) fn encode_result(
    context: &RequestContext,
    result: MethodResult,
    id: &Id,
) -> CallResponse {
    let Some(options) = context.options else { return encode_response(result, id) };
    let value = result.and_then(MethodOutput::into_value);
    let (overloaded, outcome) = match &value {
        Ok(_) => (false, Outcome::Succeeded),
        Err(err) => (err.is_overload(), Outcome::Refused(err.code)),
    };
    let (text, meta) = ValueWriter::write_whole(options, value);
    poll_budget::charge(text.as_bytes().len());
    CallResponse { text, meta: Some(Box::new(meta)), overloaded, outcome }
}

fn encode_error(err: &RpcError, id: &Id, versioned: bool) -> CallResponse {
    let text = envelope::error_response(err, id, versioned).into();
    let (overloaded, outcome) = (err.is_overload(), Outcome::Refused(err.code));
    CallResponse { text, meta: None, overloaded, outcome }
}

/// The response to a call that is not valid.
pub(super) fn encode_invalid(err: &RpcError, id: &Id, versioned: bool) -> CallResponse {
    CallResponse { overloaded: false, ..encode_error(err, id, versioned) }
}

/// The responses of a batch; empty if there are none.
pub(super) fn join_batch(responses: impl Iterator<Item = CallResponse>) -> JsonRpcResponse {
    let mut text = Vec::new();
    let mut overloaded = true;
    for response in responses {
        text.push(if text.is_empty() { b'[' } else { b',' });
        text.extend_from_slice(response.text.as_bytes());
        overloaded &= response.overloaded;
    }
    if text.is_empty() {
        return JsonRpcResponse::Empty;
    }
    text.push(b']');
    let (text, outcome) = (text.into(), Outcome::Succeeded);
    JsonRpcResponse::from_call(CallResponse { text, meta: None, overloaded, outcome })
}

/// The response to a body that is refused as a whole.
pub(super) fn refuse_body(
    server: &ServerContext,
    context: &RequestContext,
    path: ExecutionPath,
    err: &RpcError,
) -> JsonRpcResponse {
    record_call(server, context, (MethodLabel::none(), None), path, Outcome::Refused(err.code));
    JsonRpcResponse::error(context, err)
}

/// The response to a call that the pool cannot accept.
pub(super) fn refuse_call(
    server: &ServerContext,
    context: &RequestContext,
    (id, label, params, class): (&Id, MethodLabel, Params<'_>, PoolClass),
    err: RpcError,
) -> JsonRpcResponse {
    let response = encode_result(context, Err(err), id);
    record_call(
        server,
        context,
        (label, Some(params)),
        ExecutionPath::Pool(class),
        response.outcome,
    );
    JsonRpcResponse::from_call(response)
}

/// The response to request `id` from the cache, with `slot` in its context, as a line or as a part of a batch.
pub(super) fn cached_parts(
    cached: &CachedResponse,
    slot: u64,
    id: &Id,
    is_line: bool,
) -> Vec<bytes::Bytes> {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let context = cached.context_at(slot);
    envelope::write_before_value(&mut head, context);
    envelope::write_after_value(&mut tail, context, id);
    if is_line {
        tail.push(b'\n');
    }
    cached.framed(head, tail)
}
