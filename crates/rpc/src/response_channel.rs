//! The way of an answer from the thread that makes it to the socket: pieces, and not many of them.
//!
//! [`ResponseSender`] is the maker's end: it takes bytes, codes them, and says when there is no room. [`ResponseReceiver`] is
//! the socket's end: it takes pieces, lets the maker go on, and ends the maker's task when it is dropped.
//! Bounds: [`CHUNKS_MAX`] pieces of [`RESULT_CHUNK_BYTES`] between the two, and one step's bytes with the maker.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use cache::Entry;
use pool::{TaskEnd, Ticket};
use tokio::sync::mpsc;

use crate::cached_response::CachedResponse;
use crate::content_encoding::{BodyEncoder, COMPRESS_BYTES_MIN, ContentEncoding};
use crate::etag::Validator;
use crate::methods::RESULT_CHUNK_BYTES;
use crate::request_id::RequestId;
use crate::value_response::{ResponseMeta, ResponseOptions, ValueWriter};

/// Pieces that wait for the socket: a megabyte of an answer at most, since a piece is sent once it is
/// [`RESULT_CHUNK_BYTES`] long, and has at most about as much again.
const CHUNKS_MAX: usize = 4;

/// A part of an answer.
pub(crate) struct BodyChunk {
    pub(crate) bytes: Bytes,
    /// The same in all pieces of an answer.
    pub(crate) coding: ContentEncoding,
    pub(crate) is_last: bool,
    /// All of the answer is that there is too much to do.
    pub(crate) is_overload: bool,
    /// What is told before it, with the first piece for another door.
    pub(crate) meta: Option<Box<ResponseMeta>>,
}

/// What comes out at the socket's end.
pub(crate) enum Received {
    Chunk(BodyChunk),
    /// All of it, as it is kept, and the slot that it was made at. Nothing comes before or after.
    Cached(Arc<Entry<CachedResponse>>, u64),
    /// There is no more, and what there was is not all.
    Ended(Option<TaskEnd>),
}

enum ChannelMessage {
    Chunk(BodyChunk),
    Cached(Arc<Entry<CachedResponse>>, u64),
    Ended(TaskEnd),
}

/// Lets the maker go on, for somebody else than the socket's end; it keeps nothing running.
#[derive(Clone, Default)]
pub(crate) struct TaskWaker(Arc<OnceLock<Weak<Ticket>>>);

/// The maker's end.
pub(crate) struct ResponseSender {
    sender: mpsc::Sender<ChannelMessage>,
    waker: TaskWaker,
    coding: ContentEncoding,
    /// Made with the first piece: a short answer needs none.
    encoder: Option<BodyEncoder>,
    /// Pieces for which there was no room.
    ready: VecDeque<BodyChunk>,
    has_sent: bool,
    is_overload: bool,
    /// Takes the value out of the reply, for another door.
    value_writer: Option<Box<ValueWriter>>,
}

/// The socket's end.
pub(crate) struct ResponseReceiver {
    receiver: mpsc::Receiver<ChannelMessage>,
    ticket: Option<Arc<Ticket>>,
    waker: TaskWaker,
    /// What the log calls the request.
    pub(crate) request: RequestId,
}

/// Both ends for one answer, which is coded as `coding` if it is long enough; with `want` only its value.
pub(crate) fn response_channel(
    coding: ContentEncoding,
    want: Option<ResponseOptions>,
    request: RequestId,
) -> (ResponseSender, ResponseReceiver) {
    let (sender, receiver) = mpsc::channel(CHUNKS_MAX);
    let (encoder, ready, is_overload) = (None, VecDeque::new(), false);
    let bare = want.map(|want| Box::new(ValueWriter::new(want)));
    let (waker, has_sent) = (TaskWaker::default(), false);
    let taker = ResponseReceiver { receiver, ticket: None, waker: waker.clone(), request };
    (
        ResponseSender {
            sender,
            waker,
            coding,
            encoder,
            ready,
            has_sent,
            is_overload,
            value_writer: bare,
        },
        taker,
    )
}

impl TaskWaker {
    /// Whether there is somebody to wake: a maker that has begun at once may be ahead of its ticket.
    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    pub(crate) fn wake(&self) {
        if let Some(ticket) = self.0.get().and_then(Weak::upgrade) {
            ticket.wake();
        }
    }
}

