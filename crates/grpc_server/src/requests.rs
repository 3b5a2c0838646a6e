//! The requests of a subscription: from the bytes of its body to messages.
//!
//! Shape: it reads the next frame when the bytes so far are due at the rate of the client (`request_budget`). Otherwise
//! it reads ahead only while the buffer has less than [`READ_AHEAD_BYTES`]: further frames stay in the connection's
//! window.
//! Bounds: `Config::request_bytes_max` for a message, before and after it is decompressed; a share of
//! `Config::incoming_bytes_max` for a client's messages that are incomplete or not decoded, and one frame more;
//! `Config::message_timeout_ms` from the first wait for the rest of a message, without pauses in which the node does
//! not read, or in which its session does not wait for it. The buffer of a message is freed with it, whereas tonic's decoder keeps buffers of the largest message.
//! Not here: the streams whose frames stay in the window (`unread_streams`).

use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use clients::{ClientId, Share};
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, Sleep};
use tonic::Status;

use crate::compression::{Compression, HEAD_BYTES};
use crate::counters::Event;
use crate::message_buffer::{Blocks, MessageBuffer};
use crate::server_state::ServerState;
use crate::unread_streams::{UnreadStream, UnreadStreams};

/// Bytes of a stream that are read although the bytes before are not due, or while an earlier request is handled. They
/// show whether the client has more to send. A larger value exceeds the client's rate by more.
const READ_AHEAD_BYTES: usize = 4 << 10;
/// Bytes of HTTP/2's longest frame by default.
pub(crate) const FRAME_BYTES_MAX: usize = 16 << 10;

/// The requests of one stream.
pub struct Requests<B = Incoming> {
    pub(crate) body: B,
    state: Arc<ServerState>,
    client: ClientId,
    compression: Option<Compression>,
    /// The incomplete message, head included.
    buffer: MessageBuffer,
    /// A frame that was read ahead although the share of the client has no space for it.
    uncounted_frame: Option<Bytes>,
    /// The share of the client that the bytes of `buffer` count in.
    buffered: Share,
    /// Ends when the bytes that were read are due.
    pause: Option<Pin<Box<Sleep>>>,
    /// Deadline of the incomplete message.
    deadline: Option<Pin<Box<Sleep>>>,
    /// The time that the incomplete message has left, while the session does not wait for it.
    time_left: Option<Duration>,
    has_ended: bool,
    /// The unread streams of its connection.
    unread_streams: Arc<UnreadStreams>,
    /// Counts the stream while its frames stay in the window of the connection.
    unread: Option<UnreadStream>,
}

/// A message that is not decoded.
pub struct EncodedRequest {
    /// The head of the message, and its content.
    pub message: Blocks,
    /// `None` if the message is not compressed.
    pub compression: Option<Compression>,
    /// The share of its client that its bytes count in.
    pub share: Share,
}

impl EncodedRequest {
    /// Returns the bytes of the content.
    pub fn content_len(&self) -> usize {
        self.message.len().saturating_sub(HEAD_BYTES)
    }
}

