//! The methods of Geyser's service: from an admitted call to its response.

use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::Arc;

use api_keys::Permit;
use authentication::Authenticator;
use grpc_server::{
    CALL_BYTES_MAX, Call, Compression, ConnectionContext, ENCODING_HEADER, RefusedCall, Requests,
    Revocation, Service, StreamClient, StreamPermits,
};
use prost::Message;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::http;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use yellowstone_grpc_proto::geyser::geyser_server::SERVICE_NAME;
use yellowstone_grpc_proto::geyser::{
    PingRequest, PongResponse, SubscribeGossipRequest, SubscribeReplayInfoRequest,
    SubscribeReplayInfoResponse, SubscribeUpdateGossip,
};

use crate::broker::Broker;
use crate::gossip::{self, GossipStream};
use crate::gossip_table::GossipTable;
use crate::node::GrpcNode;
use crate::response_body::ResponseBody;
use crate::stream::UpdateStream;

/// Supported compressions of requests and responses.
const ENCODINGS: [CompressionEncoding; 2] = [CompressionEncoding::Gzip, CompressionEncoding::Zstd];

pub(crate) struct GrpcService {
    broker: Arc<Broker>,
    node: Arc<GrpcNode>,
    gossip: Arc<GossipTable>,
    authenticator: Option<Authenticator>,
}

impl Service for GrpcService {
    const NAME: &'static str = SERVICE_NAME;
    /// The methods of the proto. Not all of them are served.
    const METHODS: &'static [&'static str] = &[
        "Subscribe",
        "SubscribeDeshred",
        "SubscribeGossip",
        "SubscribeReplayInfo",
        "Ping",
        "GetLatestBlockhash",
        "GetBlockHeight",
        "GetSlot",
        "IsBlockhashValid",
        "GetVersion",
    ];

    fn is_stream(method: &str) -> bool {
        matches!(method, "Subscribe" | "SubscribeGossip")
    }

    async fn serve(
        &self,
        call: Call,
        method: &'static str,
        connection: &ConnectionContext,
        key: Option<Permit>,
    ) -> Result<http::Response<Body>, RefusedCall> {
        let compression = match Compression::from_request(&call.headers) {
            Ok(compression) => compression,
            Err(status) => return Err(RefusedCall::new(status, call.body)),
        };
        let node = &self.node;
        let server = &self.broker.server;
        let response = match method {
            "Subscribe" => match server.open_subscription(connection, call.client, key) {
                Ok(permits) => {
                    let client = StreamClient { id: call.client, permits };
                    self.subscribe(call, compression, connection, client)
                }
                Err(status) => return Err(RefusedCall::new(status, call.body)),
            },
            "SubscribeGossip" => match server.open_subscription(connection, call.client, key) {
                Ok(permits) => self.gossip(call, connection.reached, permits).await,
                Err(status) => return Err(RefusedCall::new(status, call.body)),
            },
            "SubscribeReplayInfo" => {
                let first_available = self.broker.first_slot();
                self.unary(call, |_: SubscribeReplayInfoRequest| {
                    Ok(SubscribeReplayInfoResponse { first_available })
                })
                .await
            }
            "Ping" => {
                let pong = |ping: PingRequest| Ok(PongResponse { count: ping.count });
                self.unary(call, pong).await
            }
            "GetLatestBlockhash" => self.unary(call, |it| node.latest_blockhash(&it)).await,
            "GetBlockHeight" => self.unary(call, |it| node.block_height(&it)).await,
            "GetSlot" => self.unary(call, |it| node.slot(&it)).await,
            "IsBlockhashValid" => self.unary(call, |it| node.is_blockhash_valid(&it)).await,
            "GetVersion" => self.unary(call, |it| node.version(&it)).await,
            "SubscribeDeshred" => {
                let status = Status::unimplemented("a local ledger has no shreds: use Subscribe");
                return Err(RefusedCall::new(status, call.body));
            }
            _ => {
                let status = Status::unimplemented("this method is not served");
                return Err(RefusedCall::new(status, call.body));
            }
        };
        Ok(response)
    }
}

