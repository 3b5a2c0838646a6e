//! The requests of a subscription: from the bytes of its body to messages.
//!
//! Shape: it reads a frame, and the next one when the bytes so far are due at the rate of the client
//! (`request_budget`).
//! Bounds: `Config::request_bytes_max` for a message, before and after it is decompressed; `Config::incoming_bytes_max`
//! for the messages of all clients that are incomplete or not decoded, of which a client has a share;
//! `Config::message_timeout_ms` from the first wait for the rest of a message; pauses in which the node does not read do
//! not count. The buffer of a message is freed with it.
//! (tonic's decoder has buffers for each stream that stay as large as the largest message.)

use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use clients::{ClientId, Share};
use hyper::body::{Body, Incoming};
use tokio::time::Sleep;
use tonic::Status;

use crate::compression::{Compression, HEAD_BYTES};
use crate::counters::Event;
use crate::message_buffer::{Blocks, MessageBuffer};
use crate::server_state::ServerState;

/// The requests of one stream.
pub struct Requests<B = Incoming> {
    body: B,
    state: Arc<ServerState>,
    client: ClientId,
    compression: Option<Compression>,
    /// The incomplete message, head included.
    buffer: MessageBuffer,
    /// The bytes of the buffer.
    buffered: Share,
    /// Until the bytes that were read are due.
    pause: Option<Pin<Box<Sleep>>>,
    /// Deadline of the incomplete message.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// A message that is not decoded.
pub struct EncodedRequest {
    /// The head of the message, and its content.
    pub message: Blocks,
    /// `None` if the message is not compressed.
    pub compression: Option<Compression>,
    /// The share of its client that its bytes count in.
    pub share: Share,
}

impl EncodedRequest {
    /// Returns the bytes of the content.
    pub fn content_len(&self) -> usize {
        self.message.len().saturating_sub(HEAD_BYTES)
    }
}

impl<B> Requests<B>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    /// Reads the requests of a body. `compression` is that of its headers.
    pub fn new(
        body: B,
        state: Arc<ServerState>,
        client: ClientId,
        compression: Option<Compression>,
    ) -> Self {
        let buffered = state.shares.incoming.empty_share(client);
        let buffer = MessageBuffer::default();
        Self { body, state, client, compression, buffer, buffered, pause: None, deadline: None }
    }

