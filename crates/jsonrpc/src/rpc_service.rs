//! JSON-RPC by POST, and the other paths of the port. An [`HttpApi`] gets the requests for its own paths.
//!
//! Statuses and texts are those of `jsonrpc-http-server` 18, which Agave uses. These are ours: 408 (a body that
//! arrives too slowly), 426 (the WebSocket port) and 429 (a class of the CPU pool or the transaction queue is
//! full, or the client reached its rate limit).
//! Every response has the slot of its state, or of the finalized state if it was computed from none ([`slot_headers`]).

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_server::{
    BodyError, ClientRefusal, ContentEncoding, HttpRequest, HttpService, RequestBody, ResponseBody,
    poll_budget, request_id, response, text_response,
};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use crate::api::{Api, Server};
use crate::dispatch::{self, CachedBody, JsonRpcResponse};
use crate::envelope::{self, Id};
use crate::error::RpcError;
use crate::method_client::MethodClient;
use crate::offload::INLINE_BODY_BYTES_MAX;
use crate::request_context::RequestContext;
use crate::server_context::ServerContext;
use crate::slot_headers::{self, StateSlot, read_min_slot};
use crate::state_slots::{StateRequirement, StateSlots};
use crate::status_endpoints::{health, ready, serve_metrics};
use crate::trace_parent::TraceParent;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// Serves the requests that are not JSON-RPC on the JSON-RPC port: REST.
pub trait HttpApi<A: Api>: Send + Sync + 'static {
    /// Whether this API serves the path.
    fn owns_path(&self, path: &str) -> bool;

    /// Whether this API serves the request with this head. It may serve some requests for a path that it does not own,
    /// such as those of browsers.
    fn owns_request(&self, head: &Parts) -> bool {
        self.owns_path(head.uri.path())
    }

    /// Answers a request.
    fn handle<'a>(
        &'a self,
        server: &'a Arc<Server<A>>,
        request: HttpApiRequest,
    ) -> HttpApiResponse<'a>;

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

/// The response of [`HttpApi`].
pub enum HttpApiResponse<'a> {
    /// A response that nothing had to be awaited for. It costs no memory for a future.
    Ready(Response<ResponseBody>),
    /// A future of the response. It is dropped when the client disconnects, which ends all work for it.
    Pending(Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send + 'a>>),
}

/// The service of the JSON-RPC port.
pub(crate) struct RpcService<A: Api> {
    pub(crate) server: Arc<Server<A>>,
    pub(crate) http_api: Option<Arc<dyn HttpApi<A>>>,
}

impl<A: Api> RpcService<A> {
    /// The API that serves a path, if it is not JSON-RPC.
    fn api_for_path(&self, path: &str) -> Option<&dyn HttpApi<A>> {
        self.http_api.as_deref().filter(|http_api| http_api.owns_path(path))
    }

    /// The state of a response that was computed from none. A client that requires its slot afterwards never waits.
    fn finalized_state(&self) -> StateSlot {
        let commitment = StateRequirement::none().commitment;
        let (_, slot) = self.server.api.version_and_slot(commitment);
        StateSlot { slot, commitment }
    }

    async fn respond(&self, request: HttpRequest) -> Response<ResponseBody> {
        let http_api = self.http_api.as_deref();
        let Some(http_api) = http_api.filter(|http_api| http_api.owns_request(&request.head))
        else {
            let is_options = request.head.method == Method::OPTIONS;
            let mut response = route(&self.server, request).await;
            if is_options {
                let headers = response.headers_mut();
                headers.insert(header::ALLOW, HeaderValue::from_static("OPTIONS, POST"));
                headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
            }
            return response;
        };
        let HttpRequest { client, id, page_access, reached, head, body } = request;
        let min_slot = match read_min_slot(&head.headers) {
            Ok(min_slot) => min_slot,
            Err(err) => return http_api.refuse(StatusCode::BAD_REQUEST, &err.to_string()),
        };
        let trace = trace_of(&self.server.context, &head.headers);
        let method_client = MethodClient::new(client, id, trace, page_access, reached);
        let method_client = method_client.with_min_slot(min_slot);
        let body = body.read().await.map_err(BodyError::into_status_and_text);
        poll_budget::charge_parsed(body.as_ref().map_or(0, inline_bytes));
        let request = HttpApiRequest { method_client, head, body };
        let mut response = match http_api.handle(&self.server, request) {
            HttpApiResponse::Ready(response) => response,
            HttpApiResponse::Pending(pending) => pending.await,
        };
        if let Some(id) = id.header() {
            response.headers_mut().insert(request_id::HEADER, id);
        }
        response
    }

    fn refuse_by_path(
        &self,
        path: &str,
        status: StatusCode,
        message: &str,
    ) -> Response<ResponseBody> {
        match self.api_for_path(path) {
            Some(http_api) => http_api.refuse(status, message),
            None => text_response(status, format!("{message}\n")),
        }
    }
}

impl<A: Api> HttpService for RpcService<A> {
    async fn handle(&self, request: HttpRequest) -> Response<ResponseBody> {
        let state = self.finalized_state();
        with_slot(state, self.respond(request).await)
    }

    fn refuse(&self, path: &str, status: StatusCode, message: &str) -> Response<ResponseBody> {
        let state = self.finalized_state();
        with_slot(state, self.refuse_by_path(path, status, message))
    }

