//! A server of Yellowstone gRPC whose updates are the bytes that a test makes, even such as no server would send.
//!
//! In: the body of the response to `Subscribe`, with its frames. Out: how much of it was taken. Other calls are not
//! implemented.
//! Bounds: a chunk is made when the client reads.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};

/// The chunks of a body.
pub type Chunks = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// A server of raw bytes.
#[derive(Clone)]
pub struct RawSource {
    body: Arc<dyn Fn() -> Chunks + Send + Sync>,
    encoding: Option<&'static str>,
    sent: Arc<AtomicU64>,
    calls: Arc<AtomicU64>,
}

impl RawSource {
    /// Each response has this body, in this encoding of gRPC.
    pub fn new(
        encoding: Option<&'static str>,
        body: impl Fn() -> Chunks + Send + Sync + 'static,
    ) -> Self {
        let (sent, calls) = Default::default();
        Self { body: Arc::new(body), encoding, sent, calls }
    }

    /// Serves on a free port of the loopback.
    pub async fn serve(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let incoming =
            tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
        let server = tonic::transport::Server::builder();
        let service = self.clone();
        tokio::spawn(async move { server.serve_with_incoming(service, incoming).await });
        address
    }

    /// Bytes that were taken from the bodies.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Number of calls of `Subscribe`.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Service<Request<Body>> for RawSource {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !request.uri().path().ends_with("/Subscribe") {
            let response = tonic::Status::unimplemented("not scripted").into_http::<Body>();
            return Box::pin(async move { Ok(response) });
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        let sent = Arc::clone(&self.sent);
        let frames = (self.body)().map(move |chunk| {
            sent.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            Ok::<_, Infallible>(Frame::data(chunk))
        });
        let mut response = Response::new(Body::new(StreamBody::new(frames)));
        let headers = response.headers_mut();
        headers.insert("content-type", "application/grpc".parse().expect("a value"));
        if let Some(encoding) = self.encoding {
            headers.insert("grpc-encoding", encoding.parse().expect("a value"));
        }
        Box::pin(async move { Ok(response) })
    }
}
