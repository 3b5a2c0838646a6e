//! A socket that counts what is read from it, lets others go in between, and that a WebSocket can be
//! put on anew.
//!
//! A WebSocket reads on for as long as a message is not whole and something is there. After
//! [`TURN_BYTES`] we say that there is nothing, once, so that the thread's other sockets have their turn.
//!
//! Why: a WebSocket's read buffer grows to the longest message and stays so long. After a message of
//! addresses we begin a new one on the same socket, if nothing waits in the old one's buffer: if what
//! was read is what the messages so far have at least. Cost: an uncontended lock a read or write.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is read in a row: some 50 microseconds.
const TURN_BYTES: usize = 64 * 1024;

/// A handle on a socket.
pub(super) struct Counted<IO>(Arc<Mutex<Inner<IO>>>);

struct Inner<IO> {
    io: IO,
    read: u64,
    /// Bytes that were read since others had their turn.
    in_a_row: usize,
}

impl<IO> Clone for Counted<IO> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<IO> Counted<IO> {
    pub(super) fn new(io: IO) -> Self {
        Self(Arc::new(Mutex::new(Inner { io, read: 0, in_a_row: 0 })))
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
        if inner.in_a_row >= TURN_BYTES {
            inner.in_a_row = 0;
            // Wakes us once the runtime has looked at all sockets.
            let turn = pin!(tokio::task::yield_now());
            ready!(turn.poll(cx));
        }
        let before = into.filled().len();
        let polled = Pin::new(&mut inner.io).poll_read(cx, into);
        let read = into.filled().len() - before;
        inner.read += read as u64;
        inner.in_a_row = if polled.is_pending() { 0 } else { inner.in_a_row + read };
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn a_socket_that_has_more_and_more_lets_others_go_in_between() {
        let mut socket = Counted::new(tokio::io::repeat(7));
        let mut piece = [0; 4_096];
        let mut reads = Vec::new();
        for _ in 0..3 {
            let turn = poll_fn(|cx| {
                for read in 0.. {
                    let mut into = ReadBuf::new(&mut piece);
                    match Pin::new(&mut socket).poll_read(cx, &mut into) {
                        Poll::Ready(result) => result.expect("it repeats"),
                        Poll::Pending => return Poll::Ready(read),
                    }
                }
                Poll::Pending
            });
            reads.push(turn.await);
            tokio::task::yield_now().await;
        }
        assert_eq!(reads, [TURN_BYTES / piece.len(); 3]);
        assert_eq!(socket.bytes_read(), 3 * TURN_BYTES as u64);
    }
}
