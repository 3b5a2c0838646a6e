//! The socket of a connection, which knows whether its last write had to wait, and whether the client began HTTP/2.
//!
//! HTTP/2 writes all that it may until it has nothing more or the socket is full. So after it was polled, a socket that
//! is not full has all frames of HTTP/2 that the client's windows allow.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::sync::Notify;

use crate::transport::Transport;

/// The first bytes of a client in HTTP/2.
const PREFACE_BYTES: usize = 24;

pub(crate) struct Socket {
    inner: TokioIo<Transport>,
    state: Arc<SocketState>,
    /// Bytes of the preface that were not read.
    preface_bytes: usize,
}

/// The observed state of a socket.
#[derive(Default)]
pub(crate) struct SocketState {
    is_full: AtomicBool,
    begun: Notify,
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
}

impl Socket {
    pub(crate) fn new(transport: Transport) -> Self {
        let inner = TokioIo::new(transport);
        Self { inner, state: Arc::default(), preface_bytes: PREFACE_BYTES }
    }

    pub(crate) fn state(&self) -> Arc<SocketState> {
        Arc::clone(&self.state)
    }

    fn record<T>(&self, written: Poll<T>) -> Poll<T> {
        self.state.is_full.store(written.is_pending(), Ordering::Relaxed);
        written
    }
}

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
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
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.record(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.record(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        self.record(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
