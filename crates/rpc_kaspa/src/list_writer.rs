//! The entries of a list, and the parts in which they are written.
//!
//! A list that fits into one part is a message in one frame. A longer one is streamed: the next part is made when the
//! client's socket has accepted the one before.
//! Bounds: a part has [`PART_BYTES`], and the entries of one step more.

use std::time::Duration;

use kaspa::JSON_LIST_TAIL;
use websocket::SessionOutput;

use crate::kaspa_rpc::NoItems;
use crate::message_format::MessageFormat;
use crate::messages::to_message;
use crate::read_deadline::ReadDeadline;

/// Bytes from which on a part is written.
const PART_BYTES: usize = 64 * 1024;

/// A list that is being written.
pub(crate) struct ListWriter {
    format: MessageFormat,
    /// The bytes of the next part.
    part: Vec<u8>,
    /// Whether a part was written.
    is_streamed: bool,
    /// The number of entries so far.
    entries: u64,
    /// When the client must have read it.
    deadline: ReadDeadline,
}

impl ListWriter {
    /// Starts a list with the bytes before its first entry.
    pub(crate) fn new(format: MessageFormat, head: Vec<u8>, deadline: ReadDeadline) -> Self {
        Self { format, part: head, is_streamed: false, entries: 0, deadline }
    }

    /// Appends an entry, which `encode` writes.
    pub(crate) fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.format == MessageFormat::Json && self.entries > 0 {
            self.part.push(b',');
        }
        encode(&mut self.part);
        self.entries += 1;
    }

    /// The number of entries so far.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Whether the next part has enough bytes to be written.
    pub(crate) fn is_full(&self) -> bool {
        self.part.len() >= PART_BYTES
    }

    /// Returns the next part. `now` is compared with the deadline.
    pub(crate) fn take_part(&mut self, now: Duration) -> SessionOutput<NoItems> {
        if self.is_streamed && self.deadline.is_past(now) {
            return self.deadline.close("a list");
        }
        self.is_streamed = true;
        let part = std::mem::replace(&mut self.part, Vec::with_capacity(PART_BYTES));
        SessionOutput::Part(to_message(self.format, part))
    }

    /// Returns the end of the list, or all of it.
    pub(crate) fn finish(mut self) -> SessionOutput<NoItems> {
        if self.format == MessageFormat::Json {
            self.part.extend_from_slice(JSON_LIST_TAIL.as_bytes());
        }
        let message = to_message(self.format, self.part);
        if self.is_streamed {
            SessionOutput::LastPart(message)
        } else {
            SessionOutput::Message(message)
        }
    }
}

#[cfg(test)]
mod tests {
    use websocket::OutgoingMessage;

    use super::*;

    fn bytes(output: SessionOutput<NoItems>) -> (&'static str, Vec<u8>) {
        let kind = |message: OutgoingMessage| message.into_bytes();
        match output {
            SessionOutput::Message(message) => ("message", kind(message)),
            SessionOutput::Part(message) => ("part", kind(message)),
            SessionOutput::LastPart(message) => ("last", kind(message)),
            SessionOutput::Close(code, _) => ("close", u16::from(code).to_be_bytes().to_vec()),
            _ => panic!("another output"),
        }
    }

    fn writer(format: MessageFormat) -> ListWriter {
        let deadline = ReadDeadline::new(Duration::from_secs(1), Duration::ZERO);
        ListWriter::new(format, b"[".to_vec(), deadline)
    }

    #[test]
    fn a_short_list_is_one_message() {
        let mut json = writer(MessageFormat::Json);
        json.push(|out| out.push(b'1'));
        json.push(|out| out.push(b'2'));
        assert_eq!(bytes(json.finish()), ("message", b"[1,2]}}".to_vec()));
        let mut borsh = writer(MessageFormat::Borsh);
        borsh.push(|out| out.push(b'1'));
        borsh.push(|out| out.push(b'2'));
        assert_eq!(borsh.entries(), 2);
        assert_eq!(bytes(borsh.finish()), ("message", b"[12".to_vec()));
        assert_eq!(bytes(writer(MessageFormat::Json).finish()), ("message", b"[]}}".to_vec()));
    }

    #[test]
    fn a_long_list_is_streamed_until_its_deadline() {
        let mut json = writer(MessageFormat::Json);
        json.push(|out| out.resize(PART_BYTES - 1, b'1'));
        assert!(!json.is_full());
        json.push(|out| out.push(b'2'));
        assert!(json.is_full());
        // The first part has no state to free yet, so it is always written.
        let (kind, part) = bytes(json.take_part(Duration::from_secs(9)));
        assert_eq!((kind, part.len()), ("part", PART_BYTES + 1));
        json.push(|out| out.push(b'3'));
        let late = Duration::from_millis(1_001);
        assert_eq!(bytes(json.take_part(late)), ("close", 1008_u16.to_be_bytes().to_vec()));
        assert_eq!(bytes(json.finish()), ("last", b",3]}}".to_vec()));
    }
}
