//! The socket of a connection, which knows whether its last write had to wait, and whether the client began HTTP/2. It
//! can end HTTP/2 with a frame that hyper does not send.
//!
//! HTTP/2 writes all that it may until it has nothing more or the socket is full. So after it was polled, a socket that
//! is not full has all frames of HTTP/2 that the client's windows allow.
//! The end: h2 flushes only between two frames, so the last frame is written at the next flush, and after it the end of
//! the stream. HTTP/2 neither reads nor writes afterwards: its frames are discarded, and so are those of the client. If
//! a socket is closed with unread bytes, the system resets it, and the client might never see the frame.
//! Bounds: the caller's timeout for the end (`connection`).

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::sync::Notify;

use crate::transport::Transport;

/// The first bytes of a client in HTTP/2.
const PREFACE_BYTES: usize = 24;
/// Bytes of a client that are discarded at once.
const DISCARD_BYTES: usize = 4 << 10;

pub(crate) struct Socket {
    inner: TokioIo<Transport>,
    state: Arc<SocketState>,
    /// Bytes of the preface that were not read.
    preface_bytes: usize,
    /// Bytes of the last frame that were written.
    last_frame_bytes: usize,
}

/// The observed state of a socket.
#[derive(Default)]
pub(crate) struct SocketState {
    is_full: AtomicBool,
    begun: Notify,
    /// The frame after which nothing is written. Empty until the connection ends with one.
    last_frame: OnceLock<Vec<u8>>,
}

impl SocketState {
    /// Whether the last write or flush had to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Waits until the preface of HTTP/2 was read. Other bytes end the connection.
    pub(crate) async fn wait_until_started(&self) {
        self.begun.notified().await;
    }

    /// Ends HTTP/2 with this frame. The connection must be polled afterwards, until the client has closed it. A second
    /// frame is ignored.
    pub(crate) fn end_with(&self, last_frame: Vec<u8>) {
        let _ = self.last_frame.set(last_frame);
    }

    fn is_ending(&self) -> bool {
        self.last_frame.get().is_some()
    }
}

impl Socket {
    pub(crate) fn new(transport: Transport) -> Self {
        let inner = TokioIo::new(transport);
        Self { inner, state: Arc::default(), preface_bytes: PREFACE_BYTES, last_frame_bytes: 0 }
    }

    pub(crate) fn state(&self) -> Arc<SocketState> {
        Arc::clone(&self.state)
    }

    fn record<T>(&self, written: Poll<T>) -> Poll<T> {
        self.state.is_full.store(written.is_pending(), Ordering::Relaxed);
        written
    }

    /// Writes the rest of the last frame, and then the end of the stream.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(frame) = self.state.last_frame.get()
            && self.last_frame_bytes < frame.len()
        {
            let rest = &frame[self.last_frame_bytes..];
            match ready!(Pin::new(&mut self.inner).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.last_frame_bytes += written,
            }
        }
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    /// Discards the bytes of the client. Completes at their end.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; DISCARD_BYTES];
        loop {
            let mut discarded = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.inner).poll_read(context, discarded.unfilled()))?;
            if discarded.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.state.is_ending() {
            return self.poll_discard(context);
        }
        if self.preface_bytes == 0 {
            return Pin::new(&mut self.inner).poll_read(context, to);
        }
        let mut bytes = [0; PREFACE_BYTES];
        let wanted = to.remaining().min(self.preface_bytes);
        let mut preface = ReadBuf::new(&mut bytes[..wanted]);
        ready!(Pin::new(&mut self.inner).poll_read(context, preface.unfilled()))?;
        to.put_slice(preface.filled());
        self.preface_bytes -= preface.filled().len();
        if self.preface_bytes == 0 {
            self.state.begun.notify_one();
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.last_frame_bytes > 0 {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.record(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.last_frame_bytes > 0 {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.record(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = if self.state.is_ending() {
            self.poll_end(context)
        } else {
            Pin::new(&mut self.inner).poll_flush(context)
        };
        self.record(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use clients::ClientId;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::config::Config;
    use crate::read_rate::ReadRate;
    use crate::server_state::ServerState;
    use crate::transport::TransportStream;

    /// A socket, and its client.
    async fn connect() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let client = TcpStream::connect(address).await.expect("it listens");
        let (accepted, _) = listener.accept().await.expect("a client");
        let state = Arc::new(ServerState::new(Config::default()));
        let read_rate = ReadRate::new(state, ClientId(1));
        (Socket::new(Transport::new(TransportStream::Plain(accepted), read_rate)), client)
    }

    async fn write(socket: &mut Socket, bytes: &[u8]) {
        let written = poll_fn(|context| Pin::new(&mut *socket).poll_write(context, bytes)).await;
        assert_eq!(written.expect("it is open"), bytes.len());
    }

    #[tokio::test]
    async fn the_last_frame_follows_a_whole_frame_and_ends_the_stream() {
        let (mut socket, mut client) = connect().await;
        write(&mut socket, b"whole, ha").await;
        socket.state().end_with(b"last".to_vec());
        write(&mut socket, b"lf, ").await;
        let flushed = poll_fn(|context| Pin::new(&mut socket).poll_flush(context)).await;
        flushed.expect("it is open");
        write(&mut socket, b"later").await;
        client.write_all(b"unread").await.expect("it is open");
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.expect("the end without a reset");
        assert_eq!(received, b"whole, half, last");

        let mut bytes = [0; 16];
        let mut read = ReadBuf::new(&mut bytes);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let polled = Pin::new(&mut socket).poll_read(&mut context, read.unfilled());
        assert!(polled.is_pending(), "the client has not closed it");
        drop(client);
        let ended =
            poll_fn(|context| Pin::new(&mut socket).poll_read(context, read.unfilled())).await;
        ended.expect("the end without a reset");
        assert_eq!(read.filled(), b"", "its bytes are discarded");
    }
}
