//! Requests from bodies without sockets: the rate of a client, pauses of reading, and the deadline of a message.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use clients::ClientId;
use hyper::body::{Body, Frame};
use tokio::time::{Instant, timeout};

use crate::compression::HEAD_BYTES;
use crate::config::Config;
use crate::request_budget::BYTES_PER_S;
use crate::requests::{FRAME_BYTES_MAX, Requests};
use crate::server_state::ServerState;

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
    let body = SlowMessage { message, state: Arc::clone(&state), frames_max, has_waited: false };
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
async fn time_in_which_a_session_writes_is_not_in_the_timeout_of_a_message() {
    let mut requests = slow_requests(6, 1);
    let waiting = poll_fn(|context| requests.poll_next(context).map(drop));
    assert!(timeout(Duration::from_millis(200), waiting).await.is_err());
    // The session writes notifications to a slow client.
    let writing = poll_fn(|context| requests.poll_ahead(context));
    assert!(timeout(Duration::from_secs(10), writing).await.is_err());
    let started = Instant::now();
    let message = poll_fn(|context| requests.poll_next(context)).await.expect("an error");
    let error = message.map(|message| message.content_len()).map_err(|err| err.code());
    assert_eq!(error, Err(tonic::Code::DeadlineExceeded));
    let elapsed = started.elapsed();
    let expected = Duration::from_millis(90)..Duration::from_millis(120);
    assert!(expected.contains(&elapsed), "{elapsed:?}");
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
