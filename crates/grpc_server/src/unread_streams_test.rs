//! Streams of two clients on one connection, without sockets: which of them end at the limit of unread streams.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use clients::ClientId;
use hyper::body::{Body, Frame};
use tonic::Code;

use crate::config::Config;
use crate::request_budget::BYTES_PER_S;
use crate::requests::{FRAME_BYTES_MAX, Requests};
use crate::server_state::ServerState;
use crate::unread_streams::{UNREAD_STREAMS_MAX, UnreadStreams};

const MANY: ClientId = ClientId(1);
const FEW: ClientId = ClientId(2);

/// The frames of a message of 2 MiB. The next one is always ready.
#[derive(Default)]
struct LongMessage {
    frames: usize,
}

impl Body for LongMessage {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut bytes = vec![0; FRAME_BYTES_MAX];
        if self.frames == 0 {
            bytes[1..5].copy_from_slice(&(2_u32 << 20).to_be_bytes());
        }
        self.frames += 1;
        Poll::Ready(Some(Ok(Frame::data(bytes.into()))))
    }
}

/// A client that sends nothing.
struct Silence;

impl Body for Silence {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

/// Two clients beyond their rates, on one connection.
struct SharedConnection {
    state: Arc<ServerState>,
    unread: Arc<UnreadStreams>,
}

impl SharedConnection {
    fn new() -> Self {
        let state = Arc::new(ServerState::new(Config::default()));
        let unread = Arc::new(UnreadStreams::default());
        for client in [MANY, FEW] {
            state.request_budget.charge(client, 30 * BYTES_PER_S as usize);
            unread.record_call(client);
        }
        Self { state, unread }
    }

    fn open(&self, client: ClientId) -> Requests<LongMessage> {
        self.open_body(client, LongMessage::default())
    }

    fn open_body<B>(&self, client: ClientId, body: B) -> Requests<B>
    where
        B: Body<Data = Bytes, Error = Infallible> + Unpin,
    {
        Requests::new(body, Arc::clone(&self.state), client, None)
            .with_unread_streams(Arc::clone(&self.unread))
    }
}

/// Returns the status with which a stream ends while its request is handled, or `None` if it waits.
fn poll_end_ahead<B>(requests: &mut Requests<B>) -> Option<Code>
where
    B: Body<Data = Bytes, Error = Infallible> + Unpin,
{
    match requests.poll_ahead(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => None,
        Poll::Ready(status) => Some(status.code()),
    }
}

/// Returns the status with which a stream ends, or `None` if it waits.
fn poll_end(requests: &mut Requests<LongMessage>) -> Option<Code> {
    match requests.poll_next(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => None,
        Poll::Ready(Some(Err(status))) => Some(status.code()),
        Poll::Ready(_) => panic!("it reads beyond the rate"),
    }
}

#[tokio::test]
async fn streams_beyond_the_rate_wait_up_to_the_limit_of_their_connection() {
    let connection = SharedConnection::new();
    let mut many: Vec<_> = (0..2 * UNREAD_STREAMS_MAX).map(|_| connection.open(MANY)).collect();
    let ends: Vec<_> = many.iter_mut().map(poll_end).collect();
    assert_eq!(ends[..UNREAD_STREAMS_MAX], [None; UNREAD_STREAMS_MAX]);
    let refused = [Some(Code::ResourceExhausted); UNREAD_STREAMS_MAX];
    assert_eq!(ends[UNREAD_STREAMS_MAX..], refused);
    many.truncate(UNREAD_STREAMS_MAX);
    let mut few = connection.open(FEW);
    assert_eq!(poll_end(&mut few), None, "the other client has fewer");
    let ends: Vec<_> = many.iter_mut().map(poll_end).collect();
    assert_eq!(ends.iter().flatten().count(), 1, "{ends:?}");
}

#[tokio::test]
async fn a_stream_is_read_ahead_while_its_request_is_handled() {
    let connection = SharedConnection::new();
    let mut streams: Vec<_> = (0..=UNREAD_STREAMS_MAX).map(|_| connection.open(MANY)).collect();
    let ends: Vec<_> = streams.iter_mut().map(poll_end_ahead).collect();
    assert_eq!(ends[..UNREAD_STREAMS_MAX], [None; UNREAD_STREAMS_MAX]);
    assert_eq!(ends[UNREAD_STREAMS_MAX], Some(Code::ResourceExhausted));
}

#[tokio::test]
async fn silent_streams_of_a_client_whose_share_is_full_are_not_unread() {
    let connection = SharedConnection::new();
    let mut share = connection.state.shares.incoming.empty_share(MANY);
    while share.try_grow(FRAME_BYTES_MAX).is_ok() {}
    let silent = (0..2 * UNREAD_STREAMS_MAX).map(|_| connection.open_body(MANY, Silence));
    let mut silent: Vec<_> = silent.collect();
    assert_eq!(silent.iter_mut().find_map(poll_end_ahead), None);
    let mut streams: Vec<_> = (0..=UNREAD_STREAMS_MAX).map(|_| connection.open(MANY)).collect();
    let ends: Vec<_> = streams.iter_mut().map(poll_end_ahead).collect();
    assert_eq!(ends[..UNREAD_STREAMS_MAX], [None; UNREAD_STREAMS_MAX]);
    assert_eq!(ends[UNREAD_STREAMS_MAX], Some(Code::ResourceExhausted));
    assert!(streams.iter().all(|requests| requests.body.frames == 1), "a frame of each is read");
    drop(share);
    // Its rate allows nothing more, so only the frame that was read ahead is received.
    assert_eq!(poll_end(&mut streams[0]), None);
    assert_eq!(connection.state.shares.incoming.units_in_use(), FRAME_BYTES_MAX);
}
