//! From a call to its response: the token, the method, the subscription.

use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::Arc;

use api_keys::{AuthError, LimitReached, Permit};
use authentication::Authenticator;
use clients::{ClientId, Share};
use hyper::body::Incoming;
use prost::Message;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_prost::ProstCodec;
use yellowstone_grpc_proto::geyser::{
    PingRequest, PongResponse, SubscribeGossipRequest, SubscribeReplayInfoRequest,
    SubscribeReplayInfoResponse, SubscribeUpdateGossip,
};

use crate::broker::Broker;
use crate::compression::{ACCEPT_ENCODING_HEADER, Compression, ENCODING_HEADER};
use crate::connection_context::ConnectionContext;
use crate::counters::Event;
use crate::gossip::{self, GossipStream};
use crate::gossip_table::GossipTable;
use crate::guarded_body;
use crate::method::Method;
use crate::node::GrpcNode;
use crate::refusal::{Refusal, RefusedCall};
use crate::request_body::{CALL_BYTES_MAX, RequestBody};
use crate::requests::Requests;
use crate::response_body::ResponseBody;
use crate::shares;
use crate::stream::UpdateStream;
use crate::stream_client::{Revocation, StreamClient, StreamPermits};
use crate::token::Token;

/// The header with the client's token.
const TOKEN_HEADER: &str = "x-token";
/// Supported compressions of requests and responses.
const ENCODINGS: [CompressionEncoding; 2] = [CompressionEncoding::Gzip, CompressionEncoding::Zstd];

/// Bytes of a header that names compressions. The rest of a longer one is ignored.
const ENCODING_BYTES_MAX: usize = 256;

pub(crate) type HealthService = Box<
    dyn Fn(
            http::Request<RequestBody>,
        ) -> futures_util::future::BoxFuture<'static, http::Response<Body>>
        + Send
        + Sync,
>;

pub(crate) struct GrpcService {
    broker: Arc<Broker>,
    node: Arc<GrpcNode>,
    gossip: Arc<GossipTable>,
    health: HealthService,
    access: Access,
}

/// The credentials that a client must send.
pub(crate) struct Access {
    /// The `x-token` that all clients share.
    pub(crate) token: Option<Arc<Token>>,
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

    /// Returns the bytes of requests that a connection may have before they are read. With API keys the calls of a
    /// connection may have several clients.
    pub(crate) fn connection_window_bytes(&self) -> u32 {
        let config = &self.broker.config;
        match self.access.authenticator {
            Some(_) => config.shared_connection_window_bytes(),
            None => config.connection_window_bytes(),
        }
    }

    /// Serves a call of a connection.
    pub(crate) async fn call(
        &self,
        request: http::Request<Incoming>,
        connection: &ConnectionContext,
    ) -> http::Response<Body> {
        let method = Method::from_path(request.uri().path());
        let served = match method {
            Method::Geyser(method) => self.serve(request, method, connection).await,
            Method::Health(method) => self.check_health(request, method, connection).await,
            Method::Foreign => {
                let status = Status::unimplemented("this service is not served");
                Err(RefusedCall::new(status, request.into_body()))
            }
        };
        match served {
            Ok(response) => response,
            // A client that gets too many refusals gets later ones late: a connection has few streams at once.
            Err(refused) => refused.respond().await,
        }
    }

    /// Serves a call of Geyser's service.
    async fn serve(
        &self,
        request: http::Request<Incoming>,
        method: &'static str,
        connection: &ConnectionContext,
    ) -> Result<http::Response<Body>, RefusedCall> {
        let admitted = match self.admit(&request, connection.peer, method) {
            Ok(admitted) => admitted,
            Err(refusal) => return Err(RefusedCall::new(refusal, request.into_body())),
        };
        connection.unread.record_call(admitted.client);
        let open = connection.activity.start_call();
        let response = self.dispatch(request, method, connection, admitted).await?;
        Ok(guarded_body::attach_guard(response, open))
    }

