//! One HTTP request, one response: checks of the head, CORS, the request id, the upgrade to WebSocket. An
//! [`HttpService`] handles all other requests.
//!
//! Bounds: a client with an API key that gets too many refusals gets later ones late, and so does an address without a
//! valid key. Nothing is read from their connections meanwhile, so such a client costs a bounded number of requests a
//! second.
//! Not here: the meaning of a path ([`HttpService`]), reading a body (`request_body`).

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api_keys::{AuthError, LimitReached, Permit};
use clients::ClientId;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};

use crate::body::ResponseBody;
use crate::client_id;
use crate::cors::CorsHeaders;
use crate::head::{self, HeadError};
use crate::http_context::HttpContext;
use crate::page_access::PageAccess;
use crate::poll_budget::{self, REQUEST_UNITS};
use crate::request_body::RequestBody;
use crate::request_id::{self, RequestId};
use crate::responses::text_response;
use crate::websocket_handshake::{
    HandledRequest, handshake, is_websocket_upgrade, needs_websocket,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOrigin {
    pub(crate) peer: IpAddr,
    /// The address of the node on which the connection arrived.
    pub(crate) reached: Option<IpAddr>,
    /// Number of the connection, counted from the start of the process.
    pub(crate) connection: u64,
    /// Number of the request on its connection.
    pub(crate) number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    /// HTTP, and WebSocket by upgrade.
    Rpc,
    /// WebSocket only.
    PubSub,
}

/// Answers the requests of a port.
pub trait HttpService: Send + Sync + 'static {
    /// Answers a request. The future is dropped when the client disconnects, which ends all work for it.
    fn handle(&self, request: HttpRequest) -> impl Future<Output = Response<ResponseBody>> + Send;

    /// The response to a request that is refused because of its head.
    fn refuse(&self, path: &str, status: StatusCode, message: &str) -> Response<ResponseBody>;

    /// Whether a path is an API of resources, which web pages read with more methods and headers than JSON-RPC.
    fn is_resource(&self, path: &str) -> bool;

    /// Whether a path is served while the server drains ([`crate::Drain`]): the state of the server itself.
    fn is_served_while_draining(&self, path: &str) -> bool;
    /// The response to a request that is refused because of its client: its API key, or a limit of the key.
    fn refuse_client(&self, path: &str, refusal: ClientRefusal) -> Response<ResponseBody>;

    /// Whether a path needs no API key.
    fn is_open(&self, path: &str) -> bool;
}

/// Why a client is refused before its request is read.
#[derive(Clone, Debug)]
pub struct ClientRefusal {
    /// 401, 403 or 429.
    pub status: StatusCode,
    /// For people.
    pub message: String,
    /// Seconds after which to retry.
    pub retry_after_s: Option<u64>,
}

impl From<AuthError> for ClientRefusal {
    fn from(err: AuthError) -> Self {
        // The statuses of these errors are valid.
        let status = StatusCode::from_u16(err.status()).unwrap_or(StatusCode::UNAUTHORIZED);
        Self { status, message: err.to_string(), retry_after_s: err.retry_after_s() }
    }
}

impl From<LimitReached> for ClientRefusal {
    fn from(reached: LimitReached) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let message = reached.to_string();
        Self { status, message, retry_after_s: Some(reached.retry_after.as_secs() + 1) }
    }
}

/// A request whose head was checked.
pub struct HttpRequest {
    /// The client, for rate limits and fair scheduling.
    pub client: ClientId,
    /// Id of the request in the log.
    pub id: RequestId,
    /// Whether it may call dangerous methods.
    pub page_access: PageAccess,
    /// The address of the node on which it arrived: one that reaches the node from its client.
    pub reached: Option<IpAddr>,
    /// Method, URI and headers.
    pub head: Parts,
    /// The body, which is not read yet.
    pub body: RequestBody,
}

/// Answers one request.
pub(crate) async fn handle<S: HttpService>(
    context: &Arc<HttpContext>,
    service: &S,
    listener_kind: ListenerKind,
    origin: RequestOrigin,
    mut request: Request<Incoming>,
) -> HandledRequest {
    let id = RequestId::from_headers(request.headers(), origin.connection, origin.number);
    let uri = request.uri();
    let headers = request.headers();
    let head_bytes = head::bytes(uri, headers);
    poll_budget::charge(REQUEST_UNITS);
    poll_budget::charge_parsed(head_bytes);
    let is_refused = context.drain.has_begun()
        && !(listener_kind == ListenerKind::Rpc && service.is_served_while_draining(uri.path()));
    let checked = match is_refused {
        true => Err(HeadError::Draining),
        false => head::check(&context.config, uri, headers, head_bytes),
    };
    let mut handled = match checked {
        Err(err) => refuse(context, service, listener_kind, &err, &request),
        Ok(()) => {
            let is_upgrade = is_websocket_upgrade(&request);
            match identify(context, service, is_upgrade, origin.peer, &mut request) {
                Err((refusal, delay)) => {
                    wait(delay).await;
                    refuse_client(context, service, listener_kind, refusal, &request)
                }
                Ok((client, permit)) if is_upgrade => handshake(&mut request, client, permit),
                Ok((client, _)) => {
                    respond_to(context, service, listener_kind, (client, id), origin, request).await
                }
            }
        }
    };
    let response = &mut handled.response;
    // A cheap successful response has a request id only if the client supplied it. The service may have added the id.
    if (id.is_supplied() || response.status() != StatusCode::OK)
        && !response.headers().contains_key(request_id::HEADER)
        && let Some(id) = id.header()
    {
        response.headers_mut().insert(request_id::HEADER, id);
    }
    context.metrics.record_response(response.status().as_u16());
    handled
}

