//! The body of a call with one short message: counted, and with a deadline.
//!
//! Bounds: [`CALL_BYTES_MAX`] for a body, `Config::incoming_bytes_max` for those of all calls, of which a client has a
//! share, and `Config::message_timeout_ms` from the start of the call.
//! Not here: the requests of a subscription (`requests`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use clients::{ClientId, Share};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;
use tonic::Status;

use crate::counters::Event;
use crate::server_state::ServerState;

/// Bytes of a body: the longest message has some 100.
pub const CALL_BYTES_MAX: usize = 16 << 10;

/// A body that counts its bytes.
pub struct RequestBody {
    inner: Incoming,
    state: Arc<ServerState>,
    received: Share,
    deadline: Pin<Box<Sleep>>,
}

impl RequestBody {
    /// Counts the bytes of a body to its client.
    pub fn new(inner: Incoming, state: Arc<ServerState>, client: ClientId) -> Self {
        let received = state.shares.incoming.empty_share(client);
        let deadline = Box::pin(tokio::time::sleep(state.config.message_timeout()));
        Self { inner, state, received, deadline }
    }

    fn count(&mut self, bytes: usize) -> Result<(), Status> {
        if self.received.units() + bytes > CALL_BYTES_MAX {
            return Err(Status::out_of_range(format!(
                "the request has more than {CALL_BYTES_MAX} bytes"
            )));
        }
        self.state.count_incoming(&mut self.received, bytes)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(frame)) => frame,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {
                if self.deadline.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                return Poll::Ready(Some(Err(self.state.late_status())));
            }
        };
        let frame = frame.map_err(|err| Status::unavailable(err.to_string()))?;
        if let Some(data) = frame.data_ref() {
            self.count(data.len())?;
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl ServerState {
    /// Adds the bytes of a request to the share of its client.
    pub(crate) fn count_incoming(&self, share: &mut Share, bytes: usize) -> Result<(), Status> {
        crate::shares::grow_share(share, bytes)
            .inspect_err(|_| self.counters.record(Event::SubscriptionRefused))
    }

    /// Returns the status of a request that is late.
    pub(crate) fn late_status(&self) -> Status {
        self.counters.record(Event::MessageLate);
        Status::deadline_exceeded(format!(
            "a request was not complete within {} ms",
            self.config.message_timeout_ms
        ))
    }
}