    /// Serves a call of a client that is admitted.
    async fn dispatch(
        &self,
        request: http::Request<Incoming>,
        method: &'static str,
        connection: &ConnectionContext,
        admitted: AdmittedClient,
    ) -> Result<http::Response<Body>, RefusedCall> {
        let AdmittedClient { client, key } = admitted;
        let call = Call::new(request, client);
        let compression = match Compression::from_request(&call.headers) {
            Ok(compression) => compression,
            Err(status) => return Err(RefusedCall::new(status, call.body)),
        };
        let node = &self.node;
        let response = match method {
            "Subscribe" => match self.open_subscription(connection, client, key) {
                Ok(permits) => {
                    let client = StreamClient { id: client, permits };
                    self.subscribe(call, compression, connection, client)
                }
                Err(status) => return Err(RefusedCall::new(status, call.body)),
            },
            "SubscribeGossip" => match self.open_subscription(connection, client, key) {
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

    fn has_token(&self, headers: &http::HeaderMap) -> bool {
        let Some(token) = &self.access.token else { return true };
        headers.get(TOKEN_HEADER).is_some_and(|given| token.matches(given.as_bytes()))
    }

    /// Returns the client of a call: its address, or its API key if clients have some. The call is charged to a key, and
    /// a stream gets a permit.
    fn admit(
        &self,
        request: &http::Request<Incoming>,
        peer: IpAddr,
        method: &str,
    ) -> Result<AdmittedClient, Refusal> {
        if !self.has_token(request.headers()) {
            self.broker.counters.record(Event::Unauthenticated);
            return Err(Status::unauthenticated("x-token is missing or wrong").into());
        }
        let address = ClientId::from_ip(peer);
        let Some(authenticator) = &self.access.authenticator else {
            return Ok(AdmittedClient { client: address, key: None });
        };
        let mut uri = request.uri().clone();
        let found = authenticator.authenticate(&mut uri, request.headers(), Some(peer), address);
        let client = found.map_err(|err| {
            self.broker.counters.record(Event::Unauthenticated);
            let status = match err {
                AuthError::Origin | AuthError::Address => {
                    Status::permission_denied(err.to_string())
                }
                AuthError::Throttled { .. } => Status::resource_exhausted(err.to_string()),
                AuthError::Missing | AuthError::Unknown | AuthError::TooLong => {
                    Status::unauthenticated(err.to_string())
                }
            };
            Refusal { status, delay: authenticator.delay_failure(address) }
        })?;
        let exhausted = |reached: LimitReached| Refusal {
            status: Status::resource_exhausted(reached.to_string()),
            delay: authenticator.delay_refusal(client),
        };
        if authenticator.denies(client, method) {
            let message = format!("{method} is not available to this client (tiers.deny)");
            return Err(Status::permission_denied(message).into());
        }
        authenticator.admit_call(client, method).map_err(exhausted)?;
        let key = match method {
            "Subscribe" | "SubscribeGossip" => {
                Some(authenticator.open_stream(client).map_err(exhausted)?)
            }
            _ => None,
        };
        Ok(AdmittedClient { client, key })
    }

    /// Serves a call of the health service. It needs no token, so with tokens it does not keep its connection open.
    async fn check_health(
        &self,
        request: http::Request<Incoming>,
        method: &'static str,
        connection: &ConnectionContext,
    ) -> Result<http::Response<Body>, RefusedCall> {
        let call = Call::new(request, ClientId::from_ip(connection.peer));
        let HealthCall { uri, share } = match self.open_health_call(&call, method) {
            Ok(opened) => opened,
            Err(status) => return Err(RefusedCall::new(status, call.body)),
        };
        let mut request = self.with_counted_body(call);
        *request.uri_mut() = uri;
        let needs_token = self.access.token.is_some() || self.access.authenticator.is_some();
        let open = (!needs_token).then(|| connection.activity.start_call());
        Ok(guarded_body::attach_guard((self.health)(request).await, (open, share)))
    }

    /// Checks a call of the health service, and counts a stream.
    fn open_health_call(&self, call: &Call, method: &'static str) -> Result<HealthCall, Status> {
        if Compression::from_request(&call.headers)?.is_some() {
            return Err(Status::unimplemented("the health service reads no compressed messages"));
        }
        match method {
            "Check" => {
                let uri = http::Uri::from_static("/grpc.health.v1.Health/Check");
                Ok(HealthCall { uri, share: None })
            }
            "Watch" => {
                let uri = http::Uri::from_static("/grpc.health.v1.Health/Watch");
                let all = &self.broker.shares.health;
                let share = shares::acquire_unit(all, call.client).inspect_err(|_| {
                    self.broker.counters.record(Event::SubscriptionRefused);
                })?;
                Ok(HealthCall { uri, share: Some(share) })
            }
            _ => Err(Status::unimplemented("this method is not served")),
        }
    }

    /// Returns a request of the client with a body that is counted.
    fn with_counted_body(&self, call: Call) -> http::Request<RequestBody> {
        let Call { client, headers, body } = call;
        let mut request =
            http::Request::new(RequestBody::new(body, Arc::clone(&self.broker), client));
        *request.headers_mut() = headers;
        request
    }

    /// Counts one more subscription of a client, and of a connection, so that other calls find a stream of HTTP/2.
    fn open_subscription(
        &self,
        connection: &ConnectionContext,
        client: ClientId,
        key: Option<Permit>,
    ) -> Result<StreamPermits, Status> {
        let permit = Arc::clone(&connection.subscriptions).try_acquire_owned().map_err(|_| {
            self.broker.counters.record(Event::SubscriptionRefused);
            Status::resource_exhausted(format!(
                "{} subscriptions are open on this connection, of {} streams \
                 (grpc.connection_streams_max): open another connection",
                self.broker.config.connection_subscriptions_max(),
                self.broker.config.connection_streams_max
            ))
        })?;
        let all = &self.broker.shares.subscriptions;
        let share = shares::acquire_unit(all, client).inspect_err(|_| {
            self.broker.counters.record(Event::SubscriptionRefused);
        })?;
        Ok(StreamPermits { _client: share, _connection: permit, _key: key })
    }

    fn subscribe(
        &self,
        call: Call,
        compression: Option<Compression>,
        connection: &ConnectionContext,
        client: StreamClient,
    ) -> http::Response<Body> {
        let Call { headers, body, .. } = call;
        let requests = Requests::new(body, Arc::clone(&self.broker), client.id, compression)
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
        let keys = self.access.authenticator.clone();
        let revocation =
            keys.map(|keys| Revocation::new(keys, call.client, self.broker.removals.subscribe()));
        let table = Arc::clone(&self.gossip);
        let stream = gossip::stream(table, ping_interval, reached, permits, revocation);
        let codec = ProstCodec::<SubscribeUpdateGossip, SubscribeGossipRequest>::default();
        let request = self.with_counted_body(call);
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
        let request = self.with_counted_body(call);
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

/// The client of an admitted call, with the permit of its key for a stream.
struct AdmittedClient {
    client: ClientId,
    key: Option<Permit>,
}

/// A call of the health service, with the unit that a stream has of its client's share.
struct HealthCall {
    /// The health service reads the method there.
    uri: http::Uri,
    share: Option<Share>,
}

/// A call without what its method does not need.
struct Call {
    client: ClientId,
    headers: http::HeaderMap,
    body: Incoming,
}

impl Call {
    /// Keeps the headers that a call still needs, and its body. The others have up to 16 KiB, which a call would hold
    /// until its message is complete.
    fn new(request: http::Request<Incoming>, client: ClientId) -> Self {
        let (parts, body) = request.into_parts();
        let mut headers = http::HeaderMap::new();
        for name in [ENCODING_HEADER, ACCEPT_ENCODING_HEADER] {
            let value = parts.headers.get(name).map(http::HeaderValue::as_bytes);
            let value = value.map(|value| value.get(..ENCODING_BYTES_MAX).unwrap_or(value));
            // A copy: the value may share the memory of all headers.
            let copy = value.and_then(|value| http::HeaderValue::from_bytes(value).ok());
            headers.extend(copy.map(|copy| (http::HeaderName::from_static(name), copy)));
        }
        Self { client, headers, body }
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
