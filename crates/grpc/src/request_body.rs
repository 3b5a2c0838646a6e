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

use crate::broker::Broker;
use crate::counters::Event;

/// Bytes of a body: the longest message has some 100.
pub(crate) const CALL_BYTES_MAX: usize = 16 << 10;

/// A body that counts its bytes.
pub(crate) struct RequestBody {
    inner: Incoming,
    broker: Arc<Broker>,
    received: Share,
    deadline: Pin<Box<Sleep>>,
}

impl RequestBody {
    pub(crate) fn new(inner: Incoming, broker: Arc<Broker>, client: ClientId) -> Self {
        let received = broker.shares.incoming.empty_share(client);
        let deadline = Box::pin(tokio::time::sleep(broker.config.message_timeout()));
        Self { inner, broker, received, deadline }
    }

    fn count(&mut self, bytes: usize) -> Result<(), Status> {
        if self.received.units() + bytes > CALL_BYTES_MAX {
            return Err(Status::out_of_range(format!(
                "the request has more than {CALL_BYTES_MAX} bytes"
            )));
        }
        self.broker.count_incoming(&mut self.received, bytes)
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
                return Poll::Ready(Some(Err(self.broker.late_status())));
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

impl Broker {
    /// Adds the bytes of a request to the share of its client.
    pub(crate) fn count_incoming(&self, share: &mut Share, bytes: usize) -> Result<(), Status> {
        crate::shares::grow(share, bytes)
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
