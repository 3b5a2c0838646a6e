//! A stream of gRPC as the connection of a session.
//!
//! Reading: each message of the client is a frame of WebSocket. A compressed message is a frame for each part of its
//! content, so it is decompressed only as far as the session reads it. Writing: the payloads of data frames are
//! messages with their prefix. A ping is answered here, because the pings of HTTP/2 show whether the client is
//! connected. A close frame becomes the status of the stream. A poll of the session that has used up its budget reads
//! and writes nothing more (`http_server::poll_budget`).
//! Bounds: one message of the client, compressed, within its share (`grpc_server::Requests`); [`PART_BYTES`] of its
//! content.

use std::io::{self, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use clients::Share;
use grpc_server::{EncodedRequest, HEAD_BYTES};
use http_server::poll_budget;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tonic::Status;

use crate::end_status::{status_from_close, status_from_frame};
use crate::incoming_requests::IncomingRequests;
use crate::outgoing::Outgoing;
use crate::server_frames::{FrameEvent, ReadFrames, ServerFrames};

/// Bytes of a compressed message's content that are read at once, in some 50 microseconds.
const PART_BYTES: usize = 16 << 10;

/// The bit of a frame that is the last one of its message.
const FINAL: u8 = 0x80;
const CONTINUATION: u8 = 0;
const BINARY: u8 = 2;
/// A frame with a pong. Its mask is zero, like that of all frames here, so payloads are not changed.
const PONG: [u8; 6] = [FINAL | 10, 0x80, 0, 0, 0, 0];

/// The connection of a session. Dropping it ends the stream.
pub(crate) struct SessionIo {
    requests: Arc<Mutex<IncomingRequests>>,
    outgoing: Arc<Outgoing>,
    frames: ServerFrames,
    /// The rest of a frame's head that the session has not read.
    head: Bytes,
    /// The rest of the payload of that frame.
    payload: Bytes,
    /// The share of the client that counts the message while it is read.
    share: Option<Share>,
    /// The rest of that message, if it is compressed.
    compressed: Option<CompressedMessage>,
    /// Pings of the session that are not answered.
    pings: usize,
    has_client_ended: bool,
}

struct CompressedMessage {
    content: Box<dyn Read + Send>,
    /// The opcode of the next frame: binary for the first one, then continuation.
    opcode: u8,
}

impl SessionIo {
    pub(crate) fn new(requests: Arc<Mutex<IncomingRequests>>, outgoing: Arc<Outgoing>) -> Self {
        Self {
            requests,
            outgoing,
            frames: ServerFrames::default(),
            head: Bytes::new(),
            payload: Bytes::new(),
            share: None,
            compressed: None,
            pings: 0,
            has_client_ended: false,
        }
    }

    /// Makes a message the next one that the session reads.
    fn start_message(&mut self, request: EncodedRequest) -> io::Result<()> {
        let EncodedRequest { message, compression, share } = request;
        let message = message.into_bytes_after(HEAD_BYTES);
        self.share = Some(share);
        match compression {
            None => self.set_frame(FINAL | BINARY, message.into()),
            Some(compression) => {
                let content = compression.decoder(message)?;
                self.compressed = Some(CompressedMessage { content, opcode: BINARY });
            }
        }
        Ok(())
    }

    /// Reads the next part of a compressed message. The last part is empty.
    fn read_part(&mut self, mut message: CompressedMessage) -> io::Result<()> {
        let mut part = Vec::new();
        message.content.by_ref().take(PART_BYTES as u64).read_to_end(&mut part)?;
        poll_budget::charge(part.len());
        let opcode = message.opcode;
        if part.is_empty() {
            self.set_frame(FINAL | opcode, Bytes::new());
        } else {
            self.set_frame(opcode, part.into());
            self.compressed = Some(CompressedMessage { opcode: CONTINUATION, ..message });
        }
        Ok(())
    }

    /// Sets the frame that the session reads next.
    fn set_frame(&mut self, first_byte: u8, payload: Bytes) {
        const MASKED: u8 = 0x80;
        let len = payload.len();
        let mut head = Vec::with_capacity(14);
        head.push(first_byte);
        match (u8::try_from(len), u16::try_from(len)) {
            (Ok(len @ ..126), _) => head.push(MASKED | len),
            (_, Ok(len)) => {
                head.push(MASKED | 126);
                head.extend_from_slice(&len.to_be_bytes());
            }
            _ => {
                head.push(MASKED | 127);
                head.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        head.extend_from_slice(&[0; 4]);
        self.head = head.into();
        self.payload = payload;
    }

    /// Sets the status of the stream to that of a close frame, unless one is set already.
    pub(crate) fn set_close(&self, frame: &CloseFrame) {
        self.outgoing.set_end(status_from_frame(frame.code, &frame.reason));
    }

    /// Sets the status of the stream, and returns it as the error of a read.
    fn fail(&self, status: Status) -> io::Error {
        let error = io::Error::other(status.message().to_owned());
        self.outgoing.set_end(status);
        error
    }
}

impl AsyncRead for SessionIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let rest = if this.head.is_empty() { &mut this.payload } else { &mut this.head };
            if !rest.is_empty() {
                let len = rest.len().min(to.remaining());
                to.put_slice(&rest[..len]);
                rest.advance(len);
                return Poll::Ready(Ok(()));
            }
            this.payload = Bytes::new();
            if poll_budget::is_spent() {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if this.outgoing.is_finished() {
                // The session waits for the client's end.
                return Poll::Ready(Ok(()));
            }
            if this.pings > 0 {
                this.pings -= 1;
                this.head = Bytes::from_static(&PONG);
                continue;
            }
            if let Some(message) = this.compressed.take() {
                let read = this.read_part(message);
                if let Err(error) = read {
                    let text = format!("a request cannot be decompressed: {error}");
                    return Poll::Ready(Err(this.fail(Status::internal(text))));
                }
                continue;
            }
            this.share = None;
            let next = this.requests.lock().poll_next(context);
            let Some(request) = ready!(next) else {
                this.has_client_ended = true;
                return Poll::Ready(Ok(()));
            };
            let request = request.map_err(|status| this.fail(status))?;
            this.start_message(request)?;
        }
    }
}

impl AsyncWrite for SessionIo {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if poll_budget::is_spent() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            let ReadFrames { consumed, event } = this.frames.read(rest)?;
            written += consumed;
            match event {
                None => {}
                Some(FrameEvent::Ping) => this.pings += 1,
                Some(FrameEvent::Close(payload)) => {
                    this.outgoing.set_end(status_from_close(&payload));
                }
                Some(FrameEvent::Data(part)) => match this.outgoing.poll_write(context, part) {
                    Poll::Ready(Ok(len)) => {
                        this.frames.consume_data(len);
                        written += len;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending if written == 0 => return Poll::Pending,
                    Poll::Pending => break,
                },
            }
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.finish(Status::ok(""));
        Poll::Ready(Ok(()))
    }
}

impl Drop for SessionIo {
    fn drop(&mut self) {
        self.outgoing.finish(if self.has_client_ended {
            Status::ok("")
        } else {
            Status::unavailable("the session has ended")
        });
    }
}
