//! The way of an answer from the thread that makes it to the socket: pieces, and not many of them.
//!
//! [`Writer`] is the maker's end: it takes bytes, codes them, and says when there is no room. [`Taker`] is
//! the socket's end: it takes pieces, lets the maker go on, and ends the maker's task when it is dropped.
//! Bounds: [`PIECES_MAX`] pieces of [`RESULT_CHUNK_BYTES`] between the two, and one step's bytes with the maker.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use cache::Entry;
use pool::{TaskEnd, Ticket};
use tokio::sync::mpsc;

use crate::bare::{Bare, Told, Want};
use crate::compress::{COMPRESS_BYTES_MIN, Coding, Encoder};
use crate::kept::Kept;
use crate::methods::RESULT_CHUNK_BYTES;
use crate::request_id::RequestId;
use crate::stamp::Stamp;

/// Pieces that wait for the socket: a megabyte of an answer at most, since a piece is sent once it is
/// [`RESULT_CHUNK_BYTES`] long, and has at most about as much again.
const PIECES_MAX: usize = 4;

/// A part of an answer.
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    /// The same in all pieces of an answer.
    pub(crate) coding: Coding,
    pub(crate) is_last: bool,
    /// All of the answer is that there is too much to do.
    pub(crate) is_overload: bool,
    /// What is told before it, with the first piece for another door.
    pub(crate) told: Option<Box<Told>>,
}

/// What comes out at the socket's end.
pub(crate) enum Taken {
    Piece(Piece),
    /// All of it, as it is kept, and the slot that it was made at. Nothing comes before or after.
    Kept(Arc<Entry<Kept>>, u64),
    /// There is no more, and what there was is not all.
    Ended(Option<TaskEnd>),
}

enum Message {
    Piece(Piece),
    Kept(Arc<Entry<Kept>>, u64),
    Ended(TaskEnd),
}

/// Lets the maker go on, for somebody else than the socket's end; it keeps nothing running.
#[derive(Clone, Default)]
pub(crate) struct Waker(Arc<OnceLock<Weak<Ticket>>>);

/// The maker's end.
pub(crate) struct Writer {
    sender: mpsc::Sender<Message>,
    waker: Waker,
    coding: Coding,
    /// Made with the first piece: a short answer needs none.
    encoder: Option<Encoder>,
    /// Pieces for which there was no room.
    ready: VecDeque<Piece>,
    has_sent: bool,
    is_overload: bool,
    /// Takes the value out of the reply, for another door.
    bare: Option<Box<Bare>>,
}

/// The socket's end.
pub(crate) struct Taker {
    receiver: mpsc::Receiver<Message>,
    ticket: Option<Arc<Ticket>>,
    waker: Waker,
    /// What the log calls the request.
    pub(crate) request: RequestId,
}

/// Both ends for one answer, which is coded as `coding` if it is long enough; with `want` only its value.
pub(crate) fn outlet(coding: Coding, want: Option<Want>, request: RequestId) -> (Writer, Taker) {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    let (encoder, ready, is_overload) = (None, VecDeque::new(), false);
    let bare = want.map(|want| Box::new(Bare::new(want)));
    let (waker, has_sent) = (Waker::default(), false);
    let taker = Taker { receiver, ticket: None, waker: waker.clone(), request };
    (Writer { sender, waker, coding, encoder, ready, has_sent, is_overload, bare }, taker)
}

impl Waker {
    /// Whether there is somebody to wake: a maker that has begun at once may be ahead of its ticket.
    pub(crate) fn is_there(&self) -> bool {
        self.0.get().is_some()
    }

    pub(crate) fn wake(&self) {
        if let Some(ticket) = self.0.get().and_then(Weak::upgrade) {
            ticket.wake();
        }
    }
}

impl Writer {
    /// What stands for the hash of an answer for another door that is too long to be hashed.
    pub(crate) fn stamp(&mut self, stamp: Option<Stamp>) {
        if let Some(bare) = &mut self.bare {
            bare.stamp(stamp);
        }
    }

    /// Wakes this maker.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Whether all went that was written, and more can be.
    pub(crate) fn has_room(&mut self) -> bool {
        self.flush() && (self.sender.capacity() > 0 || self.sender.is_closed())
    }

    /// Sends what it can of what waits; whether all of it went. What is held back does not wait.
    pub(crate) fn flush(&mut self) -> bool {
        if self.bare.as_ref().is_some_and(|bare| bare.holds()) {
            return true;
        }
        while let Some(piece) = self.ready.pop_front() {
            match self.sender.try_send(Message::Piece(piece)) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(Message::Piece(piece))) => {
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
        let bytes = match &mut self.bare {
            Some(bare) => bare.take(bytes, is_last),
            None => bytes,
        };
        let bytes = match &mut self.encoder {
            None if is_last && !self.has_sent && bytes.len() < COMPRESS_BYTES_MIN => {
                self.coding = Coding::Plain;
                bytes
            }
            None => self.encoder.insert(Encoder::new(self.coding)?).encode(bytes)?,
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
        if let Some(told) = self.bare.as_mut().and_then(|bare| bare.tell(is_last))
            && let Some(first) = self.ready.front_mut()
        {
            first.told = Some(told);
        }
        self.flush();
        Ok(())
    }

    /// All that is written from now on says that there is too much to do.
    pub(crate) fn overloaded(&mut self) {
        self.is_overload = true;
    }

    fn push(&mut self, mut bytes: Bytes, is_last: bool) {
        let (coding, is_overload) = (self.coding, self.is_overload);
        if let Some(bare) = &mut self.bare {
            bare.sends(&bytes);
        }
        while bytes.len() > 2 * RESULT_CHUNK_BYTES {
            let bytes = bytes.split_to(RESULT_CHUNK_BYTES);
            self.ready.push_back(Piece { bytes, coding, is_last: false, is_overload, told: None });
        }
        if is_last || !bytes.is_empty() {
            self.ready.push_back(Piece { bytes, coding, is_last, is_overload, told: None });
        }
    }

    /// Gives the answer as it is kept. Nothing was written before, so there is room.
    pub(crate) fn keep(&mut self, entry: Arc<Entry<Kept>>, slot: u64) {
        let _ = self.sender.try_send(Message::Kept(entry, slot));
    }

    /// Tells why there will be no more, if there is room for it; if not, the end is told by itself.
    pub(crate) fn end(&mut self, why: TaskEnd) {
        let _ = self.sender.try_send(Message::Ended(why));
    }
}

impl Taker {
    /// Whose maker is ended with it.
    pub(crate) fn of(mut self, ticket: Ticket) -> Self {
        let ticket = self.ticket.insert(Arc::new(ticket));
        // It is the only one of this taker.
        let _ = self.waker.0.set(Arc::downgrade(ticket));
        self
    }

    /// The next piece. Cancel safe.
    pub(crate) async fn take(&mut self) -> Taken {
        std::future::poll_fn(|cx| self.poll_take(cx)).await
    }

    pub(crate) fn poll_take(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Taken> {
        self.receiver.poll_recv(cx).map(|message| match message {
            Some(Message::Piece(piece)) => {
                // Not for every piece: the maker is to have something to do when it goes on.
                let is_low = !piece.is_last && self.receiver.len() <= PIECES_MAX / 2;
                if let Some(ticket) = self.ticket.as_ref().filter(|_| is_low) {
                    ticket.wake();
                }
                Taken::Piece(piece)
            }
            Some(Message::Kept(entry, slot)) => Taken::Kept(entry, slot),
            Some(Message::Ended(why)) => Taken::Ended(Some(why)),
            None => Taken::Ended(None),
        })
    }
}
