//! From a call to its response: the token, the method, the subscription.

use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api_keys::{AuthError, LimitReached, Permit};
use authentication::Authenticator;
use hyper::body::Incoming;
use pool::ClientId;
use prost::Message;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_prost::ProstCodec;
use yellowstone_grpc_proto::geyser::geyser_server::SERVICE_NAME;
use yellowstone_grpc_proto::geyser::{
    PingRequest, PongResponse, SubscribeGossipRequest, SubscribeReplayInfoRequest,
    SubscribeReplayInfoResponse, SubscribeUpdateGossip,
};

use crate::broker::Broker;
use crate::compression::{Compression, ENCODING_HEADER};
use crate::counters::Event;
use crate::gossip::{self, GossipStream};
use crate::gossip_table::GossipTable;
use crate::node::GrpcNode;
use crate::request_body::RequestBody;
use crate::requests::Requests;
use crate::response_body::ResponseBody;
use crate::status_timer::StatusTimer;
use crate::stream::UpdateStream;
use crate::stream_key::{Revocation, StreamKey};

/// The header with the client's token.
const TOKEN_HEADER: &str = "x-token";
/// Compressions, both ways.
const ENCODINGS: [CompressionEncoding; 2] = [CompressionEncoding::Gzip, CompressionEncoding::Zstd];

/// Any health service.
pub(crate) type HealthService = Box<
    dyn Fn(
            http::Request<Incoming>,
        ) -> futures_util::future::BoxFuture<'static, http::Response<Body>>
        + Send
        + Sync,
>;

/// All methods of the server.
pub(crate) struct GrpcService {
    broker: Arc<Broker>,
    node: Arc<GrpcNode>,
    gossip: Arc<GossipTable>,
    health: HealthService,
    access: Access,
}

/// What a client must send.
pub(crate) struct Access {
    /// The token of all clients.
    pub(crate) token: Option<Vec<u8>>,
    /// Keys of clients.
    pub(crate) authenticator: Option<Authenticator>,
}

