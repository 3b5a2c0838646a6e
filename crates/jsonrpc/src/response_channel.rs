//! The bounded channel of a response, from the task that computes it to the socket.
//!
//! [`ResponseSender`] is the task's end: it accepts bytes, encodes them, and reports when the channel is full.
//! [`ResponseReceiver`] is the socket's end: it receives chunks, wakes the task, and ends it when it is
//! dropped.
//! Bounds: [`CHUNKS_MAX`] chunks of [`RESULT_CHUNK_BYTES`] in the channel, and the bytes of one time slice in
//! the sender.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Wake;

use bytes::Bytes;
use cache::Entry;
use cpu_pool::{TaskEnd, Ticket};
use http_server::{
    BodyEncoder, COMPRESS_BYTES_MIN, ContentEncoding, HttpCounters, HttpEvent, RequestId,
};
use ledger::Slot;
use response_cache::{CachedResponse, RESULT_CHUNK_BYTES, ResultContext, Validator};
use tokio::sync::mpsc;

use crate::error::{RETRY_AFTER_S, RpcError};
use crate::slot_headers::StateSlot;
use crate::value_response::{ResponseMeta, ResponseOptions, ValueWriter};

/// Chunks that wait for the socket: at most a megabyte of a response, because a chunk is sent once it has
/// [`RESULT_CHUNK_BYTES`], and has at most about twice that.
const CHUNKS_MAX: usize = 4;

/// A part of a response.
pub(crate) struct BodyChunk {
    pub(crate) bytes: Bytes,
    /// Encoding of the response; equal in all its chunks.
    pub(crate) coding: ContentEncoding,
    pub(crate) is_last: bool,
    /// Seconds after which to retry, if every call of the body was refused because of overload: HTTP 429.
    pub(crate) retry_after_s: Option<u64>,
    /// Metadata, in the first chunk for an interface other than JSON-RPC.
    pub(crate) meta: Option<Box<ResponseMeta>>,
    /// The slot of the context of the only result, if it has one.
    pub(crate) context_slot: Option<Slot>,
    /// The slot of the response's state, in the first chunk for JSON-RPC.
    pub(crate) state: Option<StateSlot>,
}

impl BodyChunk {
    /// A part of a response that is not the last, without metadata.
    fn part(bytes: Bytes, coding: ContentEncoding) -> Self {
        Self {
            bytes,
            coding,
            is_last: false,
            retry_after_s: None,
            meta: None,
            context_slot: None,
            state: None,
        }
    }

    /// A whole response, which is not compressed.
    pub(crate) fn whole(
        bytes: Bytes,
        retry_after_s: Option<u64>,
        meta: Option<Box<ResponseMeta>>,
    ) -> Self {
        Self { is_last: true, retry_after_s, meta, ..Self::part(bytes, ContentEncoding::Plain) }
    }
}

/// Bytes of a response that are counted until they are written to the socket, or dropped.
struct UnsentBytes {
    bytes: Vec<u8>,
    metrics: Arc<HttpCounters>,
}

impl UnsentBytes {
    fn track(bytes: Vec<u8>, metrics: &Arc<HttpCounters>) -> Bytes {
        if bytes.is_empty() {
            return Bytes::new();
        }
        metrics.add(HttpEvent::UnsentAdded, bytes.capacity() as u64);
        Bytes::from_owner(Self { bytes, metrics: Arc::clone(metrics) })
    }
}

impl AsRef<[u8]> for UnsentBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for UnsentBytes {
    fn drop(&mut self) {
        self.metrics.add(HttpEvent::UnsentReleased, self.bytes.capacity() as u64);
    }
}

/// Output of the channel to the socket's side.
pub(crate) enum Received {
    Chunk(BodyChunk),
    /// The whole response from the cache, and the slot for its context. It is the only message.
    Cached(Arc<Entry<CachedResponse>>, u64),
    /// The task ended before the response was complete.
    Ended(Option<TaskEnd>),
}

enum ChannelMessage {
    Chunk(BodyChunk),
    Cached(Arc<Entry<CachedResponse>>, u64),
    Ended(TaskEnd),
}

/// Wakes the task, from elsewhere than the receiver. It does not keep the task alive.
#[derive(Default)]
pub(crate) struct TaskWaker(OnceLock<Weak<Ticket>>);

