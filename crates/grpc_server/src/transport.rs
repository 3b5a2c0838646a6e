//! The bytes of a connection: a socket, or the TLS over it. They are read at the rate of the client's address.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::read_rate::ReadRate;
use crate::tls::TlsStream;

/// The source and the destination of the bytes.
pub(crate) enum TransportStream {
    Plain(TcpStream),
    Tls(Box<dyn TlsStream>),
}

pub(crate) struct Transport {
    stream: TransportStream,
    read_rate: ReadRate,
}

impl Transport {
    pub(crate) fn new(stream: TransportStream, read_rate: ReadRate) -> Self {
        Self { stream, read_rate }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, read_rate } = self.get_mut();
        ready!(read_rate.poll_due(context));
        let filled_before = to.filled().len();
        let read = match stream {
            TransportStream::Plain(socket) => Pin::new(socket).poll_read(context, to),
            TransportStream::Tls(stream) => Pin::new(stream).poll_read(context, to),
        };
        if read.is_ready() {
            read_rate.charge(to.filled().len() - filled_before);
        }
        read
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            TransportStream::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            TransportStream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            TransportStream::Plain(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            TransportStream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            TransportStream::Plain(socket) => socket.is_write_vectored(),
            TransportStream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            TransportStream::Plain(socket) => Pin::new(socket).poll_flush(context),
            TransportStream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            TransportStream::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            TransportStream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
