//! The result of a method: a value, complete or streamed in chunks, and the context in which it is true.
//!
//! A method writes the value only. JSON-RPC writes the envelope around it, REST writes none. A method that has its
//! value as bytes can return them as they are if the request wants it so ([`RawValue`]).

use std::sync::atomic::AtomicBool;
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use cpu_pool::{StoppedClock, TimeSlice};
use ledger::Slot;
use response_cache::ResultContext;
use serde::Serialize;

use crate::envelope::{self, Id, ResponseText};
use crate::error::RpcError;

/// Initial capacity after the front: enough for a cheap value and the end of its response.
const INITIAL_CAPACITY: usize = 512;

/// Room before a value for what precedes it in a response: the envelope, and a context.
const FRONT_BYTES: usize = 128;

/// The result of a method.
pub type MethodResult = Result<MethodOutput, RpcError>;

/// The result of a method.
pub struct MethodOutput(OutputKind);

/// A result as JSON or as bytes.
pub(crate) enum OutputKind {
    /// A value as JSON, in its context if it has one.
    Json(Option<ResultContext>, OutputBody),
    /// As bytes that are not JSON.
    Raw(RawValue),
}

/// A value, or the stream that writes it.
pub enum OutputBody {
    /// All of it.
    Full(ValueBuffer),
    /// Written step by step.
    Streamed(Box<dyn StreamedResult>),
}

/// A value as it is stored, without an encoding. Only for a request that wants it so
/// ([`crate::params::Params::wants_raw`]).
pub struct RawValue {
    /// The slot at which it is true.
    pub slot: Slot,
    /// The parts of the JSON object around the bytes: names, and values as text. Empty if there are none.
    pub fields: Vec<(&'static str, String)>,
    /// The bytes. They may belong to a record, which stays in memory until they are sent.
    pub bytes: Bytes,
}

/// A value that is computed as a whole.
pub(crate) enum CompleteValue {
    /// As JSON, in its context if it has one.
    Json(Option<ResultContext>, ValueBuffer),
    /// As bytes.
    Raw(RawValue),
}

/// A value as JSON, after room for what precedes it in a response. So it is never copied.
pub struct ValueBuffer(Vec<u8>);

/// A value that is written step by step. It owns what it reads, for example a view.
pub trait StreamedResult: Send {
    /// Appends JSON to `out` until the value is complete, `slice` is over, or `out` is [`response_cache::RESULT_CHUNK_BYTES`] long.
    ///
    /// Errors: only before the first byte is appended.
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError>;

    /// Whether there is something to write. If not, the waker is woken once there is, and meanwhile the task occupies no
    /// thread. Where the value is computed on the calling thread, [`Self::write`] blocks instead.
    fn poll_ready(&mut self, _waker: &dyn Fn() -> Waker) -> Poll<()> {
        Poll::Ready(())
    }

    /// Number of records read so far, for the log.
    fn records_visited(&self) -> u64 {
        0
    }
}

/// Whether a streamed value is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// There is more to write.
    More,
    /// It is complete.
    Done,
}

impl MethodOutput {
    /// `value` as JSON, without a context.
    pub fn json(value: &impl Serialize) -> MethodResult {
        OutputBody::json(value).map(|body| Self::new(None, body))
    }

    /// `value` as JSON, in its context.
    pub fn json_in(context: ResultContext, value: &impl Serialize) -> MethodResult {
        Self::written_in(context, |out| write_json(out, value))
    }

