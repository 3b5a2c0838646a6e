//! One HTTP request, one response: JSON-RPC by POST, `/health`, `/ready`, `/metrics`, CORS, the upgrade to
//! WebSocket. An [`HttpApi`] gets the requests for its own paths.
//!
//! Statuses and texts are those of `jsonrpc-http-server` 18, which Agave uses. These are ours: 408 (a body that
//! arrives too slowly), 426 (the WebSocket port) and 429 (a class of the CPU pool or the transaction queue is
//! full, or the client reached its rate limit).

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::str::Utf8Error;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use metrics::{Collector, MEDIA_TYPE};
use pool::ClientId;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::body::ResponseBody;
use crate::client_id;
use crate::content_encoding::ContentEncoding;
use crate::cors::CorsHeaders;
use crate::dispatch::{self, JsonRpcResponse};
use crate::head::{self, HeadError};
use crate::health::Status;
use crate::method_client::MethodClient;
use crate::metrics::HttpEvent;
use crate::node::Node;
use crate::offload::INLINE_BODY_BYTES_MAX;
use crate::poll_budget::{self, REQUEST_UNITS};
use crate::request_context::RequestContext;
use crate::request_id::{self, RequestId};
use crate::server::read_buffer_bytes_max;

/// Bytes of a `Sec-WebSocket-Key` before base64 (RFC 6455, 4.1).
const WEBSOCKET_KEY_BYTES: usize = 16;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Headers of a node that is behind: by how many slots, and for how long there has been no new block.
const SLOTS_BEHIND: HeaderName = HeaderName::from_static("hydrant-slots-behind");
const LAST_BLOCK_AGE_MS: HeaderName = HeaderName::from_static("hydrant-last-block-age-ms");

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOrigin {
    pub(crate) peer: IpAddr,
    /// Number of the connection, counted from the start of the process.
    pub(crate) connection: u64,
    /// Number of the request on its connection.
    pub(crate) number: u64,
}

/// What a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    /// JSON-RPC, and WebSocket by upgrade.
    Rpc,
    /// WebSocket only.
    PubSub,
}

/// Serves the requests that are not JSON-RPC on the JSON-RPC port: REST.
pub trait HttpApi: Send + Sync + 'static {
    /// Whether this API serves the path.
    fn owns_path(&self, path: &str) -> bool;

    /// Answers a request. The future is dropped when the client disconnects, which ends all work for it.
    fn handle<'a>(
        &'a self,
        node: &'a Arc<Node>,
        request: HttpApiRequest,
    ) -> Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send + 'a>>;

    /// The response to a request that is refused because of its head.
    fn refuse(&self, status: StatusCode, message: &str) -> Response<ResponseBody>;
}

/// A request for [`HttpApi`].
pub struct HttpApiRequest {
    /// Calls methods for the client of the request.
    pub method_client: MethodClient,
    /// Method, URI and headers.
    pub head: Parts,
    /// The whole body; if it was not read, the status and the text of the refusal. After status 408 or 413 the
    /// connection must be closed.
    pub body: Result<Bytes, (StatusCode, String)>,
}

/// A connection that is about to change its protocol.
pub(crate) struct Upgrade {
    pub(crate) connection: OnUpgrade,
    /// The client that opened it.
    pub(crate) client: ClientId,
}

/// A response, and the connection if its protocol changes after the response.
pub(crate) struct HandledRequest {
    pub(crate) response: Response<ResponseBody>,
    pub(crate) upgrade: Option<Upgrade>,
}

/// Answers one request.
pub(crate) async fn handle(
    node: &Arc<Node>,
    http_api: Option<&Arc<dyn HttpApi>>,
    listener_kind: ListenerKind,
    origin: RequestOrigin,
    mut request: Request<Incoming>,
) -> HandledRequest {
    let id = RequestId::from_headers(request.headers(), origin.connection, origin.number);
    let (uri, headers) = (request.uri(), request.headers());
    let head_bytes = head::bytes(uri, headers);
    poll_budget::charge(REQUEST_UNITS);
    poll_budget::charge_parsed(head_bytes);
    let mut handled = match head::check(&node.config, uri, headers, head_bytes) {
        Err(err) => refuse(node, http_api, listener_kind, &err, &request),
        Ok(()) if is_websocket_upgrade(&request) => {
            let client = client(node, origin.peer, request.headers());
            handshake(&mut request, client)
        }
        Ok(()) => respond_to(node, http_api, listener_kind, (origin.peer, id), request).await,
    };
    let response = &mut handled.response;
    // A cheap successful response has a request id only if the client supplied it.
    if (id.is_supplied() || response.status() != StatusCode::OK)
        && let Some(id) = id.header()
    {
        response.headers_mut().entry(request_id::HEADER).or_insert(id);
    }
    node.metrics.http.record_response(response.status().as_u16());
    handled
}

