//! The exit of the dispatcher: encodes the response to each call, and counts the call.
//!
//! In: the result of a method, an error, a cached response, or the response of a task. Out: bytes with their newline, or
//! the channel that they come from.
//! Invariant: a call is encoded and counted here, once, unless its task has done so.
//! Invariant: a client gets a `Retry-After` only if every call of its body was refused.
//! Invariant: the slot of a response is not above that of any state that it was computed from.
//! Not here: running a call ([`super::plan`]), calls of a task (`task`), sending the response (`rpc_service`).

use std::borrow::Cow;

use bytes::Bytes;
use http_server::{ContentEncoding, poll_budget};
use ledger::{Commitment, Slot};
use response_cache::{CacheHit, CachedResponse};

use super::admission::RefusedBody;
use crate::api::Api;
use crate::envelope::{self, Id, ResponseText};
use crate::error::{RETRY_AFTER_S, RpcError};
use crate::method_output::{CompleteValue, MethodOutput, MethodResult};
use crate::metrics::{ExecutionPath, MethodLabel, Outcome, SlowRequest};
use crate::planned_call::{DoneCall, PlannedCall};
use crate::request_context::RequestContext;
use crate::response_channel::{BodyChunk, ResponseReceiver};
use crate::server_context::ServerContext;
use crate::slot_headers::StateSlot;
use crate::state_slots::StateRequirement;
use crate::value_response::{ResponseMeta, ResponseOptions, ValueWriter};

pub(crate) enum JsonRpcResponse {
    /// No call of the body gets a response.
    Empty,
    /// The whole response, computed where the socket is polled.
    Inline(BodyChunk),
    /// The whole response from the cache.
    Cached(CachedBody),
    /// From the pool: its first chunk, and the channel that the rest comes from.
    Pooled(BodyChunk, Option<ResponseReceiver>),
}

/// A response with parts from the cache.
pub(crate) struct CachedBody {
    pub(crate) parts: Vec<Bytes>,
    pub(crate) coding: ContentEncoding,
    /// Metadata for an interface other than JSON-RPC.
    pub(crate) meta: ResponseMeta,
    /// The slot of its state, for JSON-RPC.
    pub(crate) state: Option<StateSlot>,
}

/// The response to a call, before it is encoded.
pub(super) enum Answer {
    /// The result of its method, or an error.
    Result(MethodResult),
    /// The response from the cache.
    Cached(CacheHit),
    /// The response of a task: its first chunk, and the channel that the rest comes from.
    Pooled(BodyChunk, Option<ResponseReceiver>),
}

/// The response to a call, and the place where it was found.
pub(super) struct CallEnd {
    answer: Answer,
    /// `None` if its task counts it.
    path: Option<ExecutionPath>,
}

/// A call with its response, ready to be encoded and counted.
pub(super) struct EndedCall<'a> {
    id: Id,
    /// Whether an error response has `"jsonrpc":"2.0"`.
    versioned: bool,
    /// The commitment of the state that it was read from.
    commitment: Commitment,
    answer: Answer,
    record: CallRecord<'a>,
}

/// The labels of a call in metrics and in the log.
struct CallRecord<'a> {
    label: MethodLabel,
    /// The text of its parameters, if it is available.
    params: Option<Cow<'a, str>>,
    /// `None` if its task counts it.
    path: Option<ExecutionPath>,
}

impl CallEnd {
    pub(super) fn at(path: ExecutionPath, answer: Answer) -> Self {
        Self { answer, path: Some(path) }
    }

    /// The end of a call that is counted by its task.
    pub(super) fn counted_by_task(answer: Answer) -> Self {
        Self { answer, path: None }
    }

    pub(super) fn refusal(path: ExecutionPath, err: RpcError) -> Self {
        Self::at(path, Answer::Result(Err(err)))
    }
}

impl DoneCall {
    pub(super) fn end_at(self, path: ExecutionPath) -> EndedCall<'static> {
        let Self { id, versioned, label, commitment, result } = self;
        let record = CallRecord { label, params: None, path: Some(path) };
        EndedCall { id, versioned, commitment, answer: Answer::Result(result), record }
    }
}

impl<'a, A: Api> PlannedCall<'a, A> {
    pub(super) fn end_with(self, end: CallEnd) -> EndedCall<'a> {
        let commitment = self.requirement.commitment;
        let record = CallRecord { label: self.method.label(), params: self.text, path: end.path };
        EndedCall { id: self.id, versioned: true, commitment, answer: end.answer, record }
    }
}

