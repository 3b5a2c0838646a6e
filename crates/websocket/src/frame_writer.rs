//! Writes frames to a client.
//!
//! Shape: short frames are collected in a buffer. Of a long payload only the header goes into the buffer. The payload
//! is written to the socket, in one frame, from the bytes that all listeners share: a server's frames are not masked, so
//! nothing has to be copied.
//! Bounds: a buffer of [`BUFFER_BYTES`] and one short frame, and one long payload at a time. After [`CHUNK_BYTES`]
//! the task yields to the thread's other sockets. All state is in the writer, so dropping a future loses nothing.
//! Not here: the order of writes, and the write timeout (`connection`).

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use http_server::poll_budget;
use tokio::io::AsyncWrite;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::OpCode;

use crate::shared_bytes::SharedBytes;

/// Bytes that are collected before a write, unless nothing more waits.
pub(crate) const BUFFER_BYTES: usize = 16 * 1024;
/// Bytes of a payload that is copied to the buffer. A longer one is written from the shared bytes.
pub(crate) const COPIED_BYTES_MAX: usize = 8 * 1024;
/// Bytes that are written before the task yields: some 20 microseconds.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes of the buffer that an idle connection retains.
const IDLE_BYTES: usize = 4 * 1024;

pub(crate) struct FrameWriter {
    buffer: Vec<u8>,
    /// Bytes of the buffer that have been written.
    written: usize,
    long: Option<LongFrame>,
    /// Bytes that the sockets of all writers have not accepted yet.
    waiting: Arc<AtomicUsize>,
    /// This writer's part of `waiting`.
    counted: usize,
}

/// A frame whose payload is not in the buffer. Its header is the buffer's end.
struct LongFrame {
    header_at: usize,
    len: usize,
    written: usize,
}

/// Why nothing more can be written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The socket is broken.
    Broken,
    /// The payload that was being written has been evicted.
    Evicted,
}

impl FrameWriter {
    pub(crate) fn new(waiting: Arc<AtomicUsize>) -> Self {
        Self { buffer: Vec::new(), written: 0, long: None, waiting, counted: 0 }
    }

    /// Returns whether the next frame should wait for a flush.
    pub(crate) fn is_full(&self) -> bool {
        self.long.is_some() || self.buffer.len() >= BUFFER_BYTES
    }

    /// Adds a frame. No long frame may be pending.
    pub(crate) fn add(&mut self, opcode: OpCode, is_final: bool, payload: &[u8]) {
        debug_assert!(self.long.is_none(), "a frame within a frame");
        self.add_header(opcode, is_final, payload.len());
        poll_budget::charge(payload.len());
        self.buffer.extend_from_slice(payload);
    }

    /// Adds a frame whose payload of `len` bytes is written from shared bytes.
    pub(crate) fn add_long(&mut self, opcode: OpCode, is_final: bool, len: usize) {
        debug_assert!(self.long.is_none(), "a frame within a frame");
        let header_at = self.buffer.len();
        self.add_header(opcode, is_final, len);
        self.long = Some(LongFrame { header_at, len, written: 0 });
    }

    fn add_header(&mut self, opcode: OpCode, is_final: bool, len: usize) {
        let header = FrameHeader { is_final, opcode, mask: None, ..FrameHeader::default() };
        let formatted = header.format(len as u64, &mut self.buffer);
        debug_assert!(formatted.is_ok(), "writing to memory does not fail");
    }

    /// Removes a long frame if nothing of it has been written. True if the next frame may follow, that is, no frame is
    /// partly written.
    pub(crate) fn withdraw_long(&mut self) -> bool {
        match &self.long {
            Some(long) if self.written > long.header_at => false,
            Some(long) => {
                self.buffer.truncate(long.header_at);
                self.long = None;
                true
            }
            None => true,
        }
    }

    /// Writes up to [`CHUNK_BYTES`]. Returns `Break` if nothing is left. `payload` returns that of the long frame.
    pub(crate) async fn advance<IO: AsyncWrite + Unpin>(
        &mut self,
        io: &mut IO,
        payload: impl Fn() -> Option<SharedBytes>,
    ) -> Result<ControlFlow<()>, WriteError> {
        let mut left = CHUNK_BYTES;
        let step = poll_fn(|cx| {
            let polled = self.poll_advance(cx, io, &payload, &mut left);
            self.recount(polled.is_pending());
            polled
        });
        let progress = step.await?;
        if left < CHUNK_BYTES / 2 {
            // Also if nothing is left: the next frame may be as long.
            tokio::task::yield_now().await;
        }
        Ok(progress)
    }

    fn poll_advance<IO: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut IO,
        payload: &impl Fn() -> Option<SharedBytes>,
        left: &mut usize,
    ) -> Poll<Result<ControlFlow<()>, WriteError>> {
        while self.written < self.buffer.len() {
            let end = self.buffer.len().min(self.written + *left);
            let bytes = ready!(poll_write(cx, io, &self.buffer[self.written..end]))?;
            self.written += bytes;
            *left -= bytes;
            if *left == 0 {
                return Poll::Ready(Ok(ControlFlow::Continue(())));
            }
        }
        while let Some(long) = self.long.as_mut().filter(|long| long.written < long.len) {
            // Dropped while the socket is full, so that the payload can be evicted.
            let payload = payload().ok_or(WriteError::Evicted)?;
            let end = long.len.min(long.written + *left);
            let bytes = ready!(poll_write(cx, io, &payload[long.written..end]))?;
            long.written += bytes;
            *left -= bytes;
            if *left == 0 {
                return Poll::Ready(Ok(ControlFlow::Continue(())));
            }
        }
        (self.long, self.written) = (None, 0);
        if self.buffer.capacity() > IDLE_BYTES {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
        ready!(Pin::new(io).poll_flush(cx)).map_err(|_| WriteError::Broken)?;
        Poll::Ready(Ok(ControlFlow::Break(())))
    }

    /// Updates `waiting` by the bytes that the socket has not accepted.
    fn recount(&mut self, is_waiting: bool) {
        let long = self.long.as_ref().map_or(0, |long| long.len - long.written);
        let now = if is_waiting { self.buffer.len() - self.written + long } else { 0 };
        if now > self.counted {
            self.waiting.fetch_add(now - self.counted, Ordering::Relaxed);
        } else if now < self.counted {
            self.waiting.fetch_sub(self.counted - now, Ordering::Relaxed);
        }
        self.counted = now;
    }
}