/// Refuses a request because of its head. The connection is closed, because the body was not read.
fn refuse(
    node: &Node,
    http_api: Option<&Arc<dyn HttpApi>>,
    listener_kind: ListenerKind,
    err: &HeadError,
    request: &Request<Incoming>,
) -> HandledRequest {
    let (status, message) = (err.status(), err.to_string());
    let http_api = api_for_path(http_api, listener_kind, request);
    let mut response = match http_api {
        Some(http_api) => http_api.refuse(status, &message),
        None => text(status, message + "\n"),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        // The encoding that is accepted (RFC 9110, 15.5.16).
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    // A page whose origin is not allowed must not be able to read the reason.
    if !matches!(err, HeadError::Origin(_)) {
        CorsHeaders::from_headers(
            &node.config.allowed_origins,
            request.headers(),
            http_api.is_some(),
        )
        .write(headers);
    }
    HandledRequest { response, upgrade: None }
}

/// The API that serves the path of a request, if it is not JSON-RPC.
fn api_for_path<'w>(
    http_api: Option<&'w Arc<dyn HttpApi>>,
    listener_kind: ListenerKind,
    request: &Request<Incoming>,
) -> Option<&'w Arc<dyn HttpApi>> {
    http_api.filter(|http_api| {
        listener_kind == ListenerKind::Rpc && http_api.owns_path(request.uri().path())
    })
}

async fn respond_to(
    node: &Arc<Node>,
    http_api: Option<&Arc<dyn HttpApi>>,
    listener_kind: ListenerKind,
    (peer, id): (IpAddr, RequestId),
    request: Request<Incoming>,
) -> HandledRequest {
    let http_api = api_for_path(http_api, listener_kind, &request);
    let cors = CorsHeaders::from_headers(
        &node.config.allowed_origins,
        request.headers(),
        http_api.is_some(),
    );
    let is_options = http_api.is_none() && *request.method() == Method::OPTIONS;
    let mut response = match (listener_kind, http_api) {
        (ListenerKind::PubSub, _) => needs_websocket(),
        (ListenerKind::Rpc, None) => route(node, (peer, id), request).await,
        (ListenerKind::Rpc, Some(http_api)) => {
            let context = request_context(node, (peer, id), request.headers());
            let method_client = MethodClient::new(context.client, id);
            let (head, body) = request.into_parts();
            let body = read_body(node, body).await.map_err(BodyError::into_status_and_text);
            poll_budget::charge_parsed(body.as_ref().map_or(0, inline_bytes));
            let mut response =
                http_api.handle(node, HttpApiRequest { method_client, head, body }).await;
            if let Some(id) = id.header() {
                response.headers_mut().insert(request_id::HEADER, id);
            }
            response
        }
    };
    if is_options {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("OPTIONS, POST"));
        response.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    }
    cors.write(response.headers_mut());
    HandledRequest { response, upgrade: None }
}

async fn route(
    node: &Arc<Node>,
    from: (IpAddr, RequestId),
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    match request.uri().path() {
        "/health" => return health(node),
        "/ready" if is_read(&request) => return ready(node),
        "/metrics" if is_read(&request) => {
            let context = request_context(node, from, request.headers());
            return serve_metrics(node, context.client).await;
        }
        _ => {}
    }
    match *request.method() {
        Method::POST if is_json(request.headers()) => {
            let context = request_context(node, from, request.headers());
            post(node, context, request.into_body()).await
        }
        Method::POST => text(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Supplied content type is not allowed. Content-Type: application/json is required\n",
        ),
        Method::OPTIONS => json(StatusCode::OK, ResponseBody::default()),
        _ => text(
            StatusCode::METHOD_NOT_ALLOWED,
            "Used HTTP Method is not allowed. POST or OPTIONS is required\n",
        ),
    }
}

fn client(node: &Node, peer: IpAddr, headers: &HeaderMap) -> ClientId {
    client_id::client(node.config.client_header.as_ref(), peer, headers)
}

fn request_context(
    node: &Node,
    (peer, request): (IpAddr, RequestId),
    headers: &HeaderMap,
) -> RequestContext {
    let client = client(node, peer, headers);
    let coding = ContentEncoding::negotiate(headers);
    RequestContext { client, coding, options: None, request, arrived: Duration::ZERO }
}

