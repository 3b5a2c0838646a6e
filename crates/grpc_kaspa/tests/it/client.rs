//! A client: tonic, with messages as bytes.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BufMut};
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// Timeout of a test that waits for a message.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Messages as bytes.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; from.remaining()];
        from.copy_to_slice(&mut message);
        Ok(Some(message))
    }
}

/// A stream of `MessageStream`.
pub(crate) struct Client {
    requests: mpsc::Sender<Vec<u8>>,
    messages: Streaming<Vec<u8>>,
}

/// Connects to a server.
pub(crate) async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a URL");
    endpoint.connect().await.expect("it listens")
}

/// Returns the reply of the health service to a check of the whole server: protobuf with the status as field 1.
pub(crate) async fn check_health(channel: Channel) -> Vec<u8> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.expect("a connection");
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let reply = grpc.unary(Request::new(Vec::new()), path, Raw).await;
    reply.expect("a status").into_inner()
}

impl Client {
    /// Opens a stream whose requests are compressed, or not.
    pub(crate) async fn open(
        channel: Channel,
        compression: Option<CompressionEncoding>,
    ) -> Result<Self, Status> {
        Self::open_path(channel, compression, "/protowire.RPC/MessageStream").await
    }

    /// Opens a stream of the method with this path.
    pub(crate) async fn open_path(
        channel: Channel,
        compression: Option<CompressionEncoding>,
        path: &'static str,
    ) -> Result<Self, Status> {
        let mut grpc = Grpc::new(channel).max_decoding_message_size(64 << 20);
        if let Some(compression) = compression {
            grpc = grpc.send_compressed(compression).accept_compressed(compression);
        }
        grpc.ready().await.expect("a connection");
        let (requests, receiver) = mpsc::channel::<Vec<u8>>(16);
        let stream = futures_util::stream::unfold(receiver, |mut receiver| async move {
            Some((receiver.recv().await?, receiver))
        });
        let path = PathAndQuery::from_static(path);
        let response = grpc.streaming(Request::new(stream), path, Raw).await?;
        Ok(Self { requests, messages: response.into_inner() })
    }

    pub(crate) async fn start(address: SocketAddr) -> Self {
        let compression = Some(CompressionEncoding::Gzip);
        Self::open(connect(address).await, compression).await.expect("a stream")
    }

    pub(crate) async fn send(&self, request: Vec<u8>) {
        self.requests.send(request).await.expect("the stream is open");
    }

    /// The next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, Status> {
        tokio::time::timeout(TIMEOUT, self.messages.message()).await.expect("a message in time")
    }

    pub(crate) async fn exchange(&mut self, request: Vec<u8>) -> Vec<u8> {
        self.send(request).await;
        self.next().await.expect("no error").expect("a reply")
    }

    /// Ends the requests.
    pub(crate) fn end_requests(&mut self) {
        let (closed, _) = mpsc::channel(1);
        self.requests = closed;
    }

    /// The status with which the stream ends.
    pub(crate) async fn end(&mut self) -> Status {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }
}
