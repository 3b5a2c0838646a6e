//! The messages that come from a client.
//!
//! In: the frames of RFC 6455, masked. Out: whole messages and control frames.
//! Bounds: a buffer of [`BUFFER_BYTES`]. A message that does not come in one piece has a buffer of its own, which is
//! reserved before it grows (`incoming`) and never longer than the message may be. A message over
//! `Config::message_bytes_max` is read on only if it is about addresses: a binary one says so with its first byte, a
//! text by one of the methods [`LONG_METHODS`] within its first `message_bytes_max` bytes. A message that has begun
//! must be whole within `Config::message_timeout_ms`, not counting the time in which nothing is read from the client.
//! Why not tungstenite's reader: it collects a message without a bound on all connections together, twice, and
//! answers pings into a buffer without a bound.
//! Dropping the future of [`MessageReader::next`] loses nothing.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pool::ClientId;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use super::Config;
use super::address_sets;
use super::incoming_budget::{IncomingBudget, Reservation};

/// What is read at once of short messages.
const BUFFER_BYTES: usize = 4 * 1024;
/// What is read in a row: some 50 microseconds.
const PIECE_BYTES: usize = 64 * 1024;
/// Bytes of a control frame.
const CONTROL_BYTES_MAX: u64 = 125;
/// The methods whose messages may be long.
const LONG_METHODS: [&str; 3] = ["addressesSubscribe", "addressesUpdate", "transactionSubscribe"];
/// How long a message waits before it asks again for room, at first and at last.
const RESERVE_BACKOFF: Duration = Duration::from_millis(10);
const RESERVE_BACKOFF_MAX: Duration = Duration::from_millis(500);

/// What a client sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    Text(Utf8Bytes),
    Binary(Bytes),
    Ping(Bytes),
    Pong,
    /// The goodbye to answer with.
    Close(Option<CloseFrame>),
}

