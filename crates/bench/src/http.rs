//! An HTTP/1.1 client that costs as little as it can: one request, one answer, the same connection.
//!
//! Not here: redirects, chunked answers, TLS. What a node answers to JSON-RPC has a length.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes that are made room for at a time.
const READ_BYTES: usize = 16 * 1024;

/// A connection that is kept alive.
pub(crate) struct Connection {
    socket: TcpStream,
    buffer: Vec<u8>,
}

/// An answer. Its body is borrowed from the connection.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let socket =
            TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, buffer: Vec::with_capacity(READ_BYTES) })
    }

    /// Sends a whole request and waits for the whole answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.socket.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            if let Some(head) = Head::parse(&self.buffer)? {
                break head;
            }
            self.read().await?;
        };
        let end = head.bytes + head.body_bytes;
        while self.buffer.len() < end {
            self.read().await?;
        }
        Ok(Answer { status: head.status, body: &self.buffer[head.bytes..end] })
    }

    async fn read(&mut self) -> Result<()> {
        self.buffer.reserve(READ_BYTES);
        let read = self.socket.read_buf(&mut self.buffer).await?;
        ensure!(read > 0, "the connection was closed before its answer was whole");
        Ok(())
    }
}

/// What is needed of an answer's head.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    bytes: usize,
    body_bytes: usize,
}

impl Head {
    /// `None` while it is not whole.
    fn parse(buffer: &[u8]) -> Result<Option<Self>> {
        let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Ok(None);
        };
        let head = &buffer[..end];
        let status = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        let status = status.and_then(|digits| digits.parse().ok()).context("no HTTP status")?;
        let body_bytes = head
            .split(|byte| *byte == b'\n')
            .find_map(content_length)
            .context("an answer without Content-Length")?;
        Ok(Some(Self { status, bytes: end + 4, body_bytes }))
    }
}

fn content_length(line: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let name = line.get(..NAME.len())?;
    if !name.eq_ignore_ascii_case(NAME) {
        return None;
    }
    std::str::from_utf8(&line[NAME.len()..]).ok()?.trim().parse().ok()
}

/// The bytes of a JSON-RPC request.
pub(crate) fn call(address: SocketAddr, method: &str, params: &Value) -> Vec<u8> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    post(address, "/", &body.to_string())
}

/// The bytes of a POST of JSON.
pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nx: y\r\n\r\nhello";
        for end in 0..whole.len() - 5 {
            assert_eq!(Head::parse(&whole[..end]).unwrap(), None);
        }
        let head = Head { status: 200, bytes: whole.len() - 5, body_bytes: 12 };
        assert_eq!(Head::parse(whole).unwrap(), Some(head));
    }

    #[test]
    fn an_answer_without_a_length_is_an_error() {
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
