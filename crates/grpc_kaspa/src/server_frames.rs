//! Reads the frames of WebSocket that a session writes, in parts of any length.
//!
//! In: bytes of frames. Out: the payloads of data frames, which are messages of gRPC and parts of them, and control
//! frames ([`FrameEvent`]).
//! Bounds: a head, and the payload of one control frame.

use std::io::{self, Cursor};

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, OpCode};

/// Bytes of the payload of a control frame.
const CONTROL_BYTES_MAX: u64 = 125;

/// The state between two parts.
#[derive(Default)]
pub(crate) struct ServerFrames {
    /// The bytes of the next frame's head so far.
    head: Vec<u8>,
    frame: Option<Frame>,
}

struct Frame {
    opcode: OpCode,
    /// Bytes of the payload that were not read.
    left: u64,
    /// The payload of a control frame.
    control: Vec<u8>,
}

/// The content that a session has written next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FrameEvent<'a> {
    /// Bytes of messages. The caller consumes them by [`ServerFrames::consume_data`].
    Data(&'a [u8]),
    /// A ping, which must be answered.
    Ping,
    /// The payload of a close frame.
    Close(Vec<u8>),
}

/// The result of reading: the bytes that were consumed, without those of data, and the event after them.
pub(crate) struct ReadFrames<'a> {
    pub(crate) consumed: usize,
    pub(crate) event: Option<FrameEvent<'a>>,
}

impl ServerFrames {
    /// Reads bytes up to the next event.
    ///
    /// Errors: the bytes are not frames of a server.
    pub(crate) fn read<'a>(&mut self, bytes: &'a [u8]) -> io::Result<ReadFrames<'a>> {
        let mut consumed = 0;
        loop {
            let rest = bytes.get(consumed..).unwrap_or_default();
            let Some(frame) = &mut self.frame else {
                let Some(byte) = rest.first() else {
                    return Ok(ReadFrames { consumed, event: None });
                };
                consumed += 1;
                self.head.push(*byte);
                self.frame = parse_head(&self.head)?;
                if self.frame.is_some() {
                    self.head.clear();
                }
                continue;
            };
            if frame.left > 0 {
                let len = usize::try_from(frame.left).unwrap_or(usize::MAX).min(rest.len());
                let Some(part) = rest.get(..len).filter(|part| !part.is_empty()) else {
                    return Ok(ReadFrames { consumed, event: None });
                };
                if let OpCode::Data(_) = frame.opcode {
                    return Ok(ReadFrames { consumed, event: Some(FrameEvent::Data(part)) });
                }
                frame.control.extend_from_slice(part);
                frame.left -= part.len() as u64;
                consumed += part.len();
                continue;
            }
            let control = std::mem::take(&mut frame.control);
            let event = match frame.opcode {
                OpCode::Control(Control::Ping) => Some(FrameEvent::Ping),
                OpCode::Control(Control::Close) => Some(FrameEvent::Close(control)),
                OpCode::Control(_) | OpCode::Data(_) => None,
            };
            self.frame = None;
            if event.is_some() {
                return Ok(ReadFrames { consumed, event });
            }
        }
    }

    /// Consumes bytes of the last [`FrameEvent::Data`].
    pub(crate) fn consume_data(&mut self, bytes: usize) {
        if let Some(frame) = &mut self.frame {
            frame.left = frame.left.saturating_sub(bytes as u64);
            if frame.left == 0 {
                self.frame = None;
            }
        }
    }
}

/// Parses the head of a frame. Returns `None` if the head is not complete.
fn parse_head(head: &[u8]) -> io::Result<Option<Frame>> {
    let parsed = FrameHeader::parse(&mut Cursor::new(head)).map_err(io::Error::other)?;
    let Some((header, left)) = parsed else { return Ok(None) };
    if matches!(header.opcode, OpCode::Control(_)) && left > CONTROL_BYTES_MAX {
        return Err(io::Error::other("a long control frame"));
    }
    Ok(Some(Frame { opcode: header.opcode, left, control: Vec::new() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All events of bytes that come in parts of this length.
    fn read_all(bytes: &[u8], part_len: usize) -> (Vec<u8>, Vec<String>) {
        let mut frames = ServerFrames::default();
        let mut data = Vec::new();
        let mut others = Vec::new();
        for mut part in bytes.chunks(part_len) {
            while !part.is_empty() {
                let ReadFrames { consumed, event } = frames.read(part).expect("frames");
                part = &part[consumed..];
                match event {
                    None => assert!(part.is_empty()),
                    Some(FrameEvent::Data(bytes)) => {
                        // Only a part of it has room.
                        let len = bytes.len().div_ceil(2);
                        data.extend_from_slice(&bytes[..len]);
                        frames.consume_data(len);
                        part = &part[len..];
                    }
                    Some(other) => others.push(format!("{other:?}")),
                }
            }
        }
        (data, others)
    }

    #[test]
    fn messages_are_found_in_any_parts() {
        let long = vec![5; 70_000];
        let mut bytes = vec![0x82, 3, 1, 2, 3, 0x89, 0, 0x02, 1, 4];
        bytes.extend_from_slice(&[0x80, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
        bytes.extend_from_slice(&long);
        bytes.extend_from_slice(&[0x82, 126, 0, 200]);
        bytes.extend_from_slice(&[6; 200]);
        bytes.extend_from_slice(&[0x88, 5, 3, 0xe8, b'b', b'y', b'e']);
        let expected = [&[1, 2, 3, 4][..], &long, &[6; 200]].concat();
        for part_len in [1, 2, 3, 7, 100, 65_536, bytes.len()] {
            let (data, others) = read_all(&bytes, part_len);
            assert!(data == expected, "{part_len}");
            assert_eq!(others, ["Ping", "Close([3, 232, 98, 121, 101])"], "{part_len}");
        }
    }
}