impl<B> Requests<B>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    /// Reads the requests of a body. `compression` is that of its headers.
    pub fn new(
        body: B,
        state: Arc<ServerState>,
        client: ClientId,
        compression: Option<Compression>,
    ) -> Self {
        let buffered = state.shares.incoming.empty_share(client);
        Self {
            body,
            state,
            client,
            compression,
            buffer: MessageBuffer::default(),
            uncounted_frame: None,
            buffered,
            pause: None,
            deadline: None,
            time_left: None,
            has_ended: false,
            unread_streams: Arc::default(),
            unread: None,
        }
    }

    /// Sets the unread streams of the connection. Without them the stream counts as the only one.
    pub fn with_unread_streams(self, unread_streams: Arc<UnreadStreams>) -> Self {
        Self { unread_streams, ..self }
    }

    /// Returns the next request; `None` after the last.
    ///
    /// Errors: the status that ends the stream: a bound, a message that is late or invalid, or a broken connection.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<EncodedRequest, Status>>> {
        loop {
            let message = self.take_message();
            let message = message.inspect_err(|_| self.count_refusal())?;
            if let Some(message) = message {
                self.deadline = None;
                self.time_left = None;
                return Poll::Ready(Some(Ok(message)));
            }
            match self.poll_receive(context)? {
                Poll::Ready(true) => {}
                Poll::Ready(false) if self.buffer.is_empty() => return Poll::Ready(None),
                Poll::Ready(false) => {
                    self.count_refusal();
                    let status = Status::internal("the requests end within a message");
                    return Poll::Ready(Some(Err(status)));
                }
                // The time in which the node does not read does not count.
                Poll::Pending if self.buffer.is_empty() || self.unread.is_some() => {
                    return Poll::Pending;
                }
                Poll::Pending => {
                    let timeout = self.state.config.message_timeout();
                    let time_left = &mut self.time_left;
                    let sleep =
                        || Box::pin(tokio::time::sleep(time_left.take().unwrap_or(timeout)));
                    let deadline = self.deadline.get_or_insert_with(sleep);
                    if deadline.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    return Poll::Ready(Some(Err(self.state.late_status())));
                }
            }
        }
    }

    /// Charges a request to the rate of its client, as `Config::request_cost_bytes_min` at least, and waits until it is
    /// due.
    pub fn wait_until_due(
        &self,
        request: &EncodedRequest,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let state = Arc::clone(&self.state);
        let client = self.client;
        let bytes = request.content_len();
        Box::pin(async move {
            state.request_budget.wait_until_due(client, bytes, &state.counters).await;
        })
    }

    /// Reads ahead while an earlier request is handled: up to 4 KiB, or one frame if the client's share is full. A
    /// stream whose client sends more counts as unread. Completes only with the status that ends the stream.
    pub fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        if let Some(deadline) = self.deadline.take() {
            let left = deadline.deadline().saturating_duration_since(Instant::now());
            self.time_left = Some(left);
        }
        while self.buffer.len() < READ_AHEAD_BYTES && self.buffered.can_grow(FRAME_BYTES_MAX) {
            match ready!(self.poll_receive(context)) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(status) => return Poll::Ready(status),
            }
        }
        if self.buffer.len() < READ_AHEAD_BYTES && self.uncounted_frame.is_none() {
            self.unread = None;
            // It shows whether the client sends anything. Its copy does not share the memory of a longer buffer.
            match ready!(self.poll_frame(context)) {
                Ok(Some(data)) => self.uncounted_frame = Some(Bytes::copy_from_slice(&data)),
                Ok(None) => return Poll::Pending,
                Err(status) => return Poll::Ready(status),
            }
        }
        self.poll_refused(context)
    }

    /// Receives the next frame if the bytes so far are due. Returns `false` at the end of the requests.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Status>> {
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(context).is_ready() {
                self.pause = None;
            } else if self.buffer.len() >= READ_AHEAD_BYTES {
                return self.poll_refused(context).map(Err);
            }
        }
        self.unread = None;
        let data = match self.uncounted_frame.take() {
            Some(data) => Some(data),
            None => ready!(self.poll_frame(context))?,
        };
        let Some(data) = data else { return Poll::Ready(Ok(false)) };
        self.receive(&data)?;
        Poll::Ready(Ok(true))
    }

    /// Returns the bytes of the next frame of data that the client has sent; `None` at the end of the requests.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        while !self.has_ended {
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else {
                self.has_ended = true;
                break;
            };
            let frame = frame.map_err(|err| Status::unavailable(err.to_string()))?;
            if let Ok(data) = frame.into_data() {
                return Poll::Ready(Ok(Some(data)));
            }
        }
        Poll::Ready(Ok(None))
    }

    /// Counts the stream as unread. Returns the status that ends it if other clients need the window.
    fn poll_refused(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        let waker = context.waker();
        let unread = self.unread.get_or_insert_with(|| self.unread_streams.add(self.client, waker));
        if !unread.is_refused(waker) {
            return Poll::Pending;
        }
        self.state.counters.record(Event::SubscriptionRefused);
        Poll::Ready(UnreadStream::refusal())
    }

    /// Adds the bytes of a frame, and charges them to the client.
    fn receive(&mut self, data: &[u8]) -> Result<(), Status> {
        self.state.count_incoming(&mut self.buffered, data.len())?;
        self.buffer.push(data);
        let delay = self.state.request_budget.charge_received(self.client, data.len());
        if let Some(deadline) = &mut self.deadline {
            // The node does not read meanwhile.
            let later = deadline.deadline() + delay;
            deadline.as_mut().reset(later);
        }
        self.pause = (!delay.is_zero()).then(|| Box::pin(tokio::time::sleep(delay)));
        Ok(())
    }

    fn count_refusal(&self) {
        self.state.counters.record(Event::RequestRefused);
    }

    /// Takes a complete message out of the buffer.
    fn take_message(&mut self) -> Result<Option<EncodedRequest>, Status> {
        let Some([flag, length @ ..]) = self.buffer.first::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(length) as usize;
        let bytes_max = self.state.config.request_bytes_max;
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
        let message_bytes = HEAD_BYTES + length;
        if self.buffer.len() < message_bytes {
            return Ok(None);
        }
        let message = self.buffer.split_first(message_bytes);
        let share = self.buffered.split(message_bytes);
        Ok(Some(EncodedRequest { message, compression, share }))
    }
}