async fn post(
    node: &Arc<Node>,
    mut context: RequestContext,
    body: Incoming,
) -> Response<ResponseBody> {
    let body = match read_body(node, body).await {
        Ok(body) => body,
        Err(err) => return err.into_response(),
    };
    context.arrived = node.pool.now();
    let (mut is_here, mut retry_after_s) = (false, None);
    let response = match dispatch::handle_body(node, context, body).await {
        Ok(response) => response,
        Err(err) => return BodyError::Utf8(err).into_response(),
    };
    let (body, coding) = match response {
        JsonRpcResponse::Empty => return json(StatusCode::OK, ResponseBody::default()),
        JsonRpcResponse::Full(full) => {
            node.charge(context.client, full.text.len());
            (is_here, retry_after_s) = (!full.is_from_pool, full.retry_after_s);
            (full.text.into(), full.coding)
        }
        JsonRpcResponse::Cached(parts, coding, _) => {
            (ResponseBody::from_cached(node, context.client, parts), coding)
        }
        JsonRpcResponse::Streamed(first, rest) => {
            let coding = first.coding;
            (ResponseBody::streamed(node, context.client, first, rest), coding)
        }
    };
    let mut response = json(StatusCode::OK, body);
    let headers = response.headers_mut();
    if let Some(coding) = coding.header() {
        headers.insert(header::CONTENT_ENCODING, coding);
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    if !is_here && let Some(id) = context.request.header() {
        headers.insert(request_id::HEADER, id);
    }
    if let Some(seconds) = retry_after_s {
        headers.insert(header::RETRY_AFTER, seconds.into());
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    }
    response
}

/// Why a body was not read.
enum BodyError {
    TooLarge { bytes_max: usize },
    TooSlow { timeout_ms: u64 },
    Utf8(Utf8Error),
    Broken,
}

impl BodyError {
    fn into_status_and_text(self) -> (StatusCode, String) {
        match self {
            Self::TooLarge { bytes_max } => (
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "request body size exceeds allowed maximum: {bytes_max} bytes (rpc.body_bytes_max)\n"
                ),
            ),
            Self::TooSlow { timeout_ms } => (
                StatusCode::REQUEST_TIMEOUT,
                format!("request body took longer than {timeout_ms} ms (rpc.body_timeout_ms)\n"),
            ),
            Self::Utf8(err) => (
                StatusCode::BAD_REQUEST,
                format!("utf-8 encoding error at byte {} in request body", err.valid_up_to()),
            ),
            Self::Broken => (StatusCode::BAD_REQUEST, "request body is broken\n".to_owned()),
        }
    }

    fn into_response(self) -> Response<ResponseBody> {
        let (status, message) = self.into_status_and_text();
        let closes = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE);
        let mut response = text(status, message);
        if closes {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Reads a body. A body that is too long is refused as soon as its length is known, and the rest of it is not
/// read: the connection must be closed after the response, and lingers ([`crate::write_timeout`]).
async fn read_body(node: &Node, mut body: Incoming) -> Result<Bytes, BodyError> {
    let (bytes_max, timeout_ms) = (node.config.body_bytes_max, node.config.body_timeout_ms);
    let announced = body.size_hint().lower();
    if announced > bytes_max as u64 {
        return Err(BodyError::TooLarge { bytes_max });
    }
    let read = tokio::time::timeout(Duration::from_millis(timeout_ms), async {
        let mut collected = BytesMut::new();
        let mut partial = PartialBody { node, bytes: 0 };
        while let Some(frame) = body.frame().await {
            let Ok(chunk) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
            if collected.len() + chunk.len() > bytes_max {
                return Err(BodyError::TooLarge { bytes_max });
            }
            if collected.is_empty() {
                // Nearly every body is one chunk, which is not copied.
                if body.is_end_stream() {
                    return Ok(chunk);
                }
            }
            // It grows with what has arrived, so a client that only announces a long body takes no memory for it.
            collected.extend_from_slice(&chunk);
            partial.set((collected.capacity() + read_buffer_bytes_max(&node.config)) as u64);
        }
        Ok(collected.freeze())
    });
    read.await.unwrap_or(Err(BodyError::TooSlow { timeout_ms }))
}

/// Counts the memory of a body that is not complete, including the read buffer of its connection.
struct PartialBody<'a> {
    node: &'a Node,
    bytes: u64,
}

impl PartialBody<'_> {
    fn set(&mut self, bytes: u64) {
        let grown = bytes.saturating_sub(self.bytes);
        self.bytes += grown;
        self.node.metrics.http.add(HttpEvent::BodyStarted, grown);
    }
}

impl Drop for PartialBody<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.node.metrics.http.add(HttpEvent::BodyEnded, self.bytes);
        }
    }
}

