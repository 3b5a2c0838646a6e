//! The body of a stream's response: the pieces of its messages, then the status.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use grpc_server::StreamPermits;
use hyper::body::{Body, Frame};
use tonic::Status;
use tonic::codegen::http::HeaderMap;

use crate::outgoing::{Outgoing, Piece};

pub(crate) struct ResponseBody {
    outgoing: Arc<Outgoing>,
    has_ended: bool,
    _permits: StreamPermits,
}

impl ResponseBody {
    /// Creates the body of a stream. The stream holds its permits until the client has read everything, or has left.
    pub(crate) fn new(outgoing: Arc<Outgoing>, permits: StreamPermits) -> Self {
        Self { outgoing, has_ended: false, _permits: permits }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        match ready!(self.outgoing.poll_piece(context)) {
            Piece::Bytes(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Piece::End(status) => {
                self.has_ended = true;
                let mut trailers = HeaderMap::with_capacity(2);
                status.add_header(&mut trailers)?;
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.outgoing.drop_reader();
    }
}