/// Why nothing more can be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadError {
    /// The client is not there any more.
    Gone,
    /// A frame that the standard does not allow.
    Protocol(&'static str),
    /// A text that is not UTF-8.
    NotUtf8,
    /// A message over a limit.
    TooLong { limit: usize, knob: &'static str },
    /// A message that was begun and not finished in time.
    Late,
    /// As [`Self::Late`], because there was no room for it.
    IncomingFull,
}

/// The limits of a reader.
#[derive(Clone, Copy)]
struct Limits {
    short_max: usize,
    long_max: usize,
    timeout: Duration,
}

/// Frames on their way from a socket.
pub(super) struct MessageReader {
    buffer: BytesMut,
    frame: Option<Frame>,
    message: Option<PartialMessage>,
    /// The room of the message that was returned last. It is in memory until the next call of `next`.
    last: Option<Reservation>,
    /// When what has begun must be whole.
    deadline: Option<Instant>,
    /// Bytes that were read since this task last yielded.
    in_a_row: usize,
    limits: Limits,
    incoming: Arc<IncomingBudget>,
    client: ClientId,
}

/// A frame whose header was read.
struct Frame {
    kind: FrameKind,
    is_final: bool,
    mask: [u8; 4],
    len: usize,
    /// How much of the payload was read.
    read: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameKind {
    Data,
    Control(Control),
}

/// A message that is not whole.
struct PartialMessage {
    is_text: bool,
    bytes: BytesMut,
    /// Whether it may be longer than `message_bytes_max`, once that is known.
    may_be_long: Option<bool>,
    reservation: Reservation,
}

/// What is missing.
enum Missing {
    /// Something in the buffer.
    Bytes,
    /// This number of bytes of a payload, which are read into the message directly.
    Payload(usize),
    /// Room for the message.
    Memory,
}

enum Progress {
    Received(Received),
    Missing(Missing),
}

impl MessageReader {
    pub(super) fn new(config: &Config, incoming: Arc<IncomingBudget>, client: ClientId) -> Self {
        let short_max = config.message_bytes_max;
        let limits = Limits {
            short_max,
            long_max: short_max.max(config.addresses_message_bytes_max),
            timeout: Duration::from_millis(config.message_timeout_ms),
        };
        Self {
            buffer: BytesMut::new(),
            frame: None,
            message: None,
            last: None,
            deadline: None,
            in_a_row: 0,
            limits,
            incoming,
            client,
        }
    }

    /// The next message or control frame.
    pub(super) async fn next<IO: AsyncRead + Unpin>(
        &mut self,
        io: &mut IO,
    ) -> Result<Received, ReadError> {
        self.last = None;
        let mut room_wait = RESERVE_BACKOFF;
        loop {
            let missing = match self.progress()? {
                Progress::Received(received) => {
                    if self.message.is_none() {
                        self.deadline = None;
                    } else if self.is_late() {
                        // Control frames that keep coming do not make it wait for the socket.
                        return Err(ReadError::Late);
                    }
                    return Ok(received);
                }
                Progress::Missing(missing) => missing,
            };
            if self.in_a_row >= PIECE_BYTES {
                self.in_a_row = 0;
                tokio::task::yield_now().await;
            }
            let is_late = self.is_incomplete() && self.is_late();
            if let Missing::Memory = missing {
                let again = Instant::now() + room_wait;
                if self.deadline.is_some_and(|deadline| deadline <= again) {
                    tokio::time::sleep_until(self.deadline.unwrap_or(again)).await;
                    return Err(ReadError::IncomingFull);
                }
                tokio::time::sleep_until(again).await;
                room_wait = (room_wait * 2).min(RESERVE_BACKOFF_MAX);
                continue;
            }
            if is_late {
                return Err(ReadError::Late);
            }
            let deadline = self.deadline;
            let read = self.read(io, missing);
            let read = match deadline {
                None => read.await,
                Some(deadline) => timeout_at(deadline, read).await.map_err(|_| ReadError::Late)?,
            };
            match read {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Err(ReadError::Gone),
            }
        }
    }

    /// Says that nothing was read for a while, which does not count.
    pub(super) fn defer(&mut self, by: Duration) {
        if let Some(deadline) = &mut self.deadline {
            *deadline += by;
        }
    }

    /// Whether what has begun should be whole by now. The deadline is set if there is none.
    fn is_late(&mut self) -> bool {
        let now = Instant::now();
        *self.deadline.get_or_insert(now + self.limits.timeout) <= now
    }

    /// Whether a frame or a message is not whole.
    fn is_incomplete(&self) -> bool {
        self.frame.is_some() || self.message.is_some() || !self.buffer.is_empty()
    }

    async fn read<IO: AsyncRead + Unpin>(
        &mut self,
        io: &mut IO,
        missing: Missing,
    ) -> std::io::Result<usize> {
        let read = match (missing, &mut self.message, &mut self.frame) {
            (Missing::Payload(max), Some(message), Some(frame)) if max >= BUFFER_BYTES => {
                let before = message.bytes.len();
                let read =
                    io.read_buf(&mut (&mut message.bytes).limit(max.min(PIECE_BYTES))).await?;
                unmask(&mut message.bytes[before..], frame.mask, frame.read);
                frame.read += read;
                read
            }
            _ => {
                // What is read here is less than the buffer: a header or a short payload comes next.
                let room = BUFFER_BYTES - self.buffer.len();
                self.buffer.reserve(room);
                io.read_buf(&mut (&mut self.buffer).limit(room)).await?
            }
        };
        self.in_a_row += read;
        Ok(read)
    }

    /// Takes what there is in the buffer.
    fn progress(&mut self) -> Result<Progress, ReadError> {
        loop {
            let Some(frame) = &self.frame else {
                if !self.start_frame()? {
                    return Ok(Progress::Missing(Missing::Bytes));
                }
                continue;
            };
            match frame.kind {
                FrameKind::Control(control) => {
                    let missing = frame.len - frame.read;
                    if self.buffer.len() < missing {
                        return Ok(Progress::Missing(Missing::Bytes));
                    }
                    let (mask, mut payload) = (frame.mask, self.buffer.split_to(missing));
                    unmask(&mut payload, mask, 0);
                    self.frame = None;
                    return received_control(control, payload.freeze()).map(Progress::Received);
                }
                FrameKind::Data => {
                    if let Some(progress) = self.progress_data()? {
                        return Ok(progress);
                    }
                }
            }
        }
    }

    /// Reads the header of the next frame. False if it is not there yet.
    fn start_frame(&mut self) -> Result<bool, ReadError> {
        let mut cursor = Cursor::new(&self.buffer[..]);
        let header = FrameHeader::parse(&mut cursor)
            .map_err(|_| ReadError::Protocol("an opcode that is reserved"))?;
        let Some((header, len)) = header else { return Ok(false) };
        let header_bytes = usize::try_from(cursor.position()).unwrap_or(usize::MAX);
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return Err(ReadError::Protocol("a reserved bit is set"));
        }
        let mask = header.mask.ok_or(ReadError::Protocol("a frame that is not masked"))?;
        let kind = match header.opcode {
            OpCode::Control(_) if !header.is_final => {
                return Err(ReadError::Protocol("a control frame in pieces"));
            }
            OpCode::Control(_) if len > CONTROL_BYTES_MAX => {
                return Err(ReadError::Protocol("a control frame over 125 bytes"));
            }
            OpCode::Control(control) => FrameKind::Control(control),
            OpCode::Data(data) => {
                self.start_data(data, len)?;
                FrameKind::Data
            }
        };
        // It is not over a limit, so it fits.
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.buffer.advance(header_bytes);
        self.frame = Some(Frame { kind, is_final: header.is_final, mask, len, read: 0 });
        Ok(true)
    }

    /// Begins a message with a frame, or goes on with one.
    fn start_data(&mut self, data: Data, len: u64) -> Result<(), ReadError> {
        let message = match (data, self.message.take()) {
            (Data::Continue, Some(message)) => message,
            (Data::Continue, None) => {
                return Err(ReadError::Protocol("a continuation of nothing"));
            }
            (_, Some(_)) => return Err(ReadError::Protocol("a message within a message")),
            (_, None) => PartialMessage {
                is_text: data == Data::Text,
                bytes: BytesMut::new(),
                may_be_long: None,
                reservation: self.incoming.reserve(self.client),
            },
        };
        let total = len.saturating_add(message.bytes.len() as u64);
        if total > self.limits.long_max as u64 {
            return Err(self.limits.too_long(true));
        }
        if message.may_be_long == Some(false) && total > self.limits.short_max as u64 {
            return Err(self.limits.too_long(false));
        }
        self.message = Some(message);
        Ok(())
    }

    /// Takes what there is of a message. `None` if there may be more.
    fn progress_data(&mut self) -> Result<Option<Progress>, ReadError> {
        let (Some(frame), Some(message)) = (&mut self.frame, &mut self.message) else {
            unreachable!("a data frame is of a message")
        };
        let missing = frame.len - frame.read;
        let total = message.bytes.len() + missing;
        let short_max = self.limits.short_max;
        if frame.is_final && message.bytes.is_empty() && total <= short_max.min(BUFFER_BYTES) {
            // The usual message: one frame, and all of it fits into the buffer.
            if self.buffer.len() < missing {
                return Ok(Some(Progress::Missing(Missing::Bytes)));
            }
            let (is_text, mask) = (message.is_text, frame.mask);
            let mut payload = self.buffer.split_to(missing);
            unmask(&mut payload, mask, 0);
            (self.frame, self.message) = (None, None);
            return received_data(is_text, payload).map(|it| Some(Progress::Received(it)));
        }
        if missing == 0 {
            let is_final = frame.is_final;
            self.frame = None;
            if !is_final {
                return Ok(None);
            }
            let Some(message) = self.message.take() else { return Ok(None) };
            self.last = Some(message.reservation);
            let received = received_data(message.is_text, message.bytes)?;
            return Ok(Some(Progress::Received(received)));
        }
        if total > short_max && message.bytes.len() >= short_max && message.may_be_long.is_none() {
            let may_be_long = is_for_long(message.is_text, &message.bytes);
            message.may_be_long = Some(may_be_long);
            if !may_be_long {
                return Err(self.limits.too_long(false));
            }
        }
        let may_be_long = message.may_be_long == Some(true);
        let until = if may_be_long { total } else { total.min(short_max) };
        if message.bytes.capacity() < until {
            let limit = if may_be_long { self.limits.long_max } else { short_max };
            let capacity = match frame.is_final {
                true => until,
                // More frames follow: not a copy for each of them.
                false => until.max((message.bytes.capacity() * 2).min(limit)),
            };
            if !message.reservation.grow(capacity) {
                return Ok(Some(Progress::Missing(Missing::Memory)));
            }
            let mut bytes = BytesMut::with_capacity(capacity);
            bytes.extend_from_slice(&message.bytes);
            message.bytes = bytes;
        }
        let before = message.bytes.len();
        let taken = self.buffer.len().min(until - before);
        if taken == 0 {
            return Ok(Some(Progress::Missing(Missing::Payload(until - before))));
        }
        message.bytes.extend_from_slice(&self.buffer[..taken]);
        unmask(&mut message.bytes[before..], frame.mask, frame.read);
        self.buffer.advance(taken);
        frame.read += taken;
        Ok(None)
    }
}

impl Limits {
    fn too_long(&self, for_long: bool) -> ReadError {
        if for_long && self.long_max > self.short_max {
            let knob = "pubsub.addresses_message_bytes_max";
            return ReadError::TooLong { limit: self.long_max, knob };
        }
        ReadError::TooLong { limit: self.short_max, knob: "pubsub.message_bytes_max" }
    }
}

/// Whether a message that begins so may be long.
fn is_for_long(is_text: bool, beginning: &[u8]) -> bool {
    if !is_text && beginning.first() == Some(&address_sets::BINARY) {
        return true;
    }
    let text = String::from_utf8_lossy(beginning);
    LONG_METHODS.iter().any(|method| text.contains(method))
}

fn received_data(is_text: bool, payload: BytesMut) -> Result<Received, ReadError> {
    let payload = payload.freeze();
    if !is_text {
        return Ok(Received::Binary(payload));
    }
    Utf8Bytes::try_from(payload).map(Received::Text).map_err(|_| ReadError::NotUtf8)
}

fn received_control(control: Control, mut payload: Bytes) -> Result<Received, ReadError> {
    match control {
        Control::Ping => Ok(Received::Ping(payload)),
        Control::Pong => Ok(Received::Pong),
        Control::Close => match payload.len() {
            0 => Ok(Received::Close(None)),
            1 => Err(ReadError::Protocol("a goodbye of one byte")),
            _ => {
                let code = CloseCode::from(payload.get_u16());
                let reason = Utf8Bytes::try_from(payload).map_err(|_| ReadError::NotUtf8)?;
                if code.is_allowed() {
                    return Ok(Received::Close(Some(CloseFrame { code, reason })));
                }
                let reason = Utf8Bytes::from_static("Protocol violation");
                Ok(Received::Close(Some(CloseFrame { code: CloseCode::Protocol, reason })))
            }
        },
        Control::Reserved(_) => Err(ReadError::Protocol("an opcode that is reserved")),
    }
}

/// Takes the mask off a part of a payload that begins `at` bytes after the payload's beginning.
fn unmask(bytes: &mut [u8], mut mask: [u8; 4], at: usize) {
    mask.rotate_left(at % 4);
    let word = u32::from_ne_bytes(mask);
    let (words, rest) = bytes.as_chunks_mut::<4>();
    for four in words {
        *four = (u32::from_ne_bytes(*four) ^ word).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests;
