//! The refusal of a call before its body is read.
//!
//! Shape: the response waits for its delay and for the message of the call, which is read and dropped meanwhile. h2
//! counts the DATA frames of less than 256 bytes of a whole connection until they are read; one that arrives after its
//! body was dropped counts until the connection ends. Too many of them end the connection with `ENHANCE_YOUR_CALM`, and
//! with it the calls that were admitted.
//! Bounds: [`CALL_BYTES_MAX`] of a call are read, further bytes stay in its window. A response waits
//! [`REFUSAL_DELAY_MAX`] at most. The call's path and headers are freed first.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use api_keys::REFUSAL_DELAY_MAX;
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Response;

use crate::request_body::CALL_BYTES_MAX;

/// Why a call is refused, and how long its response must wait.
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) delay: Option<Duration>,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status, delay: None }
    }
}

/// A call that is refused, with its unread body.
pub(crate) struct RefusedCall {
    refusal: Refusal,
    body: Incoming,
}

impl RefusedCall {
    pub(crate) fn new(refusal: impl Into<Refusal>, body: Incoming) -> Self {
        Self { refusal: refusal.into(), body }
    }

    /// Returns the response when it is due.
    pub(crate) async fn respond(self, method: &str) -> Response<Body> {
        let Refusal { status, delay } = self.refusal;
        let due = Instant::now() + delay.unwrap_or_default();
        let mut body = RefusedBody { inner: self.body, discarded_bytes: 0 };
        // A client that is late with its message gets the response without it.
        let _ = timeout(REFUSAL_DELAY_MAX, body.discard_message(method)).await;
        let rest = async {
            body.discard_rest().await;
            pending::<()>().await;
        };
        // `rest` never completes, so this waits until `due`.
        let _ = timeout_at(due, rest).await;
        status.into_http()
    }
}

struct RefusedBody {
    inner: Incoming,
    discarded_bytes: usize,
}

impl RefusedBody {
    /// Discards the message of a call. For a subscription, discards only the first frame, because its requests do not
    /// end.
    async fn discard_message(&mut self, method: &str) {
        if matches!(method, "Subscribe" | "SubscribeDeshred") {
            self.discard_frame().await;
        } else {
            self.discard_rest().await;
        }
    }

    async fn discard_rest(&mut self) {
        while self.discard_frame().await {}
    }

    /// Discards the next frame. Returns false at the end, after an error, and at the bound.
    async fn discard_frame(&mut self) -> bool {
        if self.discarded_bytes >= CALL_BYTES_MAX {
            return false;
        }
        let frame = poll_fn(|context| Pin::new(&mut self.inner).poll_frame(context)).await;
        let Some(Ok(frame)) = frame else { return false };
        self.discarded_bytes += frame.data_ref().map_or(0, Bytes::len);
        true
    }
}