/// Bytes of a body that are parsed on this thread.
fn inline_bytes(body: &Bytes) -> usize {
    if body.len() > INLINE_BODY_BYTES_MAX { 0 } else { body.len() }
}

fn is_read(request: &Request<Incoming>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Agave's texts, always with status 200 as in Agave; headers say how far the node is behind.
fn health(node: &Node) -> Response<ResponseBody> {
    let (message, slots) = match node.health.status() {
        Status::Ok => return text(StatusCode::OK, "ok"),
        Status::Behind { slots } => ("behind", Some(slots)),
        Status::Unknown => ("unknown", None),
    };
    let mut response = text(StatusCode::OK, message);
    let headers = response.headers_mut();
    if let Some(slots) = slots {
        headers.insert(SLOTS_BEHIND, slots.into());
    }
    if let Some(age) = last_block_age(node) {
        headers.insert(LAST_BLOCK_AGE_MS, (age.as_millis() as u64).into());
    }
    response
}

/// Whether a load balancer should send requests here: 200, or 503 with the reason.
fn ready(node: &Node) -> Response<ResponseBody> {
    let why = match node.health.status() {
        Status::Ok => return fresh(text(StatusCode::OK, "ready\n")),
        Status::Behind { slots } => format!("behind by {slots} slots"),
        Status::Unknown => "unknown".to_owned(),
    };
    let age =
        last_block_age(node).map(|age| format!(", last block {:.1} s ago", age.as_secs_f64()));
    let why = format!("{why}{}\n", age.unwrap_or_default());
    fresh(text(StatusCode::SERVICE_UNAVAILABLE, why))
}

fn last_block_age(node: &Node) -> Option<Duration> {
    let [processed, ..] = node.health.slot_ages(node.pool.now())?;
    Some(processed)
}

/// Metrics are collected on the CPU pool, because that walks the ledger. The request counts against the
/// client's rate limit.
async fn serve_metrics(node: &Arc<Node>, client: ClientId) -> Response<ResponseBody> {
    if let Err(too_many) = node.admit(client, 1) {
        let mut response = text(StatusCode::TOO_MANY_REQUESTS, format!("{too_many}\n"));
        let seconds = too_many.retry_after.as_secs() + 1;
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        return response;
    }
    match node.metrics.scrape(Arc::clone(node) as Arc<dyn Collector>).await {
        Some(text) => {
            node.charge(client, text.len());
            let media = HeaderValue::from_static(MEDIA_TYPE);
            fresh(respond(StatusCode::OK, media, text.into()))
        }
        None => text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be collected\n"),
    }
}

fn fresh(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|content_type| {
        ["application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"]
            .iter()
            .any(|allowed| content_type.eq_ignore_ascii_case(allowed))
    })
}

fn is_websocket_upgrade(request: &Request<Incoming>) -> bool {
    let has_token = |name: HeaderName, what: &str| {
        request
            .headers()
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.split(',').any(|token| token.trim().eq_ignore_ascii_case(what)))
    };
    *request.method() == Method::GET
        && has_token(header::CONNECTION, "upgrade")
        && has_token(header::UPGRADE, "websocket")
}

fn handshake(request: &mut Request<Incoming>, client: ClientId) -> HandledRequest {
    let refused =
        |status, message| HandledRequest { response: text(status, message), upgrade: None };
    let headers = request.headers();
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let mut handled =
            refused(StatusCode::UPGRADE_REQUIRED, "Sec-WebSocket-Version: 13 is required\n");
        let version = HeaderValue::from_static("13");
        handled.response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, version);
        return handled;
    }
    let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY) else {
        return refused(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is required\n");
    };
    let is_key = |key: Vec<u8>| key.len() == WEBSOCKET_KEY_BYTES;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
    let (true, Ok(accept)) = (BASE64_STANDARD.decode(key).is_ok_and(is_key), accept) else {
        return refused(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is not 16 bytes in base64\n");
    };
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    let connection = hyper::upgrade::on(request);
    HandledRequest { response, upgrade: Some(Upgrade { connection, client }) }
}

fn needs_websocket() -> Response<ResponseBody> {
    let message = "This port speaks WebSocket. JSON-RPC over HTTP is on the port before it\n";
    let mut response = text(StatusCode::UPGRADE_REQUIRED, message);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    response
}

fn json(status: StatusCode, body: ResponseBody) -> Response<ResponseBody> {
    respond(status, JSON, body)
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<ResponseBody> {
    respond(status, TEXT, body.into().into())
}

fn respond(
    status: StatusCode,
    content_type: HeaderValue,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