pub(crate) struct ResponseSender {
    sender: mpsc::Sender<ChannelMessage>,
    metrics: Arc<HttpCounters>,
    waker: Arc<TaskWaker>,
    coding: ContentEncoding,
    /// Created with the first chunk: a short response needs none.
    encoder: Option<BodyEncoder>,
    /// Chunks that wait for capacity of the channel.
    ready: VecDeque<BodyChunk>,
    has_sent: bool,
    retry_after_s: Option<u64>,
    /// The slot of the context of the only result.
    context_slot: Option<Slot>,
    /// Writes the value alone, for an interface other than JSON-RPC.
    value_writer: Option<Box<ValueWriter>>,
}

/// The socket's end.
pub(crate) struct ResponseReceiver {
    receiver: mpsc::Receiver<ChannelMessage>,
    ticket: Option<Arc<Ticket>>,
    waker: Arc<TaskWaker>,
    /// Id of the request in the log.
    pub(crate) request: RequestId,
}

/// Both ends for one response. It is encoded as `coding` if it is long enough; with `options` only its value is
/// sent.
pub(crate) fn response_channel(
    coding: ContentEncoding,
    options: Option<ResponseOptions>,
    request: RequestId,
    metrics: Arc<HttpCounters>,
) -> (ResponseSender, ResponseReceiver) {
    let (sender, receiver) = mpsc::channel(CHUNKS_MAX);
    let value_writer = options.map(|options| Box::new(ValueWriter::new(options)));
    let waker = Arc::<TaskWaker>::default();
    let receiver = ResponseReceiver { receiver, ticket: None, waker: Arc::clone(&waker), request };
    (
        ResponseSender {
            sender,
            metrics,
            waker,
            coding,
            encoder: None,
            ready: VecDeque::new(),
            has_sent: false,
            retry_after_s: None,
            context_slot: None,
            value_writer,
        },
        receiver,
    )
}

impl TaskWaker {
    /// Whether there is a task to wake: a task may start before its ticket is set.
    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(ticket) = self.0.get().and_then(Weak::upgrade) {
            ticket.wake();
        }
    }
}

impl ResponseSender {
    /// Sets the validator of a value that is too long to be hashed, for an interface other than JSON-RPC.
    pub(crate) fn set_validator(&mut self, validator: Option<Validator>) {
        if let Some(value_writer) = &mut self.value_writer {
            value_writer.set_validator(validator);
        }
    }

    /// Whether only the value is sent, without an envelope.
    pub(crate) fn is_value_only(&self) -> bool {
        self.value_writer.is_some()
    }

    /// Sets the context of the only result, before its first part.
    pub(crate) fn set_context(&mut self, context: Option<ResultContext>) {
        self.context_slot = context.map(|context| context.slot());
        if let Some(value_writer) = &mut self.value_writer {
            value_writer.set_context(context);
        }
    }