impl Drop for FrameWriter {
    fn drop(&mut self) {
        self.recount(false);
    }
}

fn poll_write<IO: AsyncWrite + Unpin>(
    cx: &mut Context<'_>,
    io: &mut IO,
    bytes: &[u8],
) -> Poll<Result<usize, WriteError>> {
    match ready!(Pin::new(io).poll_write(cx, bytes)) {
        Ok(written @ 1..) => Poll::Ready(Ok(written)),
        Ok(0) | Err(_) => Poll::Ready(Err(WriteError::Broken)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;

    use subscriptions::QueueMemory;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data};

    use super::*;

    const TEXT: OpCode = OpCode::Data(Data::Text);

    /// A socket that accepts up to `at_once` bytes per write, and nothing every other time.
    struct Socket {
        accepted: Vec<u8>,
        writes: Vec<usize>,
        at_once: usize,
        is_full: bool,
    }

    impl Socket {
        fn new(at_once: usize) -> Self {
            Self { accepted: Vec::new(), writes: Vec::new(), at_once, is_full: false }
        }
    }

    impl AsyncWrite for Socket {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            from: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.is_full = !self.is_full;
            if self.is_full {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let bytes = from.len().min(self.at_once);
            self.accepted.extend_from_slice(&from[..bytes]);
            self.writes.push(from.len());
            Poll::Ready(Ok(bytes))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn text(len: usize) -> SharedBytes {
        SharedBytes::new("x".repeat(len), &Arc::<QueueMemory>::default())
    }

    #[tokio::test]
    async fn a_long_text_is_written_in_short_chunks_and_not_copied() {
        let len = 1_000_000;
        let waiting = Arc::<AtomicUsize>::default();
        let mut socket = Socket::new(50_000);
        let mut writer = FrameWriter::new(Arc::clone(&waiting));
        let text = text(len);
        writer.add(OpCode::Control(Control::Ping), true, b"?");
        writer.add_long(TEXT, true, len);
        assert!(writer.buffer.len() < 20, "two headers");
        let mut steps = 0;
        loop {
            let before = socket.accepted.len();
            let step = writer.advance(&mut socket, || Some(text.clone())).await;
            assert!(socket.accepted.len() - before <= CHUNK_BYTES);
            steps += 1;
            if step.expect("it is written").is_break() {
                break;
            }
        }
        assert!(steps >= len / CHUNK_BYTES);
        assert!(socket.writes.iter().all(|offered| *offered <= CHUNK_BYTES));
        let header = [0x81, 127, 0, 0, 0, 0, 0, 0x0f, 0x42, 0x40];
        let expected = [&[0x89, 1, b'?'], &header[..], &text].concat();
        assert!(socket.accepted == expected);
        assert_eq!(waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn bytes_that_a_socket_does_not_accept_are_counted_until_the_writer_is_dropped() {
        let (client, mut server) = tokio::io::duplex(1_000);
        let waiting: Arc<AtomicUsize> = Arc::default();
        let mut writer = FrameWriter::new(Arc::clone(&waiting));
        let text = text(100_000);
        writer.add_long(TEXT, true, text.len());
        let step = writer.advance(&mut server, || Some(text.clone()));
        assert!(futures_util::FutureExt::now_or_never(step).is_none(), "its peer does not read");
        assert_eq!(waiting.load(Ordering::Relaxed), 10 + 100_000 - 1_000);
        drop(writer);
        assert_eq!(waiting.load(Ordering::Relaxed), 0);
        drop(client);
    }

    #[tokio::test]
    async fn an_evicted_text_ends_the_write_and_can_be_withdrawn_before_its_first_byte() {
        let mut writer = FrameWriter::new(Arc::default());
        let mut socket = Socket::new(usize::MAX);
        writer.add(TEXT, true, b"{}");
        writer.add_long(TEXT, true, 100_000);
        assert!(writer.withdraw_long());
        writer.add(OpCode::Control(Control::Close), true, b"");
        let step = writer.advance(&mut socket, || None).await.expect("it is written");
        assert!(step.is_break());
        assert_eq!(socket.accepted, [0x81, 2, b'{', b'}', 0x88, 0]);

        let uses_left = Cell::new(1);
        let text = text(100_000);
        let available = || (uses_left.replace(uses_left.get() - 1) > 0).then(|| text.clone());
        writer.add_long(TEXT, true, 100_000);
        socket.at_once = 1_000;
        let ended = writer.advance(&mut socket, available).await;
        assert!(matches!(ended, Err(WriteError::Evicted)));
        assert!(!writer.withdraw_long(), "a part of it is on the wire");
    }
}
