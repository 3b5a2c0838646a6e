//! Reads the messages of a client.
//!
//! In: the frames of RFC 6455, masked. Out: whole messages and control frames.
//! Bounds: a buffer of [`BUFFER_BYTES`]. A message that does not come in one read has its own buffer, which is
//! reserved before it grows (`incoming_budget`) and is never longer than the message may be. A message over
//! `Config::message_bytes_max` is read further only if the protocol says from its first `message_bytes_max` bytes that
//! it may be long ([`FindBound`]). If the protocol wants it streamed, it is returned in parts, and only one part has a
//! buffer. A message must be complete `Config::message_timeout_ms` after it began, not counting
//! the time in which nothing is read from the client.
//! While a buffer grows, the one before exists until its bytes are copied. It is not reserved: nothing is awaited in
//! between, so there is one at a time for each thread, of at most `Config::addresses_message_bytes_max` bytes.
//! Why not tungstenite's reader: it buffers each message twice, without a bound over all connections, and it writes
//! pongs to a buffer without a bound.
//! Dropping the future of [`MessageReader::next`] or [`MessageReader::next_control`] loses nothing.
//! Not here: the pings and pongs that are read while a call runs (`control_frames`), the content of whole messages and
//! control frames (`received`).

mod control_frames;
mod partial_message;
mod received;

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, BytesMut};
use clients::ClientId;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use self::partial_message::{Frame, FrameKind, Missing, PartialMessage, unmask};
pub(crate) use self::received::{ReadError, Received};
use self::received::{received_control, received_data};
use crate::config::Config;
use crate::incoming_budget::{IncomingBudget, Reservation};
use crate::message::{IncomingPart, MessageBound, MessageKind};

/// Bytes that one read of short messages may return.
const BUFFER_BYTES: usize = 4 * 1024;
/// Bytes that are read before the task yields: some 50 microseconds.
const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes of a part of a streamed message.
const PART_BYTES: usize = 64 * 1024;
/// The most bytes in a control frame (RFC 6455, 5.5).
const CONTROL_BYTES_MAX: u64 = 125;
/// Delay before a message tries to reserve memory again: the first one, and the maximum.
const RESERVE_BACKOFF: Duration = Duration::from_millis(10);
const RESERVE_BACKOFF_MAX: Duration = Duration::from_millis(500);

/// Finds the bound of a message that is over the ordinary one, from its first `Config::message_bytes_max` bytes.
pub(crate) type FindBound = fn(MessageKind, &[u8]) -> MessageBound;

#[derive(Clone, Copy)]
struct Limits {
    short_max: usize,
    long_max: usize,
    find_bound: FindBound,
    timeout: Duration,
}

/// Reads frames from a socket.
pub(crate) struct MessageReader {
    buffer: BytesMut,
    frame: Option<Frame>,
    message: Option<PartialMessage>,
    /// The reservation of the message that was returned last, or of its last part. It is in memory until the next call
    /// of `next`.
    last: Option<Reservation>,
    /// When the incomplete frame or message must be complete.
    deadline: Option<Instant>,
    /// Bytes that were read since this task last yielded.
    read_since_yield: usize,
    limits: Limits,
    incoming: Arc<IncomingBudget>,
    client: ClientId,
}

enum Progress {
    Received(Received),
    Missing(Missing),
}

impl MessageReader {
    pub(crate) fn new(
        config: &Config,
        find_bound: FindBound,
        incoming: Arc<IncomingBudget>,
        client: ClientId,
    ) -> Self {
        let short_max = config.message_bytes_max;
        let limits = Limits {
            short_max,
            long_max: short_max.max(config.addresses_message_bytes_max),
            find_bound,
            timeout: Duration::from_millis(config.message_timeout_ms),
        };
        Self {
            buffer: BytesMut::new(),
            frame: None,
            message: None,
            last: None,
            deadline: None,
            read_since_yield: 0,
            limits,
            incoming,
            client,
        }
    }

