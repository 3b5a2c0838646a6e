//! The gRPC server of a model peer: a stream of messages in each direction, as bytes.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use futures_util::Stream;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::{Grpc, StreamingService};
use tonic::{Status, Streaming};

use super::conversation::{Conversation, PeerShared};

/// The path of the stream.
const PATH: &str = "/protowire.P2P/MessageStream";
/// Messages that wait for the client.
const OUTGOING_MAX: usize = 16;

/// The server of a peer.
#[derive(Clone)]
pub(crate) struct PeerService(pub(crate) Arc<PeerShared>);

/// A stream of a client.
struct StreamHandler(Arc<PeerShared>);

/// Messages to a client.
type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

impl Service<Request<Body>> for PeerService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() != PATH {
            let response = Status::unimplemented("only nodes connect here").into_http::<Body>();
            return Box::pin(async move { Ok(response) });
        }
        let handler = StreamHandler(Arc::clone(&self.0));
        Box::pin(async move { Ok(Grpc::new(RawCodec).streaming(handler, request).await) })
    }
}

impl StreamingService<Bytes> for StreamHandler {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = BoxFuture<tonic::Response<Messages>, Status>;

    fn call(&mut self, request: tonic::Request<Streaming<Bytes>>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let (outgoing, mut waiting) = mpsc::channel(OUTGOING_MAX);
            let incoming = request.into_inner();
            // It ends with the stream of the client.
            let faults = shared.faults.lock().clone();
            tokio::spawn(Conversation { shared, incoming, outgoing, faults }.run());
            let messages = poll_fn(move |context| {
                waiting.poll_recv(context).map(|it| it.map(Ok::<_, Status>))
            });
            Ok(tonic::Response::new(Box::pin(messages) as Messages))
        })
    }
}

/// Messages as their bytes.
#[derive(Clone, Copy)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let len = source.remaining();
        Ok(Some(source.copy_to_bytes(len)))
    }
}
