//! A socket that gives up on a client that does not read, and counts its bytes.
//!
//! Without it a client that asks and never reads what it gets would hold its connection, and the
//! answer in it, for ever: TCP itself is patient as long as the peer is alive.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::metrics::Traffic;
use crate::node::Node;

/// A socket whose writes fail when not one byte could be written for `timeout`.
pub(crate) struct Impatient {
    socket: TcpStream,
    timeout: Duration,
    node: Arc<Node>,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    pub(crate) fn new(socket: TcpStream, timeout: Duration, node: Arc<Node>) -> Self {
        Self { socket, timeout, node, waiting: None }
    }

    fn judge(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = &written {
            if let Ok(bytes) = result {
                self.node.metrics.http.add(Traffic::BytesOut, *bytes as u64);
            }
            self.waiting = None;
            return written;
        }
        let timeout = self.timeout;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + timeout)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, into);
        let bytes = into.filled().len() - before;
        if bytes > 0 {
            self.node.metrics.http.add(Traffic::BytesIn, bytes as u64);
        }
        read
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, from);
        self.judge(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, from);
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