    /// Returns the next message or control frame.
    pub(crate) async fn next<IO: AsyncRead + Unpin>(
        &mut self,
        io: &mut IO,
    ) -> Result<Received, ReadError> {
        self.last = None;
        let mut backoff = RESERVE_BACKOFF;
        loop {
            let missing = match self.progress()? {
                Progress::Received(received) => {
                    if self.message.is_none() {
                        self.deadline = None;
                    } else if self.is_late() {
                        // Checked here too: a stream of control frames never waits for the socket.
                        return Err(ReadError::Late);
                    }
                    return Ok(received);
                }
                Progress::Missing(missing) => missing,
            };
            if self.read_since_yield >= CHUNK_BYTES {
                self.read_since_yield = 0;
                tokio::task::yield_now().await;
            }
            let is_late = self.is_incomplete() && self.is_late();
            if let Missing::Memory = missing {
                let retry_at = Instant::now() + backoff;
                if self.deadline.is_some_and(|deadline| deadline <= retry_at) {
                    tokio::time::sleep_until(self.deadline.unwrap_or(retry_at)).await;
                    return Err(ReadError::IncomingFull);
                }
                tokio::time::sleep_until(retry_at).await;
                backoff = (backoff * 2).min(RESERVE_BACKOFF_MAX);
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

    /// Extends the deadline by a time in which nothing was read.
    pub(crate) fn defer(&mut self, by: Duration) {
        if let Some(deadline) = &mut self.deadline {
            *deadline += by;
        }
    }

    /// Returns whether the deadline has passed. Sets it if there is none.
    fn is_late(&mut self) -> bool {
        let now = Instant::now();
        *self.deadline.get_or_insert(now + self.limits.timeout) <= now
    }

    /// Returns whether a frame or a message is incomplete.
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
                    io.read_buf(&mut (&mut message.bytes).limit(max.min(CHUNK_BYTES))).await?;
                unmask(&mut message.bytes[before..], frame.mask, frame.read);
                frame.read += read;
                read
            }
            _ => {
                // The buffer is not full: a header or a short payload is missing.
                let free = BUFFER_BYTES - self.buffer.len();
                self.buffer.reserve(free);
                io.read_buf(&mut (&mut self.buffer).limit(free)).await?
            }
        };
        self.read_since_yield += read;
        Ok(read)
    }

    /// Consumes the buffer, up to the next message or until something is missing.
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
                    let mask = frame.mask;
                    let mut payload = self.buffer.split_to(missing);
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

