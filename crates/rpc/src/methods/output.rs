//! The result of a method: complete, or streamed in chunks.

use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use chain_solana::View;
use pool::{Clock, TimeSlice};
use serde::Serialize;
use solana_rpc_client_types::response::Response;

use super::MethodResult;
use crate::commitment::context;
use crate::envelope::Id;
use crate::error::RpcError;

/// The beginning of a response, up to the result.
pub(crate) const PREFIX: &[u8] = br#"{"jsonrpc":"2.0","result":"#;

/// Target size of a chunk of a streamed result. A few chunks fit into a time slice.
pub(crate) const RESULT_CHUNK_BYTES: usize = 128 * 1024;

/// Initial capacity: enough for a cheap result and the end of its response.
const INITIAL_CAPACITY: usize = 640;

/// A result, or the stream that writes it.
pub struct MethodOutput(OutputKind);

pub(crate) enum OutputKind {
    /// The bytes start with [`PREFIX`], so that the result is never copied.
    Full(Vec<u8>),
    /// Writes the result only, without [`PREFIX`].
    Streamed(Box<dyn StreamedResult>),
}

/// A result that is written step by step. It owns what it reads, for example a view.
pub(crate) trait StreamedResult: Send {
    /// Appends JSON to `out` until the result is complete, `slice` is over, or `out` is [`RESULT_CHUNK_BYTES`] long.
    ///
    /// Errors: only before the first byte is appended.
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError>;

    /// Number of records read so far, for the log.
    fn records_visited(&self) -> u64 {
        0
    }
}

/// Whether a streamed result is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamState {
    More,
    Done,
}

impl MethodOutput {
    /// `result` as JSON.
    pub(crate) fn json(result: &impl Serialize) -> MethodResult {
        let mut bytes = Vec::with_capacity(INITIAL_CAPACITY);
        bytes.extend_from_slice(PREFIX);
        write_json(&mut bytes, result)?;
        Ok(Self(OutputKind::Full(bytes)))
    }

    /// The context of a view, and the value that `write` appends as JSON. The bytes are the same as those of
    /// [`crate::commitment::with_context`], but written in one pass.
    pub(crate) fn with_context(
        view: &View,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), RpcError>,
    ) -> MethodResult {
        let ContextTemplate { head, middle, tail } = &*CONTEXT_TEMPLATE;
        let mut bytes = Vec::with_capacity(INITIAL_CAPACITY);
        bytes.extend_from_slice(head);
        write_number(&mut bytes, view.block().slot);
        bytes.extend_from_slice(middle);
        write(&mut bytes)?;
        bytes.extend_from_slice(tail);
        Ok(Self(OutputKind::Full(bytes)))
    }

    /// The result that `stream` writes.
    pub(crate) fn streamed(stream: impl StreamedResult + 'static) -> Self {
        Self(OutputKind::Streamed(Box::new(stream)))
    }

    pub(crate) fn into_kind(self) -> OutputKind {
        self.0
    }

    /// The complete result as JSON, computed on this thread.
    pub fn into_json(self) -> Result<Vec<u8>, RpcError> {
        let mut bytes = self.into_bytes()?;
        bytes.drain(..PREFIX.len()); // both kinds start with it
        Ok(bytes)
    }

    /// The complete response to the request `id`, without the newline, computed on this thread.
    pub(crate) fn into_response(self, id: &Id) -> Result<Vec<u8>, RpcError> {
        let mut bytes = self.into_bytes()?;
        close_response(&mut bytes, id);
        Ok(bytes)
    }

    fn into_bytes(self) -> Result<Vec<u8>, RpcError> {
        match self.0 {
            OutputKind::Full(bytes) => Ok(bytes),
            OutputKind::Streamed(mut stream) => {
                let mut bytes = PREFIX.to_vec();
                let never = AtomicBool::new(false);
                let slice = TimeSlice::ending_at(&FrozenClock, Duration::MAX, &never);
                while stream.write(&slice, &mut bytes)? == StreamState::More {}
                Ok(bytes)
            }
        }
    }
}

/// Appends the end of a response, after the result.
pub(crate) fn close_response(bytes: &mut Vec<u8>, id: &Id) {
    bytes.extend_from_slice(br#","id":"#);
    id.write(bytes);
    bytes.push(b'}');
}

/// Appends a value as JSON.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), RpcError> {
    serde_json::to_writer(out, value).map_err(|err| not_json(&err))
}

/// The error for a result that serde_json cannot write. No type of ours fails.
pub(crate) fn not_json(err: &serde_json::Error) -> RpcError {
    tracing::error!(%err, "a result could not be written as JSON");
    RpcError::internal()
}

/// Appends a whole number.
pub(crate) fn write_number(out: &mut Vec<u8>, number: u64) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{number}");
}

/// The text before the slot of a context, between the slot and the value, and after the value.
struct ContextTemplate {
    head: Vec<u8>,
    middle: Vec<u8>,
    tail: Vec<u8>,
}

/// Taken from a serialized response, so that its shape is not typed by hand.
static CONTEXT_TEMPLATE: LazyLock<ContextTemplate> = LazyLock::new(|| {
    let empty = Response { context: context(SLOT), value: [(); 0] };
    let template = ListTemplate::at_last_list(&empty).expect("a context is JSON");
    let text = String::from_utf8(template.head).expect("JSON is text");
    let (head, middle) = text.split_once(&SLOT.to_string()).expect("a context has its slot");
    let bytes = |text: &str| text.as_bytes().to_vec();
    let without_list = |part: &[u8]| part.strip_prefix(b"]").map(<[u8]>::to_vec);
    ContextTemplate {
        head: [PREFIX, head.as_bytes()].concat(),
        middle: bytes(middle.strip_suffix('[').expect("the list starts here")),
        tail: without_list(&template.tail).expect("the list ends here"),
    }
});

/// A number that occurs nowhere else in a context.
const SLOT: u64 = u64::MAX;

/// A clock that stands still, so that no time slice ends.
struct FrozenClock;

impl Clock for FrozenClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// The text before and after the elements of a list whose elements are streamed.
///
/// It is taken from `empty`, the result with an empty list, so that its shape is not typed by hand.
pub(crate) struct ListTemplate {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
}

impl ListTemplate {
    /// Splits at the last `[]`.
    pub(crate) fn at_last_list(empty: &impl Serialize) -> Result<Self, RpcError> {
        Self::split(empty, |mut windows| windows.rposition(|window| window == b"[]"))
    }

    /// Splits at the first `[]`, if more follow.
    pub(crate) fn at_first_list(empty: &impl Serialize) -> Result<Self, RpcError> {
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
    use super::*;

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
}