    fn is_resource(&self, path: &str) -> bool {
        self.api_for_path(path).is_some()
    }

    fn is_served_while_draining(&self, path: &str) -> bool {
        matches!(path, "/health" | "/ready" | "/metrics")
    }

    fn refuse_client(&self, path: &str, refusal: ClientRefusal) -> Response<ResponseBody> {
        let state = self.finalized_state();
        if let Some(http_api) = self.api_for_path(path) {
            return with_slot(state, http_api.refuse(refusal.status, &refusal.message));
        }
        // The body with the id was not read.
        let err = RpcError::refused_client(&refusal);
        let text = envelope::error_response(&err, &Id::Null, true);
        with_slot(state, response(refusal.status, JSON, Bytes::from(text).into()))
    }

    fn is_open(&self, path: &str) -> bool {
        matches!(path, "/health" | "/ready")
    }
}

/// Adds the slot of a state, which was read before the response was computed, to a response that has none.
fn with_slot(state: StateSlot, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    if !response.headers().contains_key(slot_headers::SLOT) {
        state.write(response.headers_mut());
    }
    response
}

/// The trace of a request, if spans are exported.
fn trace_of(server: &ServerContext, headers: &HeaderMap) -> Option<TraceParent> {
    server.metrics.span_sink().and_then(|_| TraceParent::sampled_in(headers))
}

async fn route<A: Api>(server: &Arc<Server<A>>, request: HttpRequest) -> Response<ResponseBody> {
    let HttpRequest { client, id, page_access, reached, head, body } = request;
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    match head.uri.path() {
        "/health" => return health(&server.context),
        "/ready" if is_read => return ready(&server.context),
        "/metrics" if is_read && server.context.metrics.is_public() => {
            return serve_metrics(&server.context, client).await;
        }
        "/metrics" if is_read => {
            let message = "the metrics of this node have an address of their own\n";
            return text_response(StatusCode::NOT_FOUND, message);
        }
        _ => {}
    }
    match head.method {
        Method::POST if is_json(&head.headers) => {
            let coding = ContentEncoding::negotiate(&head.headers);
            let options = None;
            let arrived = Duration::ZERO;
            let min_slot = match read_min_slot(&head.headers) {
                Ok(min_slot) => min_slot,
                Err(err) => return text_response(StatusCode::BAD_REQUEST, format!("{err}\n")),
            };
            let trace = trace_of(&server.context, &head.headers);
            let context = RequestContext {
                client,
                coding,
                options,
                request: id,
                trace,
                page_access,
                reached,
                arrived,
                min_slot,
                slots: StateSlots::default(),
            };
            post(server, context, body).await
        }
        Method::POST => text_response(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Supplied content type is not allowed. Content-Type: application/json is required\n",
        ),
        Method::OPTIONS => response(StatusCode::OK, JSON, ResponseBody::default()),
        _ => text_response(
            StatusCode::METHOD_NOT_ALLOWED,
            "Used HTTP Method is not allowed. POST or OPTIONS is required\n",
        ),
    }
}

async fn post<A: Api>(
    server: &Arc<Server<A>>,
    mut context: RequestContext,
    body: RequestBody,
) -> Response<ResponseBody> {
    let body = match body.read().await {
        Ok(body) => body,
        Err(err) => return err.into_response(),
    };
    context.arrived = server.context.pool.now();
    let answer = match dispatch::handle_body(server, context, body).await {
        Ok(answer) => answer,
        Err(err) => return BodyError::Utf8(err).into_response(),
    };
    let is_inline = matches!(answer, JsonRpcResponse::Inline(_));
    let mut retry_after_s = None;
    let (body, coding, state) = match answer {
        JsonRpcResponse::Empty => {
            return response(StatusCode::OK, JSON, ResponseBody::default());
        }
        JsonRpcResponse::Inline(whole) | JsonRpcResponse::Pooled(whole, None) => {
            server.context.charge(context.client, whole.bytes.len());
            retry_after_s = whole.retry_after_s;
            (whole.bytes.into(), whole.coding, whole.state)
        }
        JsonRpcResponse::Cached(CachedBody { parts, coding, state, .. }) => {
            (server.context.cached_body(context.client, parts), coding, state)
        }
        JsonRpcResponse::Pooled(first, Some(rest)) => {
            let coding = first.coding;
            let state = first.state;
            (server.context.streamed_body(context.client, first, rest), coding, state)
        }
    };
    let mut response = response(StatusCode::OK, JSON, body);
    let headers = response.headers_mut();
    if let Some(state) = state {
        state.write(headers);
    }
    if let Some(coding) = coding.header() {
        headers.insert(header::CONTENT_ENCODING, coding);
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    if !is_inline && let Some(id) = context.request.header() {
        headers.insert(request_id::HEADER, id);
    }
    if let Some(seconds) = retry_after_s {
        headers.insert(header::RETRY_AFTER, seconds.into());
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    }
    response
}

/// Bytes of a body that are parsed on this thread.
fn inline_bytes(body: &Bytes) -> usize {
    if body.len() > INLINE_BODY_BYTES_MAX { 0 } else { body.len() }
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|content_type| {
        ["application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"]
            .iter()
            .any(|allowed| content_type.eq_ignore_ascii_case(allowed))
    })
}
