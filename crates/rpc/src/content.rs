//! The body of a response: bytes that are there, or pieces as they come.
//!
//! Invariant: a body whose maker ended early ends in an error, so that its client sees that it is cut off:
//! the last chunk is not sent and the connection is closed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use pool::ClientId;

use crate::chunk::Chunk;
use crate::node::Node;
use crate::outlet::{Piece, Taken, Taker};

/// So many bytes of a kept answer, give or take a part, go to the socket in one call; then other connections
/// of the thread have their turn: some hundred microseconds.
const CHUNK_BYTES: usize = 1024 * 1024;

/// The body of a response.
pub struct Content(Form);

enum Form {
    Whole(Bytes),
    /// All there, in order; how many bytes they are, and whether others are to have a turn first.
    Parts(std::vec::IntoIter<Bytes>, u64, bool),
    Streamed(Box<Streamed>),
}

struct Streamed {
    node: Arc<Node>,
    client: ClientId,
    next: Option<Piece>,
    rest: Taker,
    is_over: bool,
}

impl Content {
    /// A body that goes on for as long as pieces come.
    pub(crate) fn streamed(node: Arc<Node>, client: ClientId, first: Piece, rest: Taker) -> Self {
        let next = Some(first);
        Self(Form::Streamed(Box::new(Streamed { node, client, next, rest, is_over: false })))
    }
}

impl Content {
    /// How many bytes are there and have not been counted as a client's; those of a stream are, as they go.
    pub fn bytes_there(&self) -> usize {
        match &self.0 {
            Form::Whole(bytes) => bytes.len(),
            Form::Parts(_, left, _) => usize::try_from(*left).unwrap_or(usize::MAX),
            Form::Streamed(_) => 0,
        }
    }
}

impl From<Vec<Bytes>> for Content {
    fn from(parts: Vec<Bytes>) -> Self {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        Self(Form::Parts(parts.into_iter(), bytes, false))
    }
}

impl Default for Content {
    fn default() -> Self {
        Bytes::new().into()
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Self(Form::Whole(bytes))
    }
}

impl Body for Content {
    type Data = Chunk;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Chunk>>>> {
        match &mut self.0 {
            Form::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Form::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes).into())))),
            Form::Parts(_, 0, _) => Poll::Ready(None),
            Form::Parts(_, _, yields) if *yields => {
                *yields = false;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Form::Parts(parts, left, yields) => {
                let mut chunk = Chunk::default();
                while chunk.remaining() < CHUNK_BYTES
                    && let Some(part) = parts.next()
                {
                    chunk.push(part);
                }
                *left -= chunk.remaining() as u64;
                *yields = true;
                Poll::Ready(Some(Ok(Frame::data(chunk))))
            }
            Form::Streamed(streamed) => streamed.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Form::Whole(bytes) => bytes.is_empty(),
            Form::Parts(_, left, _) => *left == 0,
            Form::Streamed(streamed) => streamed.is_over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Form::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Form::Parts(_, left, _) => SizeHint::with_exact(*left),
            Form::Streamed(_) => SizeHint::default(),
        }
    }
}

impl Streamed {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Chunk>>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let piece = match self.next.take() {
            Some(piece) => piece,
            None => match ready!(self.rest.poll_take(cx)) {
                Taken::Piece(piece) => piece,
                // Of a kept answer nothing comes before it.
                Taken::Kept(..) => {
                    return Poll::Ready(Some(Err(io::ErrorKind::InvalidData.into())));
                }
                Taken::Ended(why) => {
                    self.is_over = true;
                    let request = self.rest.request;
                    tracing::warn!(%request, ?why, "an answer was cut off: it ended after it had begun");
                    return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                }
            },
        };
        self.is_over = piece.is_last;
        self.node.charge(self.client, piece.bytes.len());
        Poll::Ready(Some(Ok(Frame::data(piece.bytes.into()))))
    }
}
