//! The body of a response with a guard that lives until it is sent or dropped: an open call, a share.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Response;

struct GuardedBody<T> {
    inner: Body,
    _guard: T,
}

/// Returns the response with a body that drops the guard when it is sent or dropped.
pub(crate) fn attach_guard<T: Send + Unpin + 'static>(
    response: Response<Body>,
    guard: T,
) -> Response<Body> {
    response.map(|inner| Body::new(GuardedBody { inner, _guard: guard }))
}

impl<T: Unpin> hyper::body::Body for GuardedBody<T> {
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
