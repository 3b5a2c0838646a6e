//! Pings and pongs that are read while a call runs.
//!
//! Input: the bytes of the socket. Output: the control frames before the next message.
//! Bounds: at most [`CONTROL_READ_BYTES`] of a message are read.
//! Not here: what the frames mean (`received`), messages (`message_reader`).

use std::future::{pending, poll_fn};
use std::pin::Pin;

use tokio::io::{AsyncRead, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::frame::coding::Control;

use super::partial_message::{FrameKind, Missing};
use super::received::Received;
use super::{CHUNK_BYTES, MessageReader, Progress};

/// Bytes that are read at once while a call runs: more than one control frame.
const CONTROL_READ_BYTES: usize = 256;
/// The first byte of a ping, and that of a pong.
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;

impl MessageReader {
    /// Returns the next ping or pong. Waits forever if something else comes before it: a part of a message, a close
    /// frame, an error or the end of the stream, which [`Self::next`] finds. The reservation of the last message stays.
    pub(crate) async fn next_control<IO: AsyncRead + Unpin>(&mut self, io: &mut IO) -> Received {
        loop {
            let is_between_frames = self.frame.is_none() && self.buffer.is_empty();
            if !is_between_frames && !self.has_ping_or_pong() {
                return pending().await;
            }
            let needs_bytes = match self.progress() {
                Ok(Progress::Received(received)) => return received,
                Ok(Progress::Missing(missing)) => matches!(missing, Missing::Bytes),
                Err(_) => false,
            };
            if !needs_bytes {
                return pending().await;
            }
            if self.read_since_yield >= CHUNK_BYTES {
                self.read_since_yield = 0;
                tokio::task::yield_now().await;
            }
            match self.read_control(io).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return pending().await,
            }
        }
    }

    /// Returns whether the buffer starts with a ping or a pong, or with the payload of one.
    fn has_ping_or_pong(&self) -> bool {
        match &self.frame {
            Some(frame) => {
                matches!(frame.kind, FrameKind::Control(Control::Ping | Control::Pong))
            }
            None => matches!(self.buffer.first(), Some(&(PING | PONG))),
        }
    }

    /// Reads to the buffer, which has less than a control frame. It grows only when the socket has something.
    async fn read_control<IO: AsyncRead + Unpin>(&mut self, io: &mut IO) -> std::io::Result<usize> {
        poll_fn(|cx| {
            let mut bytes = [0; CONTROL_READ_BYTES];
            let mut read = ReadBuf::new(&mut bytes);
            let polled = Pin::new(&mut *io).poll_read(cx, &mut read);
            polled.map_ok(|()| {
                let read = read.filled();
                self.buffer.extend_from_slice(read);
                self.read_since_yield += read.len();
                read.len()
            })
        })
        .await
    }
}