    /// The value that `write` appends as JSON, in its context.
    pub fn written_in(
        context: ResultContext,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), RpcError>,
    ) -> MethodResult {
        OutputBody::written(write).map(|body| Self::new(Some(context), body))
    }

    /// The value that `stream` writes, in its context if it has one.
    pub fn streamed(context: Option<ResultContext>, stream: impl StreamedResult + 'static) -> Self {
        Self::new(context, OutputBody::streamed(stream))
    }

    /// A value as bytes, for a request that wants it so. JSON-RPC sends -32603 instead.
    pub fn raw(value: RawValue) -> Self {
        Self(OutputKind::Raw(value))
    }

    fn new(context: Option<ResultContext>, body: OutputBody) -> Self {
        Self(OutputKind::Json(context, body))
    }

    /// The slot of its context, if it has one.
    pub(crate) fn context_slot(&self) -> Option<Slot> {
        match &self.0 {
            OutputKind::Raw(value) => Some(value.slot),
            OutputKind::Json(context, _) => context.map(|context| context.slot()),
        }
    }

    pub(crate) fn into_kind(self) -> OutputKind {
        self.0
    }

    /// The complete value, computed on this thread.
    pub(crate) fn into_value(self) -> Result<CompleteValue, RpcError> {
        Ok(match self.0 {
            OutputKind::Raw(value) => CompleteValue::Raw(value),
            OutputKind::Json(context, body) => CompleteValue::Json(context, body.complete()?),
        })
    }

    /// The complete value as JSON, computed on this thread, and its context; -32603 if it is raw.
    fn into_json_value(self) -> Result<(Option<ResultContext>, ValueBuffer), RpcError> {
        match self.0 {
            OutputKind::Raw(_) => Err(RpcError::internal()),
            OutputKind::Json(context, body) => Ok((context, body.complete()?)),
        }
    }

    /// The complete result as JSON, with its context, computed on this thread.
    pub fn into_json(self) -> Result<Vec<u8>, RpcError> {
        let (context, value) = self.into_json_value()?;
        let mut bytes = Vec::with_capacity(FRONT_BYTES + value.as_bytes().len());
        context.inspect(|context| context.write_before(&mut bytes));
        bytes.extend_from_slice(value.as_bytes());
        context.inspect(|context| context.write_after(&mut bytes));
        Ok(bytes)
    }

    /// The complete response to the request `id`, without the newline, computed on this thread.
    pub fn into_response(self, id: &Id) -> Result<ResponseText, RpcError> {
        let (context, value) = self.into_json_value()?;
        Ok(value.into_response(context, id))
    }
}

impl OutputBody {
    /// This value in its context.
    pub fn in_context(self, context: ResultContext) -> MethodOutput {
        MethodOutput::new(Some(context), self)
    }

    /// `value` as JSON.
    pub fn json(value: &impl Serialize) -> Result<Self, RpcError> {
        Self::written(|out| write_json(out, value))
    }

    /// The value that `stream` writes.
    pub fn streamed(stream: impl StreamedResult + 'static) -> Self {
        Self::Streamed(Box::new(stream))
    }

    fn written(write: impl FnOnce(&mut Vec<u8>) -> Result<(), RpcError>) -> Result<Self, RpcError> {
        let mut value = ValueBuffer::new();
        write(&mut value.0)?;
        Ok(Self::Full(value))
    }

    fn complete(self) -> Result<ValueBuffer, RpcError> {
        match self {
            Self::Full(value) => Ok(value),
            Self::Streamed(mut stream) => {
                let mut value = ValueBuffer::new();
                let never = AtomicBool::new(false);
                let slice = TimeSlice::ending_at(&StoppedClock, Duration::MAX, &never);
                while stream.write(&slice, &mut value.0)? == StreamState::More {}
                Ok(value)
            }
        }
    }
}

impl ValueBuffer {
    fn new() -> Self {
        let mut bytes = Vec::with_capacity(FRONT_BYTES + INITIAL_CAPACITY);
        bytes.resize(FRONT_BYTES, 0);
        Self(bytes)
    }