    /// Reads the header of the next frame. False if it is incomplete.
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
        // It is not over a limit, so it fits into `usize`.
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.buffer.advance(header_bytes);
        self.frame = Some(Frame { kind, is_final: header.is_final, mask, len, read: 0 });
        Ok(true)
    }

    /// Starts or continues a message with a data frame.
    fn start_data(&mut self, data: Data, len: u64) -> Result<(), ReadError> {
        let message = match (data, self.message.take()) {
            (Data::Continue, Some(message)) => message,
            (Data::Continue, None) => {
                return Err(ReadError::Protocol("a continuation of nothing"));
            }
            (_, Some(_)) => return Err(ReadError::Protocol("a message within a message")),
            (_, None) => PartialMessage {
                kind: if data == Data::Text { MessageKind::Text } else { MessageKind::Binary },
                bytes: BytesMut::new(),
                returned: 0,
                bound: None,
                reservation: self.incoming.reserve(self.client),
            },
        };
        let before = message.returned + message.bytes.len();
        let total = len.saturating_add(before as u64);
        if total > self.limits.long_max as u64 {
            return Err(self.limits.too_long(MessageBound::Long));
        }
        if message.bound == Some(MessageBound::Short) && total > self.limits.short_max as u64 {
            return Err(self.limits.too_long(MessageBound::Short));
        }
        self.message = Some(message);
        Ok(())
    }

    /// Consumes the buffered part of a data frame. `None` if there may be more in the buffer.
    fn progress_data(&mut self) -> Result<Option<Progress>, ReadError> {
        let (Some(frame), Some(message)) = (&mut self.frame, &mut self.message) else {
            unreachable!("a data frame is of a message")
        };
        if message.bound == Some(MessageBound::Streamed) {
            return Ok(self.progress_streamed());
        }
        let missing = frame.len - frame.read;
        let total = message.bytes.len() + missing;
        let short_max = self.limits.short_max;
        if frame.is_final && message.bytes.is_empty() && total <= short_max.min(BUFFER_BYTES) {
            // The usual message: one frame that fits into the buffer.
            if self.buffer.len() < missing {
                return Ok(Some(Progress::Missing(Missing::Bytes)));
            }
            let kind = message.kind;
            let mask = frame.mask;
            let mut payload = self.buffer.split_to(missing);
            unmask(&mut payload, mask, 0);
            (self.frame, self.message) = (None, None);
            return received_data(kind, payload).map(|received| Some(Progress::Received(received)));
        }
        if missing == 0 {
            let is_final = frame.is_final;
            self.frame = None;
            if !is_final {
                return Ok(None);
            }
            let Some(message) = self.message.take() else { return Ok(None) };
            self.last = Some(message.reservation);
            let received = received_data(message.kind, message.bytes)?;
            return Ok(Some(Progress::Received(received)));
        }
        if total > short_max && message.bytes.len() >= short_max && message.bound.is_none() {
            let bound = (self.limits.find_bound)(message.kind, &message.bytes);
            message.bound = Some(bound);
            match bound {
                MessageBound::Short => return Err(self.limits.too_long(bound)),
                MessageBound::Long => {}
                MessageBound::Streamed => return Ok(None),
            }
        }
        let may_be_long = message.bound == Some(MessageBound::Long);
        let until = if may_be_long { total } else { total.min(short_max) };
        if message.bytes.capacity() < until {
            let limit = if may_be_long { self.limits.long_max } else { short_max };
            let capacity = match frame.is_final {
                true => until,
                // More frames follow. Doubling avoids a copy for each of them.
                false => until.max((message.bytes.capacity() * 2).min(limit)),
            };
            if !message.grow(capacity) {
                return Ok(Some(Progress::Missing(Missing::Memory)));
            }
        }
        Ok(message.take_buffered(&mut self.buffer, frame, until).map(Progress::Missing))
    }

    /// Consumes the buffered part of a data frame of a streamed message. `None` if there may be more in the buffer.
    fn progress_streamed(&mut self) -> Option<Progress> {
        let (Some(frame), Some(message)) = (&mut self.frame, &mut self.message) else {
            unreachable!("a data frame is of a message")
        };
        let part_max = PART_BYTES.max(self.limits.short_max);
        let missing = frame.len - frame.read;
        let is_last = missing == 0 && frame.is_final;
        if is_last || message.bytes.len() >= part_max {
            let bytes = std::mem::take(&mut message.bytes).freeze();
            message.returned += bytes.len();
            let part = IncomingPart { kind: message.kind, bytes, is_last };
            if is_last {
                self.frame = None;
                self.last = self.message.take().map(|message| message.reservation);
            }
            return Some(Progress::Received(Received::Part(part)));
        }
        if missing == 0 {
            self.frame = None;
            return None;
        }
        if message.bytes.capacity() < part_max && !message.grow(part_max) {
            return Some(Progress::Missing(Missing::Memory));
        }
        let until = part_max.min(message.bytes.len() + missing);
        message.take_buffered(&mut self.buffer, frame, until).map(Progress::Missing)
    }
}

impl Limits {
    fn too_long(&self, bound: MessageBound) -> ReadError {
        if bound != MessageBound::Short && self.long_max > self.short_max {
            let setting = "pubsub.addresses_message_bytes_max";
            return ReadError::TooLong { limit: self.long_max, setting };
        }
        ReadError::TooLong { limit: self.short_max, setting: "pubsub.message_bytes_max" }
    }
}

#[cfg(test)]
mod tests;
