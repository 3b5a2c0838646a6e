//! The body of a response that holds something until it is sent or dropped: an open call, a share.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Response;

struct HeldBody<T> {
    inner: Body,
    _held: T,
}

/// Returns the response with a body that holds `held`.
pub(crate) fn hold<T: Send + Unpin + 'static>(response: Response<Body>, held: T) -> Response<Body> {
    response.map(|inner| Body::new(HeldBody { inner, _held: held }))
}

impl<T: Unpin> hyper::body::Body for HeldBody<T> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