    /// The value.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0[FRONT_BYTES..]
    }

    /// The value alone, without a copy.
    pub(crate) fn into_text(self) -> ResponseText {
        ResponseText::new(self.0, FRONT_BYTES)
    }

    /// The response to the request `id`, without the newline.
    pub(crate) fn into_response(self, context: Option<ResultContext>, id: &Id) -> ResponseText {
        let mut bytes = self.0;
        let start = envelope::with_parts_before_value(context, |parts| {
            let len: usize = parts.iter().map(|part| part.len()).sum();
            if len > FRONT_BYTES {
                bytes.splice(..FRONT_BYTES, parts.concat());
                return 0;
            }
            let mut at = FRONT_BYTES - len;
            for part in parts {
                bytes[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            FRONT_BYTES - len
        });
        envelope::write_after_value(&mut bytes, context, id);
        ResponseText::new(bytes, start)
    }
}

/// Appends a value as JSON.
pub fn write_json(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), RpcError> {
    serde_json::to_writer(out, value).map_err(|err| not_json(&err))
}

/// The error for a result that serde_json cannot write. No type of ours fails.
pub fn not_json(err: &serde_json::Error) -> RpcError {
    tracing::error!(%err, "a result could not be written as JSON");
    RpcError::internal()
}

/// Appends a whole number.
pub fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The text before and after the elements of a list whose elements are streamed.
///
/// It is taken from `empty`, the value with an empty list, so that its shape is not typed by hand.
pub struct ListTemplate {
    /// The text before the first element.
    pub head: Vec<u8>,
    /// The text after the last element.
    pub tail: Vec<u8>,
}

impl ListTemplate {
    /// No text: the only element is the value.
    pub fn element() -> Self {
        Self { head: Vec::new(), tail: Vec::new() }
    }

    /// Splits at the last `[]`.
    pub fn at_last_list(empty: &impl Serialize) -> Result<Self, RpcError> {
        Self::split(empty, |mut windows| windows.rposition(|window| window == b"[]"))
    }

    /// Splits at the first `[]`, if more follow.
    pub fn at_first_list(empty: &impl Serialize) -> Result<Self, RpcError> {
        Self::split(empty, |mut windows| windows.position(|window| window == b"[]"))
    }

    fn split(
        empty: &impl Serialize,
        find: impl FnOnce(std::slice::Windows<'_, u8>) -> Option<usize>,
    ) -> Result<Self, RpcError> {
        let mut head = Vec::with_capacity(64);
        write_json(&mut head, empty)?;
        let at = find(head.windows(2)).ok_or_else(RpcError::internal)?;
        let tail = head.split_off(at + 1);
        Ok(Self { head, tail })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use response_cache::ContextFrame;

    #[test]
    fn a_template_is_split_at_its_list() {
        let template =
            ListTemplate::at_last_list(&serde_json::json!({ "a": 1, "b": [], "c": null }));
        let template = template.expect("it has a list");
        assert_eq!(template.head, br#"{"a":1,"b":["#);
        assert_eq!(template.tail, br#"],"c":null}"#);
        let template = ListTemplate::at_first_list(&serde_json::json!({ "b": [], "c": [] }));
        assert_eq!(template.expect("it has a list").tail, br#"],"c":[]}"#);
    }

    #[test]
    fn an_envelope_of_any_length_precedes_the_value() {
        static SHORT: LazyLock<ContextFrame> =
            LazyLock::new(|| ContextFrame::new(r#"{"context":{"slot":"#, r#"},"value":"#));
        static LONG: LazyLock<ContextFrame> = LazyLock::new(|| {
            let before = format!(r#"{{"context":{{"a":"{}","slot":"#, "x".repeat(FRONT_BYTES));
            ContextFrame::new(before, r#"},"value":"#)
        });
        let text = |context: Option<ResultContext>| {
            let value = OutputBody::json(&[7]).and_then(OutputBody::complete).expect("it is JSON");
            assert_eq!(value.as_bytes(), b"[7]");
            let response = value.into_response(context, &Id::Number(1));
            String::from_utf8(response.as_bytes().to_vec()).expect("text")
        };
        assert_eq!(text(None), r#"{"jsonrpc":"2.0","result":[7],"id":1}"#);
        assert_eq!(
            text(Some(SHORT.at(5))),
            r#"{"jsonrpc":"2.0","result":{"context":{"slot":5},"value":[7]},"id":1}"#
        );
        let long = text(Some(LONG.at(5)));
        assert!(long.starts_with(r#"{"jsonrpc":"2.0","result":{"context":{"a":"xxx"#), "{long}");
        assert!(long.ends_with(r#"x","slot":5},"value":[7]},"id":1}"#), "{long}");
    }
}
