//! The body of a response that a task of the pool produces.
//!
//! Invariant: a body whose task failed ends in an error, so that its client sees that it is truncated: the last
//! chunk is not sent, and the connection is closed.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_server::ChunkSource;

use crate::response_channel::{BodyChunk, Received, ResponseReceiver};

/// The first chunk of a response, and the channel that the rest comes from.
pub(crate) struct StreamedBody {
    next: Option<BodyChunk>,
    rest: ResponseReceiver,
    is_over: bool,
}

impl StreamedBody {
    pub(crate) fn new(first: BodyChunk, rest: ResponseReceiver) -> Self {
        Self { next: Some(first), rest, is_over: false }
    }
}

impl ChunkSource for StreamedBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let chunk = match self.next.take() {
            Some(chunk) => chunk,
            None => match ready!(self.rest.poll_recv(cx)) {
                Received::Chunk(chunk) => chunk,
                // A cached response is never preceded by a chunk.
                Received::Cached(..) => {
                    return Poll::Ready(Some(Err(io::ErrorKind::InvalidData.into())));
                }
                Received::Ended(why) => {
                    self.is_over = true;
                    let request = self.rest.request;
                    tracing::warn!(%request, ?why, "a response was truncated: its task ended after it had started");
                    return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                }
            },
        };
        self.is_over = chunk.is_last;
        Poll::Ready(Some(Ok(chunk.bytes)))
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}
