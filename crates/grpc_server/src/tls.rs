//! TLS of connections: the handshake, within its time, and the stream after it.
//!
//! In: a socket. Out: the stream that carries HTTP/2.
//! Bounds: `Config::handshake_timeout_ms`, from the connection to the end of the handshake. The number of concurrent
//! handshakes is the acceptor's. A client that speaks HTTP/2 without TLS gets a GOAWAY that says so, within a second.
//! Not here: certificates and ciphers. A program without TLS needs no library for it.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use crate::counters::Event;
use crate::go_away::{INADEQUATE_SECURITY, NO_STREAM, SETTINGS, encode_go_away};

/// The first byte of a TLS connection: a record of the handshake (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 0x16;
/// The first byte of HTTP/2 without TLS (RFC 9113, 3.4).
const HTTP2_PREFACE: u8 = b'P';
/// The response to a client without TLS.
const NEEDS_TLS: &str = "this port speaks TLS: use https:// URL";
/// Time for that client to read it.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes that are read and dropped from that client meanwhile.
const REFUSAL_DRAIN_BYTES_MAX: usize = 64 << 10;

/// Encrypts the connections of a server.
pub trait TlsAcceptor: Send + Sync {
    /// The stream after the handshake.
    ///
    /// Errors: `TimedOut` if the handshake took longer than `within`; any other if it failed.
    fn accept(&self, socket: TcpStream, peer: IpAddr, within: Duration) -> TlsHandshake<'_>;
}

/// A handshake in progress: the stream after it.
pub type TlsHandshake<'a> =
    Pin<Box<dyn Future<Output = io::Result<Box<dyn TlsStream>>> + Send + 'a>>;

/// A stream after the handshake.
pub trait TlsStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> TlsStream for T {}

/// The stream after the handshake, or how the connection ended.
pub(crate) async fn handshake(
    acceptor: &dyn TlsAcceptor,
    mut socket: TcpStream,
    peer: IpAddr,
    deadline: Instant,
) -> Result<Box<dyn TlsStream>, Event> {
    let mut first = [0];
    let peeked = timeout_at(deadline, socket.peek(&mut first)).await;
    let first = match peeked.map_err(|_| Event::Late)? {
        Ok(1..) => first[0],
        Ok(0) | Err(_) => return Err(Event::TlsFailed),
    };
    if first != TLS_HANDSHAKE {
        if first == HTTP2_PREFACE {
            // It may have left already.
            let _ = timeout(REFUSAL_TIMEOUT, refuse(&mut socket)).await;
        }
        return Err(Event::TlsFailed);
    }
    let within = deadline.saturating_duration_since(Instant::now());
    acceptor.accept(socket, peer, within).await.map_err(|err| {
        tracing::debug!(%err, "a TLS handshake of gRPC failed");
        if err.kind() == io::ErrorKind::TimedOut { Event::Late } else { Event::TlsFailed }
    })
}

/// Tells a client that it must use TLS. If a socket is closed with unread bytes, the system resets it, and the client
/// might never see the frame.
async fn refuse(socket: &mut TcpStream) -> io::Result<()> {
    let go_away = encode_go_away(NO_STREAM, INADEQUATE_SECURITY, NEEDS_TLS);
    socket.write_all(&[&SETTINGS[..], &go_away[..]].concat()).await?;
    socket.shutdown().await?;
    let mut buffer = [0; 1024];
    let mut bytes_left = REFUSAL_DRAIN_BYTES_MAX;
    loop {
        match (socket.read(&mut buffer).await?, bytes_left) {
            (0, _) => return Ok(()),
            (read, left) if read > left => return Ok(()),
            (read, left) => bytes_left = left - read,
        }
    }
}