impl ResponseSender {
    /// What stands for the hash of an answer for another door that is too long to be hashed.
    pub(crate) fn set_validator(&mut self, stamp: Option<Validator>) {
        if let Some(bare) = &mut self.value_writer {
            bare.set_validator(stamp);
        }
    }

    /// Wakes this maker.
    pub(crate) fn waker(&self) -> &TaskWaker {
        &self.waker
    }

    /// Whether all went that was written, and more can be.
    pub(crate) fn has_capacity(&mut self) -> bool {
        self.flush() && (self.sender.capacity() > 0 || self.sender.is_closed())
    }

    /// Sends what it can of what waits; whether all of it went. What is held back does not wait.
    pub(crate) fn flush(&mut self) -> bool {
        if self.value_writer.as_ref().is_some_and(|bare| bare.is_buffering()) {
            return true;
        }
        while let Some(piece) = self.ready.pop_front() {
            match self.sender.try_send(ChannelMessage::Chunk(piece)) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(ChannelMessage::Chunk(piece))) => {
                    self.ready.push_front(piece);
                    return false;
                }
                // Nobody is there any more: the ticket says so as well.
                Err(_) => self.ready.clear(),
            }
        }
        true
    }

    /// Takes a part of the answer, or its last part.
    pub(crate) fn write(&mut self, bytes: Vec<u8>, is_last: bool) -> std::io::Result<()> {
        let bytes = match &mut self.value_writer {
            Some(bare) => bare.extract_value(bytes, is_last),
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
        self.push(bytes.into(), is_last && rest.is_empty());
        if !rest.is_empty() {
            self.push(rest.into(), is_last);
        }
        self.has_sent = true;
        if let Some(told) = self.value_writer.as_mut().and_then(|bare| bare.take_meta(is_last))
            && let Some(first) = self.ready.front_mut()
        {
            first.meta = Some(told);
        }
        self.flush();
        Ok(())
    }

    /// All that is written from now on says that there is too much to do.
    pub(crate) fn mark_overloaded(&mut self) {
        self.is_overload = true;
    }

    fn push(&mut self, mut bytes: Bytes, is_last: bool) {
        let (coding, is_overload) = (self.coding, self.is_overload);
        if let Some(bare) = &mut self.value_writer {
            bare.record_sent(&bytes);
        }
        while bytes.len() > 2 * RESULT_CHUNK_BYTES {
            let bytes = bytes.split_to(RESULT_CHUNK_BYTES);
            self.ready.push_back(BodyChunk {
                bytes,
                coding,
                is_last: false,
                is_overload,
                meta: None,
            });
        }
        if is_last || !bytes.is_empty() {
            self.ready.push_back(BodyChunk { bytes, coding, is_last, is_overload, meta: None });
        }
    }

    /// Gives the answer as it is kept. Nothing was written before, so there is room.
    pub(crate) fn send_cached(&mut self, entry: Arc<Entry<CachedResponse>>, slot: u64) {
        let _ = self.sender.try_send(ChannelMessage::Cached(entry, slot));
    }

    /// Tells why there will be no more, if there is room for it; if not, the end is told by itself.
    pub(crate) fn send_end(&mut self, why: TaskEnd) {
        let _ = self.sender.try_send(ChannelMessage::Ended(why));
    }
}

impl ResponseReceiver {
    /// Whose maker is ended with it.
    pub(crate) fn with_ticket(mut self, ticket: Ticket) -> Self {
        let ticket = self.ticket.insert(Arc::new(ticket));
        // It is the only one of this taker.
        let _ = self.waker.0.set(Arc::downgrade(ticket));
        self
    }

    /// The next piece. Cancel safe.
    pub(crate) async fn recv(&mut self) -> Received {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    pub(crate) fn poll_recv(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Received> {
        self.receiver.poll_recv(cx).map(|message| match message {
            Some(ChannelMessage::Chunk(piece)) => {
                // Not for every piece: the maker is to have something to do when it goes on.
                let is_low = !piece.is_last && self.receiver.len() <= CHUNKS_MAX / 2;
                if let Some(ticket) = self.ticket.as_ref().filter(|_| is_low) {
                    ticket.wake();
                }
                Received::Chunk(piece)
            }
            Some(ChannelMessage::Cached(entry, slot)) => Received::Cached(entry, slot),
            Some(ChannelMessage::Ended(why)) => Received::Ended(Some(why)),
            None => Received::Ended(None),
        })
    }
}