    /// Sets the JSON around a raw value that is sent alone. Returns false if it would be sent in an envelope.
    pub(crate) fn start_raw(&mut self, slot: Slot, fields: Vec<(&'static str, String)>) -> bool {
        let Some(value_writer) = &mut self.value_writer else { return false };
        value_writer.start_raw(slot, fields);
        true
    }

    /// Replaces a value that is sent alone by an error.
    pub(crate) fn refuse(&mut self, err: RpcError) {
        if let Some(value_writer) = &mut self.value_writer {
            value_writer.refuse(err);
        }
    }

    pub(crate) fn waker(&self) -> &Arc<TaskWaker> {
        &self.waker
    }

    /// Whether everything written was sent, and there is capacity for more.
    pub(crate) fn has_capacity(&mut self) -> bool {
        self.flush() && (self.sender.capacity() > 0 || self.sender.is_closed())
    }

    /// Sends waiting chunks while there is capacity; returns whether none is left. Buffered chunks of a value
    /// do not count.
    pub(crate) fn flush(&mut self) -> bool {
        if self.value_writer.as_ref().is_some_and(|value_writer| value_writer.is_buffering()) {
            return true;
        }
        while let Some(chunk) = self.ready.pop_front() {
            match self.sender.try_send(ChannelMessage::Chunk(chunk)) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(ChannelMessage::Chunk(chunk))) => {
                    self.ready.push_front(chunk);
                    return false;
                }
                // The receiver was dropped, which ends the task as well.
                Err(_) => self.ready.clear(),
            }
        }
        true
    }

    /// Writes a part of the response, or its last part.
    pub(crate) fn write(&mut self, bytes: Vec<u8>, is_last: bool) -> std::io::Result<()> {
        let bytes = match &mut self.value_writer {
            Some(value_writer) => value_writer.write_part(bytes, is_last),
            None => bytes,
        };
        let bytes = match &mut self.encoder {
            None if is_last && !self.has_sent && bytes.len() < COMPRESS_BYTES_MIN => {
                self.coding = ContentEncoding::Plain;
                bytes
            }
            None => self.encoder.insert(BodyEncoder::new(self.coding)?).encode(bytes)?,
            Some(encoder) => encoder.encode(bytes)?,
        };
        let rest = match self.encoder.take() {
            Some(encoder) if is_last => encoder.finish()?,
            encoder => {
                self.encoder = encoder;
                Vec::new()
            }
        };
        self.push(bytes, is_last && rest.is_empty());
        if !rest.is_empty() {
            self.push(rest, is_last);
        }
        self.has_sent = true;
        if let Some(meta) =
            self.value_writer.as_mut().and_then(|value_writer| value_writer.take_meta(is_last))
            && let Some(first) = self.ready.front_mut()
        {
            first.meta = Some(meta);
        }
        self.flush();
        Ok(())
    }

    /// Marks everything written from now on as overload errors.
    pub(crate) fn mark_overloaded(&mut self) {
        self.retry_after_s = Some(RETRY_AFTER_S);
    }

    fn push(&mut self, bytes: Vec<u8>, is_last: bool) {
        let mut bytes = UnsentBytes::track(bytes, &self.metrics);
        let coding = self.coding;
        let retry_after_s = self.retry_after_s;
        let context_slot = self.context_slot;
        if let Some(value_writer) = &mut self.value_writer {
            value_writer.record_sent(&bytes);
        }
        while bytes.len() > 2 * RESULT_CHUNK_BYTES {
            let bytes = bytes.split_to(RESULT_CHUNK_BYTES);
            let part = BodyChunk::part(bytes, coding);
            self.ready.push_back(BodyChunk { retry_after_s, context_slot, ..part });
        }
        if is_last || !bytes.is_empty() {
            let part = BodyChunk::part(bytes, coding);
            self.ready.push_back(BodyChunk { is_last, retry_after_s, context_slot, ..part });
        }
    }

    /// Sends a cached response. Nothing was written before, so there is capacity.
    pub(crate) fn send_cached(&mut self, entry: Arc<Entry<CachedResponse>>, slot: u64) {
        let _ = self.sender.try_send(ChannelMessage::Cached(entry, slot));
    }

    /// Sends why the response ends, if there is capacity. Otherwise the receiver sees that the channel is
    /// closed.
    pub(crate) fn send_end(&mut self, why: TaskEnd) {
        let _ = self.sender.try_send(ChannelMessage::Ended(why));
    }
}

impl ResponseReceiver {
    /// Sets the ticket of the task, which ends when the response is dropped.
    pub(crate) fn with_ticket(mut self, ticket: Ticket) -> Self {
        let ticket = self.ticket.insert(Arc::new(ticket));
        // It is the only ticket of this receiver.
        let _ = self.waker.0.set(Arc::downgrade(ticket));
        self
    }

    /// The next chunk. Cancel safe.
    pub(crate) async fn recv(&mut self) -> Received {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    pub(crate) fn poll_recv(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Received> {
        self.receiver.poll_recv(cx).map(|message| match message {
            Some(ChannelMessage::Chunk(chunk)) => {
                // Not for every chunk: the task should have enough to do when it continues.
                let is_low = !chunk.is_last && self.receiver.len() <= CHUNKS_MAX / 2;
                if let Some(ticket) = self.ticket.as_ref().filter(|_| is_low) {
                    ticket.wake();
                }
                Received::Chunk(chunk)
            }
            Some(ChannelMessage::Cached(entry, slot)) => Received::Cached(entry, slot),
            Some(ChannelMessage::Ended(why)) => Received::Ended(Some(why)),
            None => Received::Ended(None),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_until_their_last_part_is_dropped() {
        let metrics = Arc::new(HttpCounters::new());
        let unsent = || metrics.memory().map(|(_, bytes)| bytes);
        let bytes = UnsentBytes::track(vec![1; 100], &metrics);
        let part = bytes.slice(10..20);
        drop(bytes);
        assert_eq!(unsent(), [0, 0, 0, 100]);
        drop(part);
        assert_eq!(unsent(), [0, 0, 0, 0]);
    }
}