impl GrpcService {
    pub(crate) fn new(
        broker: Arc<Broker>,
        node: GrpcNode,
        gossip: Arc<GossipTable>,
        health: HealthServer<impl Health>,
        access: Access,
    ) -> Self {
        let health: HealthService = Box::new(move |request| {
            let mut health = health.clone();
            Box::pin(async move {
                match health.call(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            })
        });
        Self { broker, node: Arc::new(node), gossip, health, access }
    }

    pub(crate) fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Serves a call.
    pub(crate) async fn call(
        &self,
        request: http::Request<Incoming>,
        peer: IpAddr,
        timer: Arc<StatusTimer>,
    ) -> http::Response<Body> {
        let path = request.uri().path().to_owned();
        if path.starts_with("/grpc.health.v1.Health/") {
            return (self.health)(request).await;
        }
        let service_and_method = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let Some((SERVICE_NAME, method)) = service_and_method else {
            return Status::unimplemented("this service is not served").into_http();
        };
        if !self.has_token(request.headers()) {
            self.broker.counters.record(Event::Unauthenticated);
            return Status::unauthenticated("x-token is missing or wrong").into_http();
        }
        let (client, permit) = match self.admit(&request, peer, method) {
            Ok(admitted) => admitted,
            Err(Refused { status, delay }) => {
                if let Some(delay) = delay {
                    // A client that gets too many refusals gets later ones late: a connection has few streams at once.
                    tokio::time::sleep(delay).await;
                }
                return status.into_http();
            }
        };
        let broker = Arc::clone(&self.broker);
        let request = request.map(|body| RequestBody::new(body, broker));
        let node = &self.node;
        match method {
            "Subscribe" => {
                let key = StreamKey { number: client.and_then(ClientId::key), permit };
                self.subscribe(request, timer, key)
            }
            "SubscribeGossip" => self.gossip(request, client, permit).await,
            "SubscribeReplayInfo" => {
                let first_available = self.broker.first_slot();
                self.unary(request, |_: SubscribeReplayInfoRequest| {
                    Ok(SubscribeReplayInfoResponse { first_available })
                })
                .await
            }
            "Ping" => {
                let pong = |ping: PingRequest| Ok(PongResponse { count: ping.count });
                self.unary(request, pong).await
            }
            "GetLatestBlockhash" => self.unary(request, |call| node.latest_blockhash(&call)).await,
            "GetBlockHeight" => self.unary(request, |call| node.block_height(&call)).await,
            "GetSlot" => self.unary(request, |call| node.slot(&call)).await,
            "IsBlockhashValid" => self.unary(request, |call| node.is_blockhash_valid(&call)).await,
            "GetVersion" => self.unary(request, |call| node.version(&call)).await,
            "SubscribeDeshred" => {
                Status::unimplemented("a local ledger has no shreds: use Subscribe").into_http()
            }
            _ => Status::unimplemented("this method is not served").into_http(),
        }
    }

    fn has_token(&self, headers: &http::HeaderMap) -> bool {
        let Some(token) = &self.access.token else { return true };
        let Some(given) = headers.get(TOKEN_HEADER).map(http::HeaderValue::as_bytes) else {
            return false;
        };
        // Takes the same time wherever they differ.
        let differences = token.iter().zip(given).fold(0, |all, (one, two)| all | (one ^ two));
        token.len() == given.len() && differences == 0
    }

    /// Recognises and charges the client of a call, if clients have API keys. A stream gets a permit.
    fn admit(
        &self,
        request: &http::Request<Incoming>,
        peer: IpAddr,
        method: &str,
    ) -> Result<(Option<ClientId>, Option<Permit>), Refused> {
        let Some(authenticator) = &self.access.authenticator else { return Ok((None, None)) };
        let (mut uri, address) = (request.uri().clone(), ClientId::from_ip(peer));
        let found = authenticator.authenticate(&mut uri, request.headers(), Some(peer), address);
        let client = found.map_err(|err| {
            self.broker.counters.record(Event::Unauthenticated);
            Refused::from(match err {
                AuthError::Origin | AuthError::Address => {
                    Status::permission_denied(err.to_string())
                }
                AuthError::Throttled { .. } => Status::resource_exhausted(err.to_string()),
                AuthError::Missing | AuthError::Unknown | AuthError::TooLong => {
                    Status::unauthenticated(err.to_string())
                }
            })
        })?;
        let exhausted = |reached: LimitReached| Refused {
            status: Status::resource_exhausted(reached.to_string()),
            delay: authenticator.delay_refusal(client),
        };
        if authenticator.denies(client, method) {
            let message = format!("{method} is not available to this client (tiers.deny)");
            return Err(Status::permission_denied(message).into());
        }
        authenticator.admit_call(client, method).map_err(exhausted)?;
        let permit = match method {
            "Subscribe" | "SubscribeGossip" => {
                Some(authenticator.open_stream(client).map_err(exhausted)?)
            }
            _ => None,
        };
        Ok((Some(client), permit))
    }

    fn subscribe(
        &self,
        request: http::Request<RequestBody>,
        timer: Arc<StatusTimer>,
        key: StreamKey,
    ) -> http::Response<Body> {
        let (parts, body) = request.into_parts();
        let stream = Compression::of_requests(&parts.headers).and_then(|compression| {
            let requests = Requests::new(body, compression, self.broker.config.request_bytes_max);
            UpdateStream::new(&self.broker, requests, timer, key)
        });
        let stream = match stream {
            Ok(stream) => stream,
            Err(status) => return status.into_http(),
        };
        let compression = Compression::of_response(&parts.headers);
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
        request: http::Request<RequestBody>,
        client: Option<ClientId>,
        permit: Option<Permit>,
    ) -> http::Response<Body> {
        let ping_interval = self.broker.config.ping_interval();
        let revocation =
            self.access.authenticator.clone().zip(client).map(|(keys, client)| {
                Revocation::new(keys, client, self.broker.removals.subscribe())
            });
        let key = (permit, revocation);
        let stream = gossip::stream(Arc::clone(&self.gossip), ping_interval, key);
        let codec = ProstCodec::<SubscribeUpdateGossip, SubscribeGossipRequest>::default();
        self.grpc(codec).server_streaming(Gossip(Some(stream)), request).await
    }

    async fn unary<Q, R>(
        &self,
        request: http::Request<RequestBody>,
        call: impl Fn(Q) -> Result<R, Status>,
    ) -> http::Response<Body>
    where
        Q: Message + Default + Send + 'static,
        R: Message + Send + 'static,
    {
        self.grpc(ProstCodec::<R, Q>::default()).unary(Unary(call), request).await
    }

    fn grpc<C: tonic::codec::Codec>(&self, codec: C) -> Grpc<C> {
        let mut grpc = Grpc::new(codec);
        for encoding in ENCODINGS {
            grpc = grpc.accept_compressed(encoding).send_compressed(encoding);
        }
        grpc.max_decoding_message_size(self.broker.config.request_bytes_max)
    }
}

/// Why a call is refused, and how long that must wait.
struct Refused {
    status: Status,
    delay: Option<Duration>,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self { status, delay: None }
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
