//! The body of a call, with its incomplete message counted.
//!
//! Bounds: `Config::incoming_bytes_max` for the incomplete messages of all calls. A call beyond it ends with
//! `RESOURCE_EXHAUSTED`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tonic::Status;

use crate::broker::Broker;
use crate::compression::HEAD_BYTES;
use crate::counters::Event;

/// A body that counts the bytes of its incomplete message.
pub(crate) struct RequestBody {
    inner: Incoming,
    broker: Arc<Broker>,
    head: [u8; HEAD_BYTES],
    /// Bytes of the incomplete message, head included.
    received: usize,
}

impl RequestBody {
    pub(crate) fn new(inner: Incoming, broker: Arc<Broker>) -> Self {
        Self { inner, broker, head: [0; HEAD_BYTES], received: 0 }
    }

    fn count(&mut self, mut data: &[u8]) -> Result<(), Status> {
        let before = self.received;
        while !data.is_empty() {
            let wanted = match self.received.checked_sub(HEAD_BYTES) {
                None => HEAD_BYTES - self.received,
                Some(body) => self.message_bytes() - body,
            };
            let taken = wanted.min(data.len());
            for (at, byte) in (self.received..HEAD_BYTES).zip(&data[..taken]) {
                self.head[at] = *byte;
            }
            self.received += taken;
            data = &data[taken..];
            if self.received == HEAD_BYTES + self.message_bytes() && self.received >= HEAD_BYTES {
                self.received = 0;
            }
        }
        let counters = &self.broker.counters;
        counters.add(Event::RequestBytes, self.received as u64);
        counters.add(Event::RequestBytesDone, before as u64);
        let incoming =
            counters.sum(Event::RequestBytes).saturating_sub(counters.sum(Event::RequestBytesDone));
        let bytes_max = self.broker.config.incoming_bytes_max;
        if self.received > 0 && incoming > bytes_max as u64 {
            return Err(Status::resource_exhausted(format!(
                "the incomplete requests of all clients have more than {bytes_max} bytes \
                 (grpc.incoming_bytes_max)"
            )));
        }
        Ok(())
    }

    /// The length in the head, which is complete if it is needed.
    fn message_bytes(&self) -> usize {
        let [_, length @ ..] = self.head;
        u32::from_be_bytes(length) as usize
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = frame.map_err(|err| Status::unavailable(err.to_string()))?;
        if let Some(data) = frame.data_ref() {
            self.count(data)?;
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

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.broker.counters.add(Event::RequestBytesDone, self.received as u64);
    }
}
