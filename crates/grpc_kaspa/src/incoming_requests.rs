//! The requests of a stream. Its session takes them one by one, each when it is due at the rate of its client; a few
//! kilobytes are read ahead while it is busy.

use std::fmt::Display;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use grpc_server::{EncodedRequest, Requests};
use hyper::body::{Body, Incoming};
use parking_lot::Mutex;
use tonic::Status;

use crate::outgoing::Outgoing;

/// The requests of a stream. Its session and [`run_session`] read them, both in the task of the stream.
pub(crate) struct IncomingRequests<B = Incoming> {
    /// `None` if the stream has ended before its session.
    requests: Option<Requests<B>>,
    /// The request that the session takes next.
    next: Option<WaitingRequest>,
    /// Whether the last poll of the session waits for a request.
    is_awaited: bool,
}

/// A request until it is due.
struct WaitingRequest {
    request: EncodedRequest,
    due: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<B> IncomingRequests<B>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    pub(crate) fn new(requests: Requests<B>) -> Self {
        Self { requests: Some(requests), next: None, is_awaited: false }
    }

    /// Returns the next request for the session, once it is due; `None` after the last.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<EncodedRequest, Status>>> {
        let Some(requests) = &mut self.requests else { return Poll::Ready(None) };
        let mut next = match self.next.take() {
            Some(next) => next,
            None => {
                let received = requests.poll_next(context);
                self.is_awaited = received.is_pending();
                let request = match received {
                    Poll::Ready(Some(Ok(request))) => request,
                    other => return other,
                };
                WaitingRequest { due: requests.wait_until_due(&request), request }
            }
        };
        if next.due.as_mut().poll(context).is_pending() {
            self.next = Some(next);
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(next.request)))
    }

    /// Reads ahead. Returns the status that ends the stream.
    fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        match &mut self.requests {
            Some(requests) => requests.poll_ahead(context),
            None => Poll::Pending,
        }
    }
}

