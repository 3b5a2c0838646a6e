//! A socket that counts what is read from it, and that a WebSocket can be put on anew.
//!
//! Why: a WebSocket's read buffer grows to the longest message and stays so long. After a message of
//! addresses we begin a new one on the same socket, if nothing waits in the old one's buffer: if what
//! was read is what the messages so far have at least. Cost: an uncontended lock a read or write.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A handle on a socket.
pub(super) struct Counted<IO>(Arc<Mutex<Inner<IO>>>);

struct Inner<IO> {
    io: IO,
    read: u64,
}

impl<IO> Clone for Counted<IO> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<IO> Counted<IO> {
    pub(super) fn new(io: IO) -> Self {
        Self(Arc::new(Mutex::new(Inner { io, read: 0 })))
    }

    /// Bytes that were read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.0.lock().read
    }
}

/// What a client's message of so many bytes takes on the wire at least.
pub(super) fn wire_bytes(payload: usize) -> u64 {
    let length = match payload {
        0..126 => 0,
        126..65_536 => 2,
        _ => 8,
    };
    2 + length + 4 + payload as u64
}

impl<IO: AsyncRead + Unpin> AsyncRead for Counted<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let inner = &mut *self.0.lock();
        let before = into.filled().len();
        let polled = Pin::new(&mut inner.io).poll_read(cx, into);
        inner.read += (into.filled().len() - before) as u64;
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Counted<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.lock().io).poll_write(cx, from)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().io).poll_shutdown(cx)
    }
}
