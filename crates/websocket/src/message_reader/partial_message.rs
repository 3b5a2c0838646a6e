//! A frame and a message that are being read, and the bytes that they lack.
//!
//! Bounds: a message has the buffer that it has reserved (`incoming_budget`).
//! Not here: the limits of a message, and when it is complete (`message_reader`).

use bytes::{Buf, BytesMut};
use tokio_tungstenite::tungstenite::protocol::frame::coding::Control;

use crate::incoming_budget::Reservation;
use crate::message::{MessageBound, MessageKind};

/// A frame whose header was read.
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    pub(super) is_final: bool,
    pub(super) mask: [u8; 4],
    pub(super) len: usize,
    /// Bytes of the payload that were read.
    pub(super) read: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    Data,
    Control(Control),
}

pub(super) struct PartialMessage {
    pub(super) kind: MessageKind,
    /// The bytes that have not been returned.
    pub(super) bytes: BytesMut,
    /// Bytes that were returned in parts.
    pub(super) returned: usize,
    /// `None` until it is known.
    pub(super) bound: Option<MessageBound>,
    pub(super) reservation: Reservation,
}

/// The reason why the reader cannot continue yet.
pub(super) enum Missing {
    /// Bytes in the buffer.
    Bytes,
    /// Up to `n` bytes of a payload, which are read into the message directly.
    Payload(usize),
    /// Memory for the message.
    Memory,
}

impl PartialMessage {
    /// Makes the buffer longer. Without enough free memory it returns false and changes nothing. The old buffer is not
    /// reserved while it is copied: a message of the maximum length could need twice its client's share.
    pub(super) fn grow(&mut self, capacity: usize) -> bool {
        if !self.reservation.grow(capacity) {
            return false;
        }
        let mut bytes = BytesMut::with_capacity(capacity);
        bytes.extend_from_slice(&self.bytes);
        self.bytes = bytes;
        true
    }

    /// Takes bytes of the frame's payload that were read already, until the message has `until` bytes. If there are
    /// none, returns how many are missing.
    pub(super) fn take_buffered(
        &mut self,
        buffer: &mut BytesMut,
        frame: &mut Frame,
        until: usize,
    ) -> Option<Missing> {
        let before = self.bytes.len();
        let buffered = buffer.len().min(until - before);
        if buffered == 0 {
            return Some(Missing::Payload(until - before));
        }
        self.bytes.extend_from_slice(&buffer[..buffered]);
        unmask(&mut self.bytes[before..], frame.mask, frame.read);
        buffer.advance(buffered);
        frame.read += buffered;
        None
    }
}

/// Unmasks a part of a payload. `offset` is the position of the part in the payload.
pub(super) fn unmask(bytes: &mut [u8], mut mask: [u8; 4], offset: usize) {
    mask.rotate_left(offset % 4);
    let word = u32::from_ne_bytes(mask);
    let (words, rest) = bytes.as_chunks_mut::<4>();
    for four in words {
        *four = (u32::from_ne_bytes(*four) ^ word).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}
