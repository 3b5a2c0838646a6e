//! A TCP connection that acknowledges received bytes at once.
//!
//! A server without `TCP_NODELAY`, such as kaspad, sends the second of two short messages only once the first one has
//! been acknowledged (Nagle's algorithm). Linux delays the acknowledgement by 40 ms if the client has just sent a
//! request, because it expects the client to send more. `TCP_QUICKACK` sends it, until the system delays the next one.
//! So it is set after each read.
//! Input: a connected socket. Output: the same bytes.
//! Bounds: one system call for each read. Systems other than Linux have no such option.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP connection that acknowledges received bytes at once.
pub(crate) struct QuickAckSocket(TcpStream);

impl QuickAckSocket {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self(socket)
    }
}

impl AsyncRead for QuickAckSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let polled = Pin::new(&mut self.0).poll_read(context, buffer);
        if buffer.filled().len() > filled {
            acknowledge(&self.0);
        }
        polled
    }
}

impl AsyncWrite for QuickAckSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Sends the acknowledgement of all bytes received so far.
#[cfg(target_os = "linux")]
fn acknowledge(socket: &TcpStream) {
    // After an error, the system sends it later.
    let _ = socket.set_quickack(true);
}

#[cfg(not(target_os = "linux"))]
fn acknowledge(_socket: &TcpStream) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::testing::block_on;

    #[test]
    fn each_read_acknowledges_its_bytes_at_once() {
        block_on(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
            let address = listener.local_addr().expect("it is bound");
            let socket = TcpStream::connect(address).await.expect("it listens");
            let mut client = QuickAckSocket::new(socket);
            let (mut server, _) = listener.accept().await.expect("the client");
            for message in [b"first", b"again"] {
                // As the system does once the client has replied to a message.
                client.0.set_quickack(false).expect("it is a TCP socket");
                assert!(!client.0.quickack().expect("it is a TCP socket"));
                server.write_all(message).await.expect("it is connected");
                let mut bytes = [0; 5];
                client.read_exact(&mut bytes).await.expect("a message");
                assert_eq!(&bytes, message);
                assert!(client.0.quickack().expect("it is a TCP socket"));
            }
        });
    }
}
