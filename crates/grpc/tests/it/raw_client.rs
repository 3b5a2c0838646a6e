//! A client of HTTP/2 that writes and reads frames as they are.

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::ledger::ScriptedLedger;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A setting: the window of each stream.
pub(crate) const INITIAL_WINDOW_SIZE: u8 = 4;
/// Settings with which the server may send no response.
pub(crate) const CLOSED_WINDOW: [u8; 6] = [0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0];

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut frame = length.to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A message as gRPC frames it.
pub(crate) fn encode_message(message: &impl Message) -> Vec<u8> {
    let content = message.encode_to_vec();
    let mut all = vec![0];
    all.extend_from_slice(&u32::try_from(content.len()).expect("short").to_be_bytes());
    all.extend_from_slice(&content);
    all
}

/// The headers of a call of `Subscribe`.
pub(crate) fn subscribe_headers() -> Vec<u8> {
    call_headers("Subscribe")
}

/// The bytes of a text in headers.
fn text(text: &str) -> Vec<u8> {
    let mut all = vec![u8::try_from(text.len()).expect("short")];
    all.extend_from_slice(text.as_bytes());
    all
}

/// The headers of a call with an API key.
pub(crate) fn call_headers_with_key(method: &str, key: &str) -> Vec<u8> {
    let mut block = call_headers(method);
    block.push(0x00);
    block.extend(text("x-token"));
    block.extend(text(key));
    block
}

/// The headers of a call, without a table.
pub(crate) fn call_headers(method: &str) -> Vec<u8> {
    // `:method POST`, `:scheme http`, then names of the static table with values: path, authority, content-type.
    let mut block = vec![0x83, 0x86, 0x04];
    block.extend(text(&format!("/geyser.Geyser/{method}")));
    block.push(0x01);
    block.extend(text("localhost"));
    block.extend([0x0f, 0x10]);
    block.extend(text("application/grpc"));
    block.push(0x00);
    block.extend(text("te"));
    block.extend(text("trailers"));
    block
}

pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// A client that writes frames as they are.
pub(crate) struct RawClient(pub(crate) TcpStream);

impl RawClient {
    pub(crate) async fn connect(ledger: &ScriptedLedger, settings: &[u8]) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        // Small, so that a client that does not read stops soon.
        socket.set_recv_buffer_size(16 << 10).expect("a size");
        socket.set_send_buffer_size(16 << 10).expect("a size");
        let mut client = Self(socket.connect(ledger.address()).await.expect("it listens"));
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        client.send(&frame(SETTINGS, 0, 0, settings)).await;
        client
    }

    /// The server may have ended the connection.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).await;
    }

    /// `None` if the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.0.read_exact(&mut payload).await.ok()?;
        Some(Frame { kind, flags, stream: u32::from_be_bytes(stream), payload })
    }

    /// Returns the next frame of a kind that is not an acknowledgement.
    pub(crate) async fn next_frame(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.next().await?;
            if frame.kind == kind && frame.flags & ACK == 0 {
                return Some(frame);
            }
        }
    }

    /// The error with which the server ends the connection.
    pub(crate) async fn goaway(&mut self) -> Option<u8> {
        let frame = self.next_frame(GOAWAY).await?;
        frame.payload.get(7).copied()
    }

    /// Waits until the server has handled the sent frames.
    pub(crate) async fn round_trip(&mut self) {
        self.send(&frame(PING, 0, 0, b"finished")).await;
        loop {
            let frame = self.next().await.expect("the connection works");
            if frame.kind == PING && frame.flags & ACK != 0 && frame.payload == b"finished" {
                return;
            }
        }
    }
}
