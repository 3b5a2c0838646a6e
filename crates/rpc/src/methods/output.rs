//! What a method gives: an answer that is made, or one that is made piece by piece.

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

/// What precedes a result in a reply.
pub(crate) const PREFIX: &[u8] = br#"{"jsonrpc":"2.0","result":"#;

/// After so many bytes an answer's maker lets them go: a few fit into a slice.
pub(crate) const RESULT_CHUNK_BYTES: usize = 128 * 1024;

/// Room for what a cheap answer has, the end of the reply included.
const INITIAL_CAPACITY: usize = 640;

/// A result, or what makes it.
pub struct MethodOutput(OutputKind);

pub(crate) enum OutputKind {
    /// The bytes begin with [`PREFIX`], so that a result is never copied.
    Full(Vec<u8>),
    /// The result alone.
    Streamed(Box<dyn StreamedResult>),
}

/// A result that is made step by step. It owns what it reads, a view above all.
pub(crate) trait StreamedResult: Send {
    /// Appends JSON to `out` until there is no more, `slice` is over, or it is [`RESULT_CHUNK_BYTES`] long.
    ///
    /// Errors: only as long as nothing was appended in any step.
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError>;

    /// How many records were looked at so far, for the log.
    fn records_visited(&self) -> u64 {
        0
    }
}

/// Where a result in pieces stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamState {
    More,
    Done,
}

impl MethodOutput {
    /// The answer that is `result` as JSON.
    pub(crate) fn json(result: &impl Serialize) -> MethodResult {
        let mut bytes = Vec::with_capacity(INITIAL_CAPACITY);
        bytes.extend_from_slice(PREFIX);
        write_json(&mut bytes, result)?;
        Ok(Self(OutputKind::Full(bytes)))
    }

    /// The answer with the context of a view and the value that `write` appends as JSON: the same as
    /// that of [`crate::commitment::with_context`], written in one go.
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

    /// The answer that `pieces` make.
    pub(crate) fn streamed(pieces: impl StreamedResult + 'static) -> Self {
        Self(OutputKind::Streamed(Box::new(pieces)))
    }

    pub(crate) fn into_kind(self) -> OutputKind {
        self.0
    }

    /// The result as JSON, made here and now.
    pub fn into_json(self) -> Result<Vec<u8>, RpcError> {
        let mut bytes = self.into_bytes()?;
        bytes.drain(..PREFIX.len()); // every form begins with it
        Ok(bytes)
    }

    /// The whole reply to the request `id`, without the newline, made here and now.
    pub(crate) fn into_response(self, id: &Id) -> Result<Vec<u8>, RpcError> {
        let mut bytes = self.into_bytes()?;
        close_response(&mut bytes, id);
        Ok(bytes)
    }

    fn into_bytes(self) -> Result<Vec<u8>, RpcError> {
        match self.0 {
            OutputKind::Full(bytes) => Ok(bytes),
            OutputKind::Streamed(mut pieces) => {
                let mut bytes = PREFIX.to_vec();
                let never = AtomicBool::new(false);
                let slice = TimeSlice::ending_at(&FrozenClock, Duration::MAX, &never);
                while pieces.write(&slice, &mut bytes)? == StreamState::More {}
                Ok(bytes)
            }
        }
    }
}

/// What follows a result in a reply.
pub(crate) fn close_response(bytes: &mut Vec<u8>, id: &Id) {
    bytes.extend_from_slice(br#","id":"#);
    id.write(bytes);
    bytes.push(b'}');
}

/// Appends a value as JSON.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), RpcError> {
    serde_json::to_writer(out, value).map_err(|err| not_json(&err))
}

/// The error of a result that is no JSON, which there is none of.
pub(crate) fn not_json(err: &serde_json::Error) -> RpcError {
    tracing::error!(%err, "a result could not be written as JSON");
    RpcError::internal()
}

/// Appends a whole number.
pub(crate) fn write_number(out: &mut Vec<u8>, number: u64) {
    // A Vec always takes it.
    let _ = write!(out, "{number}");
}

/// What stands before the slot of a context, between it and the value, and after the value.
struct ContextTemplate {
    head: Vec<u8>,
    middle: Vec<u8>,
    tail: Vec<u8>,
}

/// Cut out of an answer, so that its shape is not typed by hand.
static CONTEXT_TEMPLATE: LazyLock<ContextTemplate> = LazyLock::new(|| {
    let empty = Response { context: context(SLOT), value: [(); 0] };
    let frame = ListTemplate::at_last_list(&empty).expect("a context is JSON");
    let text = String::from_utf8(frame.head).expect("JSON is text");
    let (head, middle) = text.split_once(&SLOT.to_string()).expect("a context has its slot");
    let cut = |text: &str| text.as_bytes().to_vec();
    let without_list = |part: &[u8]| part.strip_prefix(b"]").map(<[u8]>::to_vec);
    ContextTemplate {
        head: [PREFIX, head.as_bytes()].concat(),
        middle: cut(middle.strip_suffix('[').expect("the list begins")),
        tail: without_list(&frame.tail).expect("the list ends"),
    }
});

/// Found nowhere else in a context.
const SLOT: u64 = u64::MAX;

/// A clock by which no slice ends.
struct FrozenClock;

impl Clock for FrozenClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// What stands before and after the elements of a list that is written by itself.
///
/// `empty` is the answer with an empty list in it, the only `[]` or the last one, so that its shape
/// is not typed by hand.
pub(crate) struct ListTemplate {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
}

impl ListTemplate {
    pub(crate) fn at_last_list(empty: &impl Serialize) -> Result<Self, RpcError> {
        Self::split(empty, |mut windows| windows.rposition(|window| window == b"[]"))
    }

    /// The same around the first empty list, where more follow.
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
        let frame = ListTemplate::at_last_list(&serde_json::json!({ "a": 1, "b": [], "c": null }));
        let frame = frame.expect("it has a list");
        assert_eq!(frame.head, br#"{"a":1,"b":["#);
        assert_eq!(frame.tail, br#"],"c":null}"#);
        let frame = ListTemplate::at_first_list(&serde_json::json!({ "b": [], "c": [] }));
        assert_eq!(frame.expect("it has a list").tail, br#"],"c":[]}"#);
    }
}