impl RefusedBody {
    pub(super) fn end_at(self, path: ExecutionPath) -> EndedCall<'static> {
        let commitment = StateRequirement::none().commitment;
        let answer = Answer::Result(Err(self.err));
        let record = CallRecord { label: MethodLabel::none(), params: None, path: Some(path) };
        EndedCall { id: self.id, versioned: true, commitment, answer, record }
    }
}

impl EndedCall<'_> {
    /// The end of a batch that is counted by its task. `commitment` is that of its call with the lowest slot.
    pub(super) fn for_batch(answer: Answer, commitment: Commitment) -> Self {
        let record = CallRecord { label: MethodLabel::none(), params: None, path: None };
        Self { id: Id::Null, versioned: true, commitment, answer, record }
    }
}

impl JsonRpcResponse {
    /// Marks a response as computed on the pool.
    pub(super) fn computed_on_pool(self) -> Self {
        match self {
            Self::Inline(chunk) => Self::Pooled(chunk, None),
            other => other,
        }
    }

    fn from_cached(
        context: &RequestContext,
        cached: &CachedResponse,
        state: StateSlot,
        id: &Id,
    ) -> Self {
        let StateSlot { slot, .. } = state;
        let coding = cached.coding();
        Self::Cached(match context.options {
            None => CachedBody {
                parts: cached_parts(cached, slot, id, true),
                coding,
                meta: ResponseMeta::default(),
                state: Some(state),
            },
            Some(_) => CachedBody {
                parts: cached.value_body(),
                coding,
                meta: ResponseMeta::from_cached(cached, slot),
                state: None,
            },
        })
    }
}

/// Encodes the response to a body that is one call, or is refused as a whole, and counts it.
pub(super) fn finish(
    server: &ServerContext,
    context: &RequestContext,
    call: EndedCall<'_>,
) -> JsonRpcResponse {
    let EndedCall { id, versioned, commitment, answer, record } = call;
    let state_slot = |slot: Option<Slot>| StateSlot {
        slot: slot.unwrap_or_else(|| context.slots.at(commitment)),
        commitment,
    };
    let result = match answer {
        Answer::Pooled(mut first, rest) => {
            first.state = Some(state_slot(first.context_slot));
            return JsonRpcResponse::Pooled(first, rest);
        }
        Answer::Cached(CacheHit { entry, slot }) => match &entry.value {
            Some(cached) => {
                // A value without a context is entered without its slot.
                let context_slot = cached.context_at(slot).map(|context| context.slot());
                let state = state_slot(context_slot);
                let response = JsonRpcResponse::from_cached(context, cached, state, &id);
                record.count(server, context, Outcome::Succeeded);
                return response;
            }
            None => Err(RpcError::internal()),
        },
        Answer::Result(result) => result,
    };
    let context_slot = result.as_ref().ok().and_then(MethodOutput::context_slot);
    let EncodedResult { text, meta, outcome, retry_after_s } =
        encode_result(context.options, result, &id, versioned);
    record.count(server, context, outcome);
    let bytes = if meta.is_some() { text.into_bytes() } else { text.into_line() };
    let state = Some(state_slot(context_slot));
    JsonRpcResponse::Inline(BodyChunk { state, ..BodyChunk::whole(bytes, retry_after_s, meta) })
}

/// Encodes the responses of a batch one after another, and counts its calls.
pub(super) struct BatchWriter {
    /// The text before `text`, if a part of the batch is cached.
    parts: Vec<Bytes>,
    text: Vec<u8>,
    is_empty: bool,
    is_overload: bool,
    /// The lowest slot of all calls.
    state: Option<StateSlot>,
}

impl BatchWriter {
    pub(super) fn new() -> Self {
        let parts = Vec::new();
        let text = Vec::new();
        Self { parts, text, is_empty: true, is_overload: true, state: None }
    }

    pub(super) fn push(
        &mut self,
        server: &ServerContext,
        context: &RequestContext,
        call: EndedCall<'_>,
    ) {
        let EndedCall { id, versioned, commitment, answer, record } = call;
        let commitment = self.state.map_or(commitment, |state| state.commitment.max(commitment));
        self.state = Some(context.slots.state_slot(commitment));
        self.text.push(if self.is_empty { b'[' } else { b',' });
        self.is_empty = false;
        let result = match answer {
            Answer::Cached(CacheHit { entry, slot }) if entry.value.is_some() => {
                self.parts.push(std::mem::take(&mut self.text).into());
                let cached = entry.value.as_ref();
                self.parts
                    .extend(cached.into_iter().flat_map(|it| cached_parts(it, slot, &id, false)));
                return record.count(server, context, Outcome::Succeeded);
            }
            Answer::Result(result) => result,
            // A call of a batch has no task of its own.
            Answer::Cached(_) | Answer::Pooled(..) => Err(RpcError::internal()),
        };
        let encoded = encode_result(context.options, result, &id, versioned);
        self.text.extend_from_slice(encoded.text.as_bytes());
        self.is_overload &= encoded.retry_after_s.is_some();
        record.count(server, context, encoded.outcome);
    }

