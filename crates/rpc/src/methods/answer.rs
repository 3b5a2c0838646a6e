//! What a method gives: an answer that is made, or one that is made piece by piece.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pool::{Clock, Slice};
use serde::Serialize;

use super::MethodResult;
use crate::envelope::Id;
use crate::error::RpcError;

/// What precedes a result in a reply.
pub(crate) const PREFIX: &[u8] = br#"{"jsonrpc":"2.0","result":"#;

/// After so many bytes an answer's maker lets them go: a few fit into a slice.
pub(crate) const PIECE_BYTES: usize = 128 * 1024;

/// A result, or what makes it.
pub struct Answer(Form);

pub(crate) enum Form {
    /// The bytes begin with [`PREFIX`], so that a result is never copied.
    Whole(Vec<u8>),
    /// The result alone.
    InPieces(Box<dyn Pieces>),
}

/// A result that is made step by step. It owns what it reads, a view above all.
pub(crate) trait Pieces: Send {
    /// Appends JSON to `out` until there is no more, `slice` is over, or it is [`PIECE_BYTES`] long.
    ///
    /// Errors: only as long as nothing was appended in any step.
    fn write(&mut self, slice: &Slice<'_>, out: &mut Vec<u8>) -> Result<Progress, RpcError>;

    /// How many records were looked at so far, for the log.
    fn touched(&self) -> u64 {
        0
    }
}

/// Where a result in pieces stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    Done,
}

impl Answer {
    /// The answer that is `result` as JSON.
    pub(crate) fn of(result: &impl Serialize) -> MethodResult {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(PREFIX);
        write_json(&mut bytes, result)?;
        Ok(Self(Form::Whole(bytes)))
    }

    /// The answer that `pieces` make.
    pub(crate) fn in_pieces(pieces: impl Pieces + 'static) -> Self {
        Self(Form::InPieces(Box::new(pieces)))
    }

    pub(crate) fn into_form(self) -> Form {
        self.0
    }

    /// The result as JSON, made here and now.
    pub fn into_json(self) -> Result<Vec<u8>, RpcError> {
        let mut bytes = self.into_bytes()?;
        bytes.drain(..PREFIX.len()); // every form begins with it
        Ok(bytes)
    }

    /// The whole reply to the request `id`, without the newline, made here and now.
    pub(crate) fn into_reply(self, id: &Id) -> Result<Vec<u8>, RpcError> {
        let mut bytes = self.into_bytes()?;
        close_reply(&mut bytes, id);
        Ok(bytes)
    }

    fn into_bytes(self) -> Result<Vec<u8>, RpcError> {
        match self.0 {
            Form::Whole(bytes) => Ok(bytes),
            Form::InPieces(mut pieces) => {
                let mut bytes = PREFIX.to_vec();
                let never = AtomicBool::new(false);
                let slice = Slice::until(&Stopped, Duration::MAX, &never);
                while pieces.write(&slice, &mut bytes)? == Progress::More {}
                Ok(bytes)
            }
        }
    }
}

/// What follows a result in a reply.
pub(crate) fn close_reply(bytes: &mut Vec<u8>, id: &Id) {
    bytes.extend_from_slice(br#","id":"#);
    id.write(bytes);
    bytes.push(b'}');
}

/// Appends a value as JSON.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), RpcError> {
    serde_json::to_writer(out, value).map_err(|err| {
        tracing::error!(%err, "a result could not be written as JSON");
        RpcError::internal()
    })
}

/// A clock by which no slice ends.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// What stands before and after the elements of a list that is written by itself.
///
/// `empty` is the answer with an empty list in it, the only `[]` or the last one, so that its shape
/// is not typed by hand.
pub(crate) struct Frame {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
}

impl Frame {
    pub(crate) fn around(empty: &impl Serialize) -> Result<Self, RpcError> {
        let mut head = Vec::with_capacity(64);
        write_json(&mut head, empty)?;
        let at = head.windows(2).rposition(|window| window == b"[]");
        let at = at.ok_or_else(RpcError::internal)?;
        let tail = head.split_off(at + 1);
        Ok(Self { head, tail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_cut_at_its_list() {
        let frame = Frame::around(&serde_json::json!({ "a": 1, "b": [], "c": null }));
        let frame = frame.expect("it has a list");
        assert_eq!(frame.head, br#"{"a":1,"b":["#);
        assert_eq!(frame.tail, br#"],"c":null}"#);
    }
}
