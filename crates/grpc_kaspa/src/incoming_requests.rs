//! The requests of a stream. Its session takes them one by one; a few kilobytes are read ahead while it is busy.

use std::fmt::Display;
use std::future::poll_fn;
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
    /// Whether the last poll of the session waits for a request.
    is_awaited: bool,
}

impl<B> IncomingRequests<B>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    pub(crate) fn new(requests: Requests<B>) -> Self {
        Self { requests: Some(requests), is_awaited: false }
    }

    /// Returns the next request for the session; `None` after the last.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<EncodedRequest, Status>>> {
        let Some(requests) = &mut self.requests else { return Poll::Ready(None) };
        let next = requests.poll_next(context);
        self.is_awaited = next.is_pending();
        next
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
    use std::pin::{Pin, pin};
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