    pub(super) fn finish(self) -> JsonRpcResponse {
        let Self { mut parts, mut text, is_empty, is_overload, state } = self;
        if is_empty {
            return JsonRpcResponse::Empty;
        }
        text.extend_from_slice(b"]\n");
        if parts.is_empty() {
            let retry_after_s = is_overload.then_some(RETRY_AFTER_S);
            let whole = BodyChunk::whole(text.into(), retry_after_s, None);
            return JsonRpcResponse::Inline(BodyChunk { state, ..whole });
        }
        parts.push(text.into());
        let coding = ContentEncoding::Plain;
        let meta = ResponseMeta::default();
        JsonRpcResponse::Cached(CachedBody { parts, coding, meta, state })
    }
}

/// The result of a call as its interface sends it: in an envelope, or alone.
pub(super) struct EncodedResult {
    pub(super) text: ResponseText,
    /// Metadata of a value for an interface other than JSON-RPC; the text is the value then.
    meta: Option<Box<ResponseMeta>>,
    outcome: Outcome,
    /// Set if the call was refused because of overload.
    retry_after_s: Option<u64>,
}

pub(super) fn encode_result(
    options: Option<ResponseOptions>,
    result: MethodResult,
    id: &Id,
    versioned: bool,
) -> EncodedResult {
    if let Some(options) = options {
        return encode_value(options, result.and_then(MethodOutput::into_value));
    }
    match result.and_then(|output| output.into_response(id)) {
        Ok(text) => {
            // Has no effect on threads of the CPU pool.
            poll_budget::charge(text.as_bytes().len());
            let outcome = Outcome::Succeeded;
            EncodedResult { text, meta: None, outcome, retry_after_s: None }
        }
        Err(err) => EncodedResult {
            text: envelope::error_response(&err, id, versioned).into(),
            meta: None,
            outcome: Outcome::Refused(err.code),
            retry_after_s: err.retry_after_s(),
        },
    }
}

fn encode_value(options: ResponseOptions, value: Result<CompleteValue, RpcError>) -> EncodedResult {
    let refusal = value.as_ref().err();
    let outcome = refusal.map_or(Outcome::Succeeded, |err| Outcome::Refused(err.code));
    let retry_after_s = refusal.and_then(RpcError::retry_after_s);
    let (text, meta) = ValueWriter::write_whole(options, value);
    poll_budget::charge(text.as_bytes().len());
    EncodedResult { text, meta: Some(Box::new(meta)), outcome, retry_after_s }
}

/// The response to request `id` from the cache, with `slot` in its context, as a line or as a part of a batch.
fn cached_parts(cached: &CachedResponse, slot: u64, id: &Id, is_line: bool) -> Vec<Bytes> {
    let mut head = Vec::new();
    let mut tail = Vec::new();
    let context = cached.context_at(slot);
    envelope::write_before_value(&mut head, context);
    envelope::write_after_value(&mut tail, context, id);
    if is_line {
        tail.push(b'\n');
    }
    cached.frame(head, tail)
}

/// Counts a call whose earlier result is still current: it is sent again, or the client has it.
pub(crate) fn record_current_result(
    server: &ServerContext,
    context: &RequestContext,
    label: MethodLabel,
) {
    let record = CallRecord { label, params: None, path: Some(ExecutionPath::Cached) };
    record.count(server, context, Outcome::Succeeded);
}

impl CallRecord<'_> {
    /// Counts the call, sends its span if it has a trace, and logs it if it was slow.
    fn count(&self, server: &ServerContext, context: &RequestContext, outcome: Outcome) {
        let Some(path) = self.path else { return };
        let now = server.pool.now();
        let took = now.saturating_sub(context.arrived);
        server.metrics.record_call(self.label, path, took, outcome);
        let is_slow = server.is_slow(took);
        if is_slow || context.trace.is_some() {
            let method = server.metrics.method_name(self.label);
            let params = self.params.as_deref();
            let request = SlowRequest { context, method, params, path, took, outcome, stats: None };
            request.trace(server.metrics.span_sink());
            if is_slow {
                request.log(&server.metrics.slow_log, now);
            }
        }
    }
}
