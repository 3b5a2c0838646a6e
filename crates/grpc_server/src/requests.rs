//! The requests of a subscription: from the bytes of its body to messages.
//!
//! Shape: it reads a frame, and the next one when the bytes so far are due at the rate of the client
//! (`request_budget`). Otherwise it reads on only while the buffer has less than [`READ_AHEAD_BYTES`]; the frames of a
//! client that sends more stay in the window of the connection (`unread_streams`).
//! Bounds: `Config::request_bytes_max` for a message, before and after it is decompressed; `Config::incoming_bytes_max`
//! for the messages of all clients that are incomplete or not decoded, of which a client has a share;
//! `Config::message_timeout_ms` from the first wait for the rest of a message; pauses in which the node does not read do
//! not count. The buffer of a message is freed with it.
//! (tonic's decoder has buffers for each stream that stay as large as the largest message.)

use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use clients::{ClientId, Share};
use hyper::body::{Body, Incoming};
use tokio::time::Sleep;
use tonic::Status;

use crate::compression::{Compression, HEAD_BYTES};
use crate::counters::Event;
use crate::message_buffer::{Blocks, MessageBuffer};
use crate::server_state::ServerState;
use crate::unread_streams::{UnreadStream, UnreadStreams};

/// Bytes of a stream that are read although its bytes so far are not due, or an earlier request is handled. They
/// show whether its client has more to send. A larger value reads more of a client than its rate.
const READ_AHEAD_BYTES: usize = 4 << 10;
/// Bytes of the longest frame that a client may send, by the default of HTTP/2.
const FRAME_BYTES_MAX: usize = 16 << 10;

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
    has_ended: bool,
    /// The unread streams of its connection.
    unread_streams: Arc<UnreadStreams>,
    /// Counts the stream while its frames stay in the window of the connection.
    unread: Option<UnreadStream>,
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
        Self {
            body,
            state,
            client,
            compression,
            buffer: MessageBuffer::default(),
            buffered,
            pause: None,
            deadline: None,
            has_ended: false,
            unread_streams: Arc::default(),
            unread: None,
        }
    }

    /// Sets the unread streams of its connection. Without them it is the only stream.
    pub fn with_unread_streams(self, unread_streams: Arc<UnreadStreams>) -> Self {
        Self { unread_streams, ..self }
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
            match self.poll_receive(context)? {
                Poll::Ready(true) => {}
                Poll::Ready(false) if self.buffer.is_empty() => return Poll::Ready(None),
                Poll::Ready(false) => {
                    self.count_refusal();
                    let status = Status::internal("the requests end within a message");
                    return Poll::Ready(Some(Err(status)));
                }
                // The time in which the node does not read does not count.
                Poll::Pending if self.buffer.is_empty() || self.unread.is_some() => {
                    return Poll::Pending;
                }
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

    /// Reads on while an earlier request is handled, up to 4 KiB and within the client's share, so that only a client
    /// that sends more counts as unread. Returns the status that ends the stream.
    pub fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        while self.buffer.len() < READ_AHEAD_BYTES && self.buffered.can_grow(FRAME_BYTES_MAX) {
            match ready!(self.poll_receive(context)) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(status) => return Poll::Ready(status),
            }
        }
        self.poll_refused(context)
    }

    /// Receives the next frame if the bytes so far are due. Returns `false` at the end of the requests.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Status>> {
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(context).is_ready() {
                self.pause = None;
            } else if self.buffer.len() >= READ_AHEAD_BYTES {
                return self.poll_refused(context).map(Err);
            }
        }
        self.unread = None;
        if self.has_ended {
            return Poll::Ready(Ok(false));
        }
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else {
            self.has_ended = true;
            return Poll::Ready(Ok(false));
        };
        let frame = frame.map_err(|err| Status::unavailable(err.to_string()))?;
        if let Ok(data) = frame.into_data() {
            self.receive(&data)?;
        }
        Poll::Ready(Ok(true))
    }

    /// Counts the stream as unread. Returns the status that ends it if other clients need the window.
    fn poll_refused(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        let waker = context.waker();
        let unread = self.unread.get_or_insert_with(|| self.unread_streams.add(self.client, waker));
        if !unread.is_refused(waker) {
            return Poll::Pending;
        }
        self.state.counters.record(Event::SubscriptionRefused);
        Poll::Ready(UnreadStream::refusal())
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
    use std::future::poll_fn;
    use std::task::Waker;
    use std::time::Duration;

    use hyper::body::Frame;
    use tokio::time::Instant;

    use super::*;
    use crate::config::Config;
    use crate::request_budget::BYTES_PER_S;

    const HOSTILE: ClientId = ClientId(1);
    const HONEST: ClientId = ClientId(2);

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
            let end = self.bytes.len().min(self.sent + FRAME_BYTES_MAX);
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

    /// A client that waits before each frame of its message. Meanwhile its other streams use up a second of its rate.
    struct SlowMessage {
        message: Messages,
        state: Arc<ServerState>,
        /// Frames after which it is silent.
        frames_max: usize,
        has_waited: bool,
    }

    impl Body for SlowMessage {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.message.frames == self.frames_max {
                return Poll::Pending;
            }
            self.has_waited = !self.has_waited;
            if self.has_waited {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.state.request_budget.charge(HOSTILE, BYTES_PER_S as usize);
            Pin::new(&mut self.message).poll_frame(context)
        }
    }

    /// Returns a stream whose client sends up to `frames_max` frames of a message that has `frames`. The node may read
    /// the first two at once, and each later one after a second.
    fn slow_requests(frames: usize, frames_max: usize) -> Requests<SlowMessage> {
        let config = Config { message_timeout_ms: 300, ..Config::default() };
        let state = Arc::new(ServerState::new(config));
        let message = Messages::new((frames * FRAME_BYTES_MAX - HEAD_BYTES) as u32, 1);
        let body =
            SlowMessage { message, state: Arc::clone(&state), frames_max, has_waited: false };
        Requests::new(body, state, HOSTILE, None)
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_of_reading_extend_the_deadline_of_a_message() {
        const FRAMES: usize = 6;
        let started = Instant::now();
        let mut requests = slow_requests(FRAMES, FRAMES);
        let message = poll_fn(|context| requests.poll_next(context)).await.expect("a message");
        let content_len = message.map(|message| message.content_len()).map_err(|err| err.code());
        assert_eq!(content_len, Ok(FRAMES * FRAME_BYTES_MAX - HEAD_BYTES));
        let elapsed = started.elapsed();
        assert!(elapsed >= Duration::from_secs(FRAMES as u64 - 2), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_late_after_the_pauses_and_the_timeout() {
        // Without a pause, and with one.
        for (frames_max, pauses) in [(1, 0), (2, 1)] {
            let started = Instant::now();
            let mut requests = slow_requests(6, frames_max);
            let message = poll_fn(|context| requests.poll_next(context)).await.expect("an error");
            let error = message.map(|message| message.content_len()).map_err(|err| err.code());
            assert_eq!(error, Err(tonic::Code::DeadlineExceeded));
            let timeout = Duration::from_millis(300 + 1_000 * pauses);
            let elapsed = started.elapsed();
            let late = elapsed.checked_sub(timeout);
            assert!(late.is_some_and(|late| late < Duration::from_millis(20)), "{elapsed:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn frames_beyond_the_rate_of_a_client_are_not_read() {
        const STREAMS: usize = 20;
        let state = Arc::new(ServerState::new(Config::default()));
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
        // Those of a second at once, and of each stream the frame that exceeded the rate.
        let frames: usize = hostile.iter().map(|requests| requests.body.frames).sum();
        let due = BYTES_PER_S as usize / FRAME_BYTES_MAX;
        assert!(frames <= due + messages + STREAMS + 1, "{frames} frames, {due} are due");
        assert!(frames * FRAME_BYTES_MAX >= BYTES_PER_S as usize, "{frames} frames");
    }
}