    /// The next request; `None` after the last.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<EncodedRequest, Status>>> {
        loop {
            let message = self.take_message();
            let message = message.inspect_err(|_| self.count_refusal())?;
            if let Some(message) = message {
                self.deadline = None;
                return Poll::Ready(Some(Ok(message)));
            }
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(frame)) => {
                    let frame = frame.map_err(|err| Status::unavailable(err.to_string()))?;
                    if let Ok(data) = frame.into_data() {
                        self.receive(&data)?;
                    }
                }
                Poll::Ready(None) if self.buffer.is_empty() => return Poll::Ready(None),
                Poll::Ready(None) => {
                    self.count_refusal();
                    let status = Status::internal("the requests end within a message");
                    return Poll::Ready(Some(Err(status)));
                }
                Poll::Pending if self.buffer.is_empty() => return Poll::Pending,
                Poll::Pending => {
                    let time = self.state.config.message_timeout();
                    let sleep = || Box::pin(tokio::time::sleep(time));
                    let deadline = self.deadline.get_or_insert_with(sleep);
                    if deadline.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    return Poll::Ready(Some(Err(self.state.late_status())));
                }
            }
        }
    }

    /// Adds the bytes of a frame, and charges them to the client.
    fn receive(&mut self, data: &[u8]) -> Result<(), Status> {
        self.state.count_incoming(&mut self.buffered, data.len())?;
        self.buffer.push(data);
        let delay = self.state.request_budget.charge_received(self.client, data.len());
        if let Some(deadline) = &mut self.deadline {
            // The node does not read meanwhile.
            let later = deadline.deadline() + delay;
            deadline.as_mut().reset(later);
        }
        self.pause = (!delay.is_zero()).then(|| Box::pin(tokio::time::sleep(delay)));
        Ok(())
    }

    fn count_refusal(&self) {
        self.state.counters.record(Event::RequestRefused);
    }

    /// Takes a complete message out of the buffer.
    fn take_message(&mut self) -> Result<Option<EncodedRequest>, Status> {
        let Some([flag, length @ ..]) = self.buffer.first::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(length) as usize;
        let bytes_max = self.state.config.request_bytes_max;
        if length > bytes_max {
            return Err(Status::out_of_range(format!(
                "a request has {length} bytes, at most {bytes_max} are allowed \
                 (grpc.request_bytes_max)"
            )));
        }
        let compression = match (flag, self.compression) {
            (0, _) => None,
            (1, Some(compression)) => Some(compression),
            (1, None) => {
                return Err(Status::internal("a compressed request without grpc-encoding"));
            }
            _ => {
                return Err(Status::internal(format!("a request has the flag {flag}, not 0 or 1")));
            }
        };
        let message_bytes = HEAD_BYTES + length;
        if self.buffer.len() < message_bytes {
            return Ok(None);
        }
        let message = self.buffer.split_first(message_bytes);
        let share = self.buffered.split(message_bytes);
        Ok(Some(EncodedRequest { message, compression, share }))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::task::Waker;
    use std::time::Duration;

    use hyper::body::Frame;
    use tokio::time::Instant;

    use super::*;
    use crate::config::Config;
    use crate::request_budget::BYTES_PER_S;

    const HOSTILE: ClientId = ClientId(1);
    const HONEST: ClientId = ClientId(2);
    /// Bytes of the longest frame that every client may send.
    const FRAME_BYTES: usize = 16 << 10;

    /// A client that always has a frame: it sends messages of a length, one after another.
    struct Messages {
        bytes: Bytes,
        /// Bytes of the current message that are sent.
        sent: usize,
        frames: usize,
        /// Messages that are not sent to their end.
        left: usize,
    }

    impl Messages {
        fn new(length: u32, messages: usize) -> Self {
            let mut bytes = vec![0];
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.resize(HEAD_BYTES + length as usize, 7);
            Self { bytes: bytes.into(), sent: 0, frames: 0, left: messages }
        }
    }

    impl Body for Messages {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            let end = self.bytes.len().min(self.sent + FRAME_BYTES);
            let data = self.bytes.slice(self.sent..end);
            self.sent = end;
            self.frames += 1;
            if self.sent == self.bytes.len() {
                self.sent = 0;
                self.left -= 1;
            }
            Poll::Ready(Some(Ok(Frame::data(data))))
        }
    }

    /// Takes messages until the next one is not due. Returns their number.
    fn take_messages(requests: &mut Requests<Messages>) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        let mut taken = 0;
        while let Poll::Ready(Some(message)) = requests.poll_next(&mut context) {
            message.expect("a valid message");
            taken += 1;
        }
        taken
    }

    #[tokio::test]
    async fn frames_beyond_the_rate_of_a_client_are_not_read() {
        const STREAMS: usize = 20;
        let state = Arc::new(ServerState::new(Config::default()));
        let started = Instant::now();
        let stream = |client, length, messages| {
            Requests::new(Messages::new(length, messages), Arc::clone(&state), client, None)
        };
        let mut hostile: Vec<_> = (0..STREAMS).map(|_| stream(HOSTILE, 4_000_000, 100)).collect();
        let mut honest = stream(HONEST, 50, 3);
        let mut messages = 0;
        for requests in &mut hostile {
            messages += take_messages(requests);
            // The other client is within its rate all the time.
            assert_eq!(state.request_budget.charge_received(HONEST, 1), Duration::ZERO);
        }
        assert!(hostile.iter_mut().all(|requests| take_messages(requests) == 0), "all wait");
        assert_eq!(take_messages(&mut honest), 3, "the other client is read to its end");
        // Those of a second at once, those that became due, and of each stream the frame that exceeded the rate.
        let frames: usize = hostile.iter().map(|requests| requests.body.frames).sum();
        let seconds = 1.0 + started.elapsed().as_secs_f64();
        let due = (seconds * BYTES_PER_S as f64) as usize / FRAME_BYTES;
        assert!(frames <= due + messages + STREAMS + 1, "{frames} frames, {due} are due");
        assert!(frames * FRAME_BYTES >= BYTES_PER_S as usize, "{frames} frames");
    }
}
