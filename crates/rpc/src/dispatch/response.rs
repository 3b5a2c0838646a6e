//! The answer to a body, and to one call of it.
//!
//! In: what a method gave, or why there is nothing; what is kept. Out: bytes with their newline, or where they
//! come from.
//! Invariant: who is to come again later is told so only if nothing of his body was answered.
//! Not here: making an answer ([`super::plan`]), its way to the client (`http`).

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

/// When to come again after there was too much to do: a second's work is gone by then.
pub(super) const RETRY_AFTER_S: u64 = 1;

/// The answer to a body.
pub(crate) enum JsonRpcResponse {
    /// There was nothing to answer.
    Empty,
    /// All of it.
    Full(FullBody),
    /// All of it, as it is kept; what is told of it, to another door.
    Cached(Vec<bytes::Bytes>, ContentEncoding, ResponseMeta),
    /// Its beginning, and where the rest comes from.
    Streamed(BodyChunk, ResponseReceiver),
}

/// An answer that is all there.
#[derive(Default)]
pub(crate) struct FullBody {
    /// What to send, the final newline included.
    pub(crate) text: bytes::Bytes,
    /// How it is compressed.
    pub(crate) coding: ContentEncoding,
    /// Whether all of it was refused because there is too much to do: HTTP 429, and after how many
    /// seconds to come again.
    pub(crate) retry_after_s: Option<u64>,
    /// Of a value for another door: what is told of it.
    pub(crate) meta: Option<Box<ResponseMeta>>,
    /// Whether it was not made here.
    pub(crate) is_from_pool: bool,
}

impl JsonRpcResponse {
    pub(super) fn from_cached(
        kept: &CachedResponse,
        asker: RequestContext,
        slot: u64,
        id: &Id,
    ) -> Self {
        match asker.options {
            None => {
                Self::Cached(kept.response_body(slot, id), kept.coding(), ResponseMeta::default())
            }
            Some(_) => Self::Cached(kept.value_body(), kept.coding(), kept.meta(slot)),
        }
    }

    /// The same, made on the pool.
    pub(super) fn made_on_pool(self) -> Self {
        match self {
            Self::Full(whole) => Self::Full(FullBody { is_from_pool: true, ..whole }),
            other => other,
        }
    }

    fn error(err: &RpcError) -> Self {
        Self::from_call(encode_response(Err(err.clone()), &Id::Null))
    }

    /// That a client is to come again later.
    pub(crate) fn too_many(too_many: &RateLimited, id: &Id) -> Self {
        let err = RpcError::too_many(too_many);
        let text = envelope::error_response(&err, id, true);
        let retry_after_s = Some(too_many.retry_after.as_secs() + 1);
        Self::Full(FullBody { text: ended_line(text), retry_after_s, ..FullBody::default() })
    }

    pub(super) fn from_call(done: CallResponse) -> Self {
        let retry_after_s = done.overloaded.then_some(RETRY_AFTER_S);
        Self::Full(FullBody { text: ended_line(done.text), retry_after_s, ..FullBody::default() })
    }
}

/// The answer to one call.
#[derive(Clone)]
pub(super) struct CallResponse {
    pub(super) text: Vec<u8>,
    overloaded: bool,
    pub(super) outcome: Outcome,
}

impl CallResponse {
    pub(super) fn into_owned_call(self, subject: MethodLabel) -> OwnedCall {
        OwnedCall::Answered { text: self.text, label: subject, outcome: self.outcome }
    }
}

pub(super) fn encode_response(result: MethodResult, id: &Id) -> CallResponse {
    match result.and_then(|answer| answer.into_response(id)) {
        Ok(text) => {
            // Nothing, where the CPU pool makes it.
            poll_budget::charge(text.len());
            CallResponse { text, overloaded: false, outcome: Outcome::Succeeded }
        }
        Err(err) => {
            let (overloaded, outcome) = (err.is_overload(), Outcome::Refused(err.code));
            CallResponse { text: envelope::error_response(&err, id, true), overloaded, outcome }
        }
    }
}

/// The answer to something that is no call.
pub(super) fn encode_invalid(err: &RpcError, id: &Id, versioned: bool) -> CallResponse {
    let text = envelope::error_response(err, id, versioned);
    CallResponse { text, overloaded: false, outcome: Outcome::Refused(err.code) }
}

/// The answers of a batch; none if there is none.
pub(super) fn join_batch(answers: impl Iterator<Item = CallResponse>) -> JsonRpcResponse {
    let mut text = Vec::new();
    let mut overloaded = true;
    for done in answers {
        text.push(if text.is_empty() { b'[' } else { b',' });
        text.extend_from_slice(&done.text);
        overloaded &= done.overloaded;
    }
    if text.is_empty() {
        return JsonRpcResponse::Empty;
    }
    text.push(b']');
    JsonRpcResponse::from_call(CallResponse { text, overloaded, outcome: Outcome::Succeeded })
}

/// The answer to a body that is not to be looked at any further.
pub(super) fn refuse_body(
    node: &Node,
    asker: &RequestContext,
    lane: ExecutionPath,
    err: &RpcError,
) -> JsonRpcResponse {
    record_call(node, asker, (MethodLabel::none(), None), lane, Outcome::Refused(err.code));
    JsonRpcResponse::error(err)
}

/// The answer to a call that the pool has no room for.
pub(super) fn refuse_call(
    node: &Node,
    asker: &RequestContext,
    (id, method, params, class): (&Id, MethodRef, Params<'_>, PoolClass),
    err: RpcError,
) -> JsonRpcResponse {
    let done = encode_response(Err(err), id);
    record_call(
        node,
        asker,
        (method.label(), Some(params)),
        ExecutionPath::Pool(class),
        done.outcome,
    );
    JsonRpcResponse::from_call(done)
}

fn ended_line(mut text: Vec<u8>) -> bytes::Bytes {
    text.push(b'\n');
    text.into()
}