impl GrpcService {
    pub(crate) fn new(
        broker: Arc<Broker>,
        node: GrpcNode,
        gossip: Arc<GossipTable>,
        authenticator: Option<Authenticator>,
    ) -> Self {
        Self { broker, node: Arc::new(node), gossip, authenticator }
    }

    fn subscribe(
        &self,
        call: Call,
        compression: Option<Compression>,
        connection: &ConnectionContext,
        client: StreamClient,
    ) -> http::Response<Body> {
        let Call { headers, body, .. } = call;
        let server = Arc::clone(&self.broker.server);
        let requests = Requests::new(body, server, client.id, compression)
            .with_unread_streams(Arc::clone(&connection.unread));
        let timer = Arc::clone(&connection.timer);
        let stream = match UpdateStream::new(&self.broker, requests, timer, client) {
            Ok(stream) => stream,
            // The server ends, and its connections with it.
            Err(status) => return status.into_http(),
        };
        let compression = Compression::from_accepted(&headers);
        let body = Body::new(ResponseBody::new(stream, compression));
        let response = http::Response::builder().header("content-type", "application/grpc");
        let response = match compression {
            Some(compression) => response.header(ENCODING_HEADER, compression.name()),
            None => response,
        };
        // These headers are valid.
        response.body(body).unwrap_or_else(|err| Status::internal(err.to_string()).into_http())
    }

    async fn gossip(
        &self,
        call: Call,
        reached: Option<IpAddr>,
        permits: StreamPermits,
    ) -> http::Response<Body> {
        let ping_interval = self.broker.config.ping_interval();
        let removals = &self.broker.server.removals;
        let keys = self.authenticator.clone();
        let revocation = keys.map(|keys| Revocation::new(keys, call.client, removals.subscribe()));
        let table = Arc::clone(&self.gossip);
        let stream = gossip::stream(table, ping_interval, reached, permits, revocation);
        let codec = ProstCodec::<SubscribeUpdateGossip, SubscribeGossipRequest>::default();
        let request = call.into_counted_request(&self.broker.server);
        self.grpc(codec).server_streaming(Gossip(Some(stream)), request).await
    }

    async fn unary<Q, R>(
        &self,
        call: Call,
        respond: impl Fn(Q) -> Result<R, Status>,
    ) -> http::Response<Body>
    where
        Q: Message + Default + Send + 'static,
        R: Message + Send + 'static,
    {
        let request = call.into_counted_request(&self.broker.server);
        self.grpc(ProstCodec::<R, Q>::default()).unary(Unary(respond), request).await
    }

    fn grpc<C: tonic::codec::Codec>(&self, codec: C) -> Grpc<C> {
        let mut grpc = Grpc::new(codec);
        for encoding in ENCODINGS {
            grpc = grpc.accept_compressed(encoding).send_compressed(encoding);
        }
        grpc.max_decoding_message_size(CALL_BYTES_MAX)
    }
}

struct Unary<F>(F);

impl<Q, R, F: FnMut(Q) -> Result<R, Status>> UnaryService<Q> for Unary<F> {
    type Response = R;
    type Future = Ready<Result<Response<R>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        ready((self.0)(request.into_inner()).map(Response::new))
    }
}

struct Gossip(Option<GossipStream>);

impl ServerStreamingService<SubscribeGossipRequest> for Gossip {
    type Response = SubscribeUpdateGossip;
    type ResponseStream = GossipStream;
    type Future = Ready<Result<Response<GossipStream>, Status>>;

    fn call(&mut self, _: Request<SubscribeGossipRequest>) -> Self::Future {
        let stream = self.0.take().ok_or_else(|| Status::internal("called twice"));
        ready(stream.map(Response::new))
    }
}