/// Waits before a refusal is sent, if its client has too many of them.
async fn wait(delay: Option<Duration>) {
    if let Some(delay) = delay {
        // In a box: otherwise the future of every request would be as large as this one.
        Box::pin(tokio::time::sleep(delay)).await;
    }
}

/// The client of a request: its API key, if clients have some, or its address. An upgrade gets a permit. A refusal comes
/// with the time that it must wait.
fn identify<S: HttpService>(
    context: &HttpContext,
    service: &S,
    is_upgrade: bool,
    peer: IpAddr,
    request: &mut Request<Incoming>,
) -> Result<(ClientId, Option<Permit>), (ClientRefusal, Option<Duration>)> {
    let header = context.config.client_header.as_ref();
    let client = client_id::client(header, peer, request.headers());
    let Some(authenticator) = &context.authenticator else { return Ok((client, None)) };
    // A browser sends no key with the request that a page's request needs before it.
    let is_open = *request.method() == Method::OPTIONS || service.is_open(request.uri().path());
    if is_open && !is_upgrade {
        return Ok((client, None));
    }
    let address = client_id::address(header, peer, request.headers());
    let mut uri = std::mem::take(request.uri_mut());
    let found = authenticator.authenticate(&mut uri, request.headers(), address, client);
    *request.uri_mut() = uri;
    let client = match found {
        Ok(client) => client,
        Err(err) => return Err((err.into(), authenticator.delay_failure(client))),
    };
    match is_upgrade.then(|| authenticator.open_socket(client)).transpose() {
        Ok(permit) => Ok((client, permit)),
        Err(reached) => Err((reached.into(), authenticator.delay_refusal(client))),
    }
}

/// Refuses a client. The connection is closed, because the body was not read.
fn refuse_client<S: HttpService>(
    context: &HttpContext,
    service: &S,
    listener_kind: ListenerKind,
    refusal: ClientRefusal,
    request: &Request<Incoming>,
) -> HandledRequest {
    let path = request.uri().path();
    let status = refusal.status;
    let retry_after_s = refusal.retry_after_s;
    let mut response = match listener_kind {
        ListenerKind::Rpc => service.refuse_client(path, refusal),
        ListenerKind::PubSub => text_response(status, refusal.message + "\n"),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = retry_after_s {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    cors(context, service, listener_kind, path, request.headers()).write(headers);
    HandledRequest { response, upgrade: None }
}

/// Refuses a request because of its head. The connection is closed, because the body was not read.
fn refuse<S: HttpService>(
    context: &HttpContext,
    service: &S,
    listener_kind: ListenerKind,
    err: &HeadError,
    request: &Request<Incoming>,
) -> HandledRequest {
    let status = err.status();
    let message = err.to_string();
    let mut response = match listener_kind {
        ListenerKind::Rpc => service.refuse(request.uri().path(), status, &message),
        ListenerKind::PubSub => text_response(status, message + "\n"),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        // The encoding that is accepted (RFC 9110, 15.5.16).
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    // A page whose origin is not allowed must not be able to read the reason.
    if !matches!(err, HeadError::Origin(_)) {
        let path = request.uri().path();
        cors(context, service, listener_kind, path, request.headers()).write(headers);
    }
    HandledRequest { response, upgrade: None }
}

fn cors<S: HttpService>(
    context: &HttpContext,
    service: &S,
    listener_kind: ListenerKind,
    path: &str,
    headers: &HeaderMap,
) -> CorsHeaders {
    let is_resource = listener_kind == ListenerKind::Rpc && service.is_resource(path);
    CorsHeaders::from_headers(&context.config.allowed_origins, headers, is_resource)
}

async fn respond_to<S: HttpService>(
    context: &Arc<HttpContext>,
    service: &S,
    listener_kind: ListenerKind,
    (client, id): (ClientId, RequestId),
    RequestOrigin { reached, .. }: RequestOrigin,
    request: Request<Incoming>,
) -> HandledRequest {
    let cors = cors(context, service, listener_kind, request.uri().path(), request.headers());
    let mut response = match listener_kind {
        ListenerKind::PubSub => needs_websocket(),
        ListenerKind::Rpc => {
            let (head, body) = request.into_parts();
            let body = RequestBody::new(body, client, Arc::clone(context));
            let page_access =
                PageAccess::from_headers(&context.config.allowed_origins, &head.headers);
            service.handle(HttpRequest { client, id, page_access, reached, head, body }).await
        }
    };
    cors.write(response.headers_mut());
    if let Some(authenticator) = &context.authenticator {
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            wait(authenticator.delay_refusal(client)).await;
        }
        authenticator.write_rate(client, response.headers_mut());
    }
    HandledRequest { response, upgrade: None }
}
