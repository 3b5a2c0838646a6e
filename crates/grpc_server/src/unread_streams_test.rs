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
        let body = LongMessage::default();
        Requests::new(body, Arc::clone(&self.state), client, None)
            .with_unread_streams(Arc::clone(&self.unread))
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
    let mut context = Context::from_waker(Waker::noop());
    let ends = streams.iter_mut().map(|requests| match requests.poll_ahead(&mut context) {
        Poll::Pending => None,
        Poll::Ready(status) => Some(status.code()),
    });
    let ends: Vec<_> = ends.collect();
    assert_eq!(ends[..UNREAD_STREAMS_MAX], [None; UNREAD_STREAMS_MAX]);
    assert_eq!(ends[UNREAD_STREAMS_MAX], Some(Code::ResourceExhausted));
}
