//! A WebSocket client for comparisons: text messages, one connection, blocking.
//!
//! Bounds: [`TIMEOUT`] for the handshake; a read waits as long as its caller says. Frames of up to [`FRAME_BYTES_MAX`].
//! Not here: compression, and messages in several frames, which no node sends unasked.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::rig::clock::now;

const TIMEOUT: Duration = Duration::from_secs(10);
const FRAME_BYTES_MAX: u64 = 16 * 1024 * 1024;

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// An open connection to a node.
pub(crate) struct WebSocket {
    socket: TcpStream,
    /// Bytes that are read and not used yet.
    unread: Vec<u8>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Received {
    Message(Value),
    /// It closed the connection, with this code.
    Closed(u16),
    /// No message arrived before the timeout.
    Nothing,
}

impl WebSocket {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let mut socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        let head = format!(
            "GET / HTTP/1.1\r\nhost: {address}\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
        );
        socket.write_all(head.as_bytes())?;
        let mut opened = Self { socket, unread: Vec::new() };
        let end = loop {
            if let Some(end) = opened.unread.windows(4).position(|at| at == b"\r\n\r\n") {
                break end;
            }
            ensure!(opened.fill()?, "the connection was closed before it was opened");
        };
        let head: Vec<u8> = opened.unread.drain(..end + 4).collect();
        let status = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
        ensure!(status.contains(" 101 "), "{status}");
        Ok(opened)
    }

    /// Sends a text in one frame. Its mask is zero, which is as valid as any other.
    pub(crate) fn send(&mut self, text: &str) -> Result<()> {
        self.send_frame(0x80 | TEXT, text.as_bytes())
    }

    /// Sends a frame with this first byte.
    pub(crate) fn send_frame(&mut self, first: u8, payload: &[u8]) -> Result<()> {
        let mut frame = vec![first];
        match payload.len() {
            len @ ..=125 => frame.push(0x80 | len as u8),
            len @ ..=65_535 => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        self.socket.write_all(&frame).context("write a frame")
    }

    /// Waits for the next message for at most this time. Replies to pings.
    pub(crate) fn receive(&mut self, wait: Duration) -> Result<Received> {
        let started = now();
        loop {
            if let Some((opcode, payload)) = self.take_frame()? {
                match opcode {
                    TEXT => {
                        let text = String::from_utf8_lossy(&payload).into_owned();
                        let message = serde_json::from_str(&text).unwrap_or(Value::String(text));
                        return Ok(Received::Message(message));
                    }
                    CLOSE => {
                        let code = payload
                            .get(..2)
                            .map_or(0, |code| u16::from_be_bytes([code[0], code[1]]));
                        return Ok(Received::Closed(code));
                    }
                    PING => self.send_frame(0x80 | PONG, &payload)?,
                    _ => {}
                }
                continue;
            }
            let Some(left) = wait.checked_sub(started.elapsed()).filter(|left| !left.is_zero())
            else {
                return Ok(Received::Nothing);
            };
            self.socket.set_read_timeout(Some(left))?;
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return Ok(Received::Closed(0)),
                Err(err) if matches!(err.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(Received::Nothing);
                }
                Err(err) if err.kind() == ErrorKind::ConnectionReset => {
                    return Ok(Received::Closed(0));
                }
                Err(err) => return Err(err.into()),
            }
        }
    }

    /// Reads more bytes. False at the end.
    fn fill(&mut self) -> std::io::Result<bool> {
        let mut bytes = [0; 64 * 1024];
        let count = self.socket.read(&mut bytes)?;
        self.unread.extend_from_slice(&bytes[..count]);
        Ok(count > 0)
    }

    /// Takes a frame, if all of it was read: its opcode and its payload.
    fn take_frame(&mut self) -> Result<Option<(u8, Vec<u8>)>> {
        let Some((head, len)) = frame_len(&self.unread) else { return Ok(None) };
        if len > FRAME_BYTES_MAX {
            bail!("a frame of {len} bytes");
        }
        let end = head + len as usize;
        if self.unread.len() < end {
            return Ok(None);
        }
        let opcode = self.unread[0] & 0xf;
        let payload = self.unread[head..end].to_vec();
        self.unread.drain(..end);
        Ok(Some((opcode, payload)))
    }
}

/// Returns the length of a frame's head and of its payload in bytes, if the head was read.
fn frame_len(bytes: &[u8]) -> Option<(usize, u64)> {
    let short = bytes.get(1)? & 0x7f;
    match short {
        126 => Some((4, u64::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?])))),
        127 => {
            let len = <[u8; 8]>::try_from(bytes.get(2..10)?).ok()?;
            Some((10, u64::from_be_bytes(len)))
        }
        len => Some((2, u64::from(len))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_once_its_head_is_there() {
        assert_eq!(frame_len(&[0x81]), None);
        assert_eq!(frame_len(&[0x81, 5]), Some((2, 5)));
        assert_eq!(frame_len(&[0x81, 126, 1]), None);
        assert_eq!(frame_len(&[0x81, 126, 1, 0]), Some((4, 256)));
        assert_eq!(frame_len(&[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]), Some((10, 65_536)));
    }
}
