//! The requests of a subscription: from the bytes of its body to messages.
//!
//! Bounds: `Config::request_bytes_max` for a message, before and after it is decompressed; `Config::incoming_bytes_max`
//! for the messages of all clients that are incomplete or not decoded, of which a client has a share;
//! `Config::message_timeout_ms` from the first byte of a message to its last. The buffer of a message is freed with it.
//! (tonic's decoder has buffers for each stream that stay as large as the largest message.)

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use clients::{ClientId, Share};
use hyper::body::{Body, Incoming};
use tokio::time::Sleep;
use tonic::Status;

use crate::broker::Broker;
use crate::compression::{Compression, HEAD_BYTES};
use crate::counters::Event;

pub(crate) struct Requests {
    body: Incoming,
    broker: Arc<Broker>,
    compression: Option<Compression>,
    /// The incomplete message, head included.
    buffer: Vec<u8>,
    /// The bytes of the buffer.
    buffered: Share,
    /// Deadline of the incomplete message.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// A message that is not decoded.
pub(crate) struct EncodedRequest {
    pub(crate) bytes: Vec<u8>,
    /// `None` if the message is not compressed.
    pub(crate) compression: Option<Compression>,
    /// The share of its client that its bytes count in.
    pub(crate) share: Share,
}

impl Requests {
    pub(crate) fn new(
        body: Incoming,
        broker: Arc<Broker>,
        client: ClientId,
        compression: Option<Compression>,
    ) -> Self {
        let buffered = broker.shares.incoming.empty_share(client);
        Self { body, broker, compression, buffer: Vec::new(), buffered, deadline: None }
    }

    /// The next request; `None` after the last.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<EncodedRequest, Status>>> {
        loop {
            let message = self.take_message();
            let message = message.inspect_err(|_| self.count_refusal())?;
            if let Some(message) = message {
                self.deadline = None;
                return Poll::Ready(Some(Ok(message)));
            }
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(frame)) => {
                    let frame = frame.map_err(|err| Status::unavailable(err.to_string()))?;
                    if let Ok(data) = frame.into_data() {
                        self.broker.count_incoming(&mut self.buffered, data.len())?;
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Poll::Ready(None) if self.buffer.is_empty() => return Poll::Ready(None),
                Poll::Ready(None) => {
                    self.count_refusal();
                    let status = Status::internal("the requests end within a message");
                    return Poll::Ready(Some(Err(status)));
                }
                Poll::Pending if self.buffer.is_empty() => return Poll::Pending,
                Poll::Pending => {
                    let time = self.broker.config.message_timeout();
                    let sleep = || Box::pin(tokio::time::sleep(time));
                    let deadline = self.deadline.get_or_insert_with(sleep);
                    if deadline.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    return Poll::Ready(Some(Err(self.broker.late_status())));
                }
            }
        }
    }

    fn count_refusal(&self) {
        self.broker.counters.record(Event::RequestRefused);
    }

    /// Takes a complete message out of the buffer.
    fn take_message(&mut self) -> Result<Option<EncodedRequest>, Status> {
        let Some((head, rest)) = self.buffer.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let [flag, length @ ..] = *head;
        let length = u32::from_be_bytes(length) as usize;
        let bytes_max = self.broker.config.request_bytes_max;
        if length > bytes_max {
            return Err(Status::out_of_range(format!(
                "a request has {length} bytes, at most {bytes_max} are allowed \
                 (grpc.request_bytes_max)"
            )));
        }
        let compression = match (flag, self.compression) {
            (0, _) => None,
            (1, Some(compression)) => Some(compression),
            (1, None) => {
                return Err(Status::internal("a compressed request without grpc-encoding"));
            }
            _ => {
                return Err(Status::internal(format!("a request has the flag {flag}, not 0 or 1")));
            }
        };
        if rest.len() < length {
            return Ok(None);
        }
        let next = self.buffer.split_off(HEAD_BYTES + length);
        let mut bytes = std::mem::replace(&mut self.buffer, next);
        bytes.drain(..HEAD_BYTES);
        // The buffer has space for more than the bytes that its share counts.
        bytes.shrink_to_fit();
        let share = self.buffered.split(HEAD_BYTES + length);
        Ok(Some(EncodedRequest { bytes, compression, share }))
    }
}