/// Runs the session of a stream to its end.
///
/// While the session waits for something else, such as the reply of the upstream, a few kilobytes of requests are read
/// ahead. The stream ends if its client leaves, or if it sends more and other clients need the window of the connection.
/// Then the session is dropped where it delays no connection: releasing a large set of addresses takes as long as
/// indexing it.
pub(crate) async fn run_session<B>(
    session: impl Future<Output = ()> + Send + 'static,
    requests: Arc<Mutex<IncomingRequests<B>>>,
    outgoing: Arc<Outgoing>,
) where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    let mut session = Box::pin(session);
    let early_end = poll_fn(|context| {
        requests.lock().is_awaited = false;
        if session.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        let mut requests = requests.lock();
        if requests.is_awaited {
            // The end of the requests tells it that the client has left.
            return Poll::Pending;
        }
        if outgoing.poll_dropped(context).is_ready() {
            return Poll::Ready(Some(Status::cancelled("the client has left")));
        }
        requests.poll_ahead(context).map(Some)
    });
    let Some(status) = early_end.await else { return };
    // Its frames leave the window, and the client gets the status, before the session is dropped.
    requests.lock().requests = None;
    outgoing.set_end(status);
    outgoing.finish(Status::ok(""));
    tokio::task::spawn_blocking(move || drop(session));
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::task::Waker;
    use std::thread::{self, ThreadId};

    use clients::ClientId;
    use grpc_server::{Config, QueueBudget, ServerState, StreamId};
    use hyper::body::Frame;

    use super::*;
    use crate::outgoing::Piece;

    /// Frames of a kilobyte, then an error.
    struct Frames {
        left: usize,
        polls: Arc<AtomicUsize>,
    }

    impl Body for Frames {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            self.polls.fetch_add(1, Ordering::Relaxed);
            let Some(left) = self.left.checked_sub(1) else {
                return Poll::Ready(Some(Err(Status::aborted("the client has left"))));
            };
            self.left = left;
            // The head of a message that is longer than all frames.
            let mut bytes = vec![0; 1 << 10];
            bytes[2] = 1;
            Poll::Ready(Some(Ok(Frame::data(bytes.into()))))
        }
    }

    struct Stream {
        requests: Arc<Mutex<IncomingRequests<Frames>>>,
        outgoing: Arc<Outgoing>,
        polls: Arc<AtomicUsize>,
    }

    fn stream(frames: usize) -> Stream {
        let polls = Arc::new(AtomicUsize::new(0));
        let body = Frames { left: frames, polls: Arc::clone(&polls) };
        let state = Arc::new(ServerState::new(Config::default()));
        let requests = Requests::new(body, state, ClientId(1), None);
        let budget = Arc::new(QueueBudget::new(usize::MAX));
        let outgoing = Arc::new(Outgoing::new(StreamId(1), Arc::default(), budget));
        let requests = Arc::new(Mutex::new(IncomingRequests::new(requests)));
        Stream { requests, outgoing, polls }
    }

    fn poll_once(stream: &Stream, session: impl Future<Output = ()> + Send + 'static) -> Poll<()> {
        let requests = Arc::clone(&stream.requests);
        let running = pin!(run_session(session, requests, Arc::clone(&stream.outgoing)));
        running.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn requests_are_read_ahead_up_to_a_bound() {
        let stream = stream(1_000);
        assert!(poll_once(&stream, pending()).is_pending());
        let polls = stream.polls.load(Ordering::Relaxed);
        assert!((1..=16).contains(&polls), "{polls} frames");
        assert!(poll_once(&stream, pending()).is_pending());
        assert_eq!(stream.polls.load(Ordering::Relaxed), polls, "nothing more is read");
    }

    #[tokio::test]
    async fn a_client_that_leaves_ends_a_session_that_does_not_read() {
        let stream = stream(1);
        assert!(poll_once(&stream, pending()).is_ready());
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Piece::End(status)) = stream.outgoing.poll_piece(&mut context) else {
            panic!("the end comes")
        };
        assert!(status.message().contains("the client has left"), "{status}");
    }

    /// A client that always has a frame of empty messages.
    struct EmptyMessages;

    impl Body for EmptyMessages {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 1_000])))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn short_requests_beyond_the_rate_of_their_client_wait_on_all_its_streams() {
        let state = Arc::new(ServerState::new(Config::default()));
        let open = |client| {
            let requests = Requests::new(EmptyMessages, Arc::clone(&state), client, None);
            IncomingRequests::new(requests)
        };
        let mut context = Context::from_waker(Waker::noop());
        let mut take = |incoming: &mut IncomingRequests<EmptyMessages>, count_max: usize| {
            let mut count = 0;
            while count < count_max
                && let Poll::Ready(Some(request)) = incoming.poll_next(&mut context)
            {
                request.expect("a valid message");
                count += 1;
            }
            count
        };
        let mut streams: Vec<_> = (0..10).map(|_| open(ClientId(1))).collect();
        let taken: usize = streams.iter_mut().map(|incoming| take(incoming, 10_000)).sum();
        // The burst is 8 MiB, and each request counts as 4 KiB.
        assert!((1_900..2_200).contains(&taken), "{taken} requests");
        assert!(!streams[0].is_awaited, "requests are read ahead meanwhile");
        assert_eq!(take(&mut open(ClientId(2)), 100), 100, "another client does not wait");
        let next = poll_fn(|context| streams[0].poll_next(context)).await;
        assert!(matches!(next, Some(Ok(_))), "it is due later");
    }

    /// A session that waits for a reply, and says on which thread it is dropped.
    struct WaitingSession(mpsc::SyncSender<ThreadId>);

    impl Future for WaitingSession {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }

    impl Drop for WaitingSession {
        fn drop(&mut self) {
            // The test may have failed.
            let _ = self.0.send(thread::current().id());
        }
    }

    #[tokio::test]
    async fn a_client_that_leaves_after_many_requests_ends_its_session_on_another_thread() {
        let stream = stream(1_000);
        let (sender, dropped_on) = mpsc::sync_channel(1);
        let requests = Arc::clone(&stream.requests);
        let outgoing = Arc::clone(&stream.outgoing);
        let running = tokio::spawn(run_session(WaitingSession(sender), requests, outgoing));
        while stream.polls.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        // Its requests are not read any further, so they do not show that the client has left.
        stream.outgoing.drop_reader();
        running.await.expect("it ends");
        let dropped_on = dropped_on.recv().expect("it is dropped");
        assert_ne!(dropped_on, thread::current().id());
        assert!(stream.requests.lock().requests.is_none(), "its frames have left the window");
    }
}
