//! The body of a subscription's response: messages as gRPC frames them, in pieces, then the status.
//!
//! Shape: short messages are joined up to a piece. A long one is not copied, but cut into pieces, so that HTTP/2 holds
//! some of them and never a whole block.
//! Bounds: [`PIECE_BYTES`], and a step of compression a poll. Bytes count for the client until they are written.
//! Not here: what tonic does for a response: the headers, the choice of a compression (`service`). Its own body has
//! buffers for each client that stay as large as the largest message.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use grpc_server::{Compression, Count, encode_head};
use hyper::body::{Body, Frame};
use tonic::Status;
use tonic::codegen::http::HeaderMap;

use crate::compressing::{COMPRESSED_BYTES_MIN, Compressing};
use crate::queue::Message;
use crate::stream::UpdateStream;

/// Bytes that HTTP/2 gets at once: a frame of the usual size.
const PIECE_BYTES: usize = 16 << 10;

pub(crate) struct ResponseBody {
    stream: UpdateStream,
    compression: Option<Compression>,
    /// The unsent rest of the framed messages.
    rest: Bytes,
    /// A message. Its prefix is in `rest` or was sent.
    long: Option<Message>,
    compressing: Option<Compressing>,
    /// The status after all messages.
    end: Option<Status>,
    has_ended: bool,
}

impl ResponseBody {
    pub(crate) fn new(stream: UpdateStream, compression: Option<Compression>) -> Self {
        Self {
            stream,
            compression,
            rest: Bytes::new(),
            long: None,
            compressing: None,
            end: None,
            has_ended: false,
        }
    }

    /// Frames short messages, up to a piece, a long message or the end.
    fn poll_messages(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (mut joined, mut count): (Vec<u8>, Option<Count>) = (Vec::new(), None);
        while joined.len() < PIECE_BYTES {
            let message = match self.stream.poll_message(context) {
                Poll::Pending if joined.is_empty() => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(Ok(message)) => message,
                Poll::Ready(Err(status)) => {
                    self.end = Some(status);
                    break;
                }
            };
            let length = message.bytes.len();
            if let Some(compression) = self.compression
                && length >= COMPRESSED_BYTES_MIN
            {
                self.compressing = Some(Compressing::new(compression, message)?);
                break;
            }
            joined.extend_from_slice(&encode_head(false, length)?);
            if length > PIECE_BYTES {
                self.long = Some(message);
                break;
            }
            joined.extend_from_slice(&message.bytes);
            match &mut count {
                Some(count) => count.merge(message.count),
                None => count = Some(message.count),
            }
        }
        self.rest = match count {
            Some(count) => count.attach(joined),
            // Nothing, or the head of a long message, which counts for both.
            None => joined.into(),
        };
        Poll::Ready(Ok(()))
    }

    /// Returns the next framed or compressed part, or `None` if there is none.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.rest.is_empty() {
            if let Some(Message { bytes, count }) = self.long.take() {
                self.rest = count.attach(bytes);
            } else if let Some(compressing) = &mut self.compressing {
                if compressing.step()? {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if let Some(compressing) = self.compressing.take() {
                    self.rest = compressing.finish()?;
                }
            }
        }
        if self.rest.is_empty() {
            // Nothing is held for a client that has all.
            self.rest = Bytes::new();
            return Poll::Ready(Ok(None));
        }
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(length);
        if self.rest.is_empty() {
            self.rest = Bytes::new();
        }
        Poll::Ready(Ok(Some(piece)))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let failed = |err: io::Error| Status::internal(format!("a message was not sent: {err}"));
        loop {
            if let Some(piece) = ready!(this.poll_rest(context)).map_err(failed)? {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if this.has_ended {
                return Poll::Ready(None);
            }
            if let Some(status) = this.end.take() {
                this.has_ended = true;
                let mut trailers = HeaderMap::with_capacity(2);
                status.add_header(&mut trailers)?;
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            ready!(this.poll_messages(context)).map_err(failed)?;
        }
    }
}
