//! The refusal of a call before its body is read.
//!
//! Shape: the response waits for its delay and for the first message of the call, which is read and dropped meanwhile.
//! It does not wait for the end of the requests: a call that streams them may never send it. h2 counts the DATA frames
//! of less than 256 bytes of a whole connection until they are read; one that arrives after its body was dropped counts
//! until the connection ends. Too many of them end the connection with `ENHANCE_YOUR_CALM`, and with it the calls that
//! were admitted. The frame that ends the requests does not count.
//! Bounds: [`CALL_BYTES_MAX`] of a call are read. Then its body is dropped, so that the rest does not stay in the window
//! of the connection, which other clients may use. A response waits for its message for [`REFUSAL_DELAY_MAX`] at most,
//! and until it is due for [`REFUSAL_WAIT_MAX`](crate::request_budget::REFUSAL_WAIT_MAX) at most. The call's path and
//! headers are freed first.
//! Not here: a client that sends short frames after it has its response. It ends its own connection.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use api_keys::REFUSAL_DELAY_MAX;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Incoming};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Response;

use crate::compression::HEAD_BYTES;
use crate::request_body::CALL_BYTES_MAX;

/// Why a call is refused, and how long its response must wait.
pub struct Refusal {
    /// The status that the client gets.
    pub status: Status,
    /// The time until the response. `None`: it is sent at once.
    pub delay: Option<Duration>,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status, delay: None }
    }
}

/// A call that is refused, with its unread body.
pub struct RefusedCall {
    refusal: Refusal,
    body: Incoming,
}

impl RefusedCall {
    /// Refuses a call with this body.
    pub fn new(refusal: impl Into<Refusal>, body: Incoming) -> Self {
        Self { refusal: refusal.into(), body }
    }

    /// Returns the response when it is due.
    pub(crate) async fn respond(self) -> Response<Body> {
        let Refusal { status, delay } = self.refusal;
        let due = Instant::now() + delay.unwrap_or_default();
        RefusedBody { inner: self.body, discarded_bytes: 0 }.discard_until(due).await;
        status.into_http()
    }
}

struct RefusedBody<B> {
    inner: B,
    discarded_bytes: usize,
}

impl<B: HttpBody<Data = Bytes> + Unpin> RefusedBody<B> {
    /// Discards frames until the response is due. At the bound the body is dropped.
    async fn discard_until(mut self, due: Instant) {
        // A client that is late with its message gets the response without it.
        let _ = timeout(REFUSAL_DELAY_MAX, self.discard_message()).await;
        let rest = async move {
            while self.discard_frame().await.is_some() {}
            drop(self);
            pending::<()>().await;
        };
        // `rest` never completes, so this waits until `due`.
        let _ = timeout_at(due, rest).await;
    }

    /// Discards the first message: its head, which has its length, and its content.
    async fn discard_message(&mut self) {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        while let Some(data) = self.discard_frame().await {
            let missing = HEAD_BYTES - head.len();
            head.extend_from_slice(data.get(..missing).unwrap_or(&data));
            let Some([_, length @ ..]) = head.first_chunk::<HEAD_BYTES>() else { continue };
            let length = u32::from_be_bytes(*length) as usize;
            if self.discarded_bytes >= HEAD_BYTES.saturating_add(length) {
                return;
            }
        }
    }

    /// Discards the next frame, and returns its data, which is empty for trailers. Returns `None` at the end, after an
    /// error, and at the bound.
    async fn discard_frame(&mut self) -> Option<Bytes> {
        if self.discarded_bytes >= CALL_BYTES_MAX {
            return None;
        }
        let frame = poll_fn(|context| Pin::new(&mut self.inner).poll_frame(context)).await?.ok()?;
        let data = frame.into_data().unwrap_or_default();
        self.discarded_bytes += data.len();
        Some(data)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::sync::{Arc, Weak};
    use std::task::{Context, Poll, Waker};

    use hyper::body::Frame;

    use super::*;

    /// A body whose requests do not end: without a frame it waits forever.
    struct OpenBody(VecDeque<Bytes>);

    impl HttpBody for OpenBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.pop_front() {
                Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                None => Poll::Pending,
            }
        }
    }

    /// Discards the first message of these frames. Returns the number of frames that are left, or `None` if the message
    /// is not complete.
    fn discard_message(frames: &[&[u8]]) -> Option<usize> {
        let frames = frames.iter().map(|frame| Bytes::copy_from_slice(frame)).collect();
        let mut body = RefusedBody { inner: OpenBody(frames), discarded_bytes: 0 };
        let is_discarded = {
            let discarded = std::pin::pin!(body.discard_message());
            discarded.poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        is_discarded.then_some(body.inner.0.len())
    }

    #[test]
    fn the_first_message_is_discarded_without_the_end_of_the_requests() {
        let message: &[u8] = &[0, 0, 0, 0, 2, 7, 7];
        let next: &[u8] = b"next";
        assert_eq!(discard_message(&[message, next]), Some(1));
        assert_eq!(discard_message(&[&message[..5], &message[5..], next]), Some(1));
        assert_eq!(discard_message(&[&message[..2], &message[2..6], &[7], next]), Some(1));
        assert_eq!(discard_message(&[&[0; 5], next]), Some(1), "an empty message");
        assert_eq!(discard_message(&[&[], message, next]), Some(1));
        assert_eq!(discard_message(&[&message[..6]]), None);
        assert_eq!(discard_message(&[]), None);
    }

    #[test]
    fn a_message_beyond_the_bound_is_not_read_to_its_end() {
        let part = [255; 1 << 10];
        let frames = [&part[..]; CALL_BYTES_MAX / (1 << 10) + 5];
        assert_eq!(discard_message(&frames), Some(5));
    }

    /// Frames without an end, and whether they are dropped.
    struct EndlessBody {
        _dropped: Arc<()>,
    }

    impl HttpBody for EndlessBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[255; 1 << 10])))))
        }
    }

    #[tokio::test]
    async fn the_rest_of_a_long_body_leaves_the_window_before_the_response_is_due() {
        let alive = Arc::new(());
        let is_dropped: Weak<()> = Arc::downgrade(&alive);
        let body = RefusedBody { inner: EndlessBody { _dropped: alive }, discarded_bytes: 0 };
        let due = Instant::now() + Duration::from_secs(600);
        let mut waiting = std::pin::pin!(body.discard_until(due));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert_eq!(is_dropped.strong_count(), 0, "the response waits, but the body does not");
    }
}
