//! REST: a second interface to the methods of JSON-RPC, for scripts, spreadsheets and HTTP caches.
//!
//! In: requests below `/v1/`, on the port of JSON-RPC ([`jsonrpc::HttpApi`]). Out: the result of a
//! `route::Route`'s method without its envelope. The slot and the commitment are in headers.
//! Bounds: those of the methods, which run as for JSON-RPC, with the same limits and cancellation. In addition, up to
//! `response::ETAG_BUFFER_BYTES_MAX` of a response are buffered to compute its `ETag`. A longer response is streamed.
//! Invariant: this crate reads only slots and examples from the node. All other data comes from methods of `rpc_solana`.
#![forbid(unsafe_code)]

mod composite;
mod content_negotiation;
#[cfg(test)]
mod docs_test;
mod error;
mod explorer;
mod link_header;
mod metrics;
mod openapi;
mod openapi_document;
mod params;
mod response;
mod route;
mod routes;
mod schema;
mod status_waiters;
mod transaction_status;
mod transform;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::metrics::{Collector, Exposition};
use http_server::ResponseBody;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};
use jsonrpc::{HttpApi, HttpApiRequest};
use rpc_solana::{SolanaApi, SolanaServer};

use crate::error::ApiError;
use crate::metrics::RestMetrics;
use crate::openapi_document::OpenApiDocument;
use crate::params::{Limits, Params};
use crate::response::RequestContext;
use crate::route::{HttpMethod, ResponseKind, Route};
use crate::status_waiters::{StatusWaiters, WAITER_BYTES};

pub use crate::status_waiters::WaiterEvents;

/// The REST API of a node.
pub struct Rest {
    metrics: RestMetrics,
    openapi: OpenApiDocument,
    explorer: response::StaticResponse,
    waiters: StatusWaiters,
    etag_buffer_bytes_max: usize,
}

impl Rest {
    /// The API of a ledger without events: clients that wait for a transaction are not woken.
    pub fn new() -> Self {
        Self {
            metrics: RestMetrics::new(),
            openapi: OpenApiDocument::default(),
            explorer: response::StaticResponse::new(
                "text/html; charset=utf-8",
                explorer::html().as_bytes(),
            ),
            waiters: StatusWaiters::default(),
            etag_buffer_bytes_max: response::ETAG_BUFFER_BYTES_MAX,
        }
    }

    /// The API, and the sink for the ledger's events, which wake the clients that wait for a transaction.
    /// Starts a thread, which ends when the sink is dropped.
    ///
    /// Errors: the thread could not be started.
    pub fn start() -> io::Result<(Self, WaiterEvents)> {
        let rest = Self::new();
        let events = rest.waiters.start()?;
        Ok((rest, events))
    }

    /// Buffers up to `bytes_max` bytes of a list or a block to hash them. Default: 1 MiB. A longer response gets
    /// an `ETag` computed from its dependencies, if they are known.
    pub fn with_etag_buffer(self, bytes_max: usize) -> Self {
        Self { etag_buffer_bytes_max: bytes_max, ..self }
    }

    /// The number of clients that wait for a transaction.
    pub fn waiters_len(&self) -> usize {
        self.waiters.len()
    }

    async fn respond(
        &self,
        server: &Arc<SolanaServer>,
        request: HttpApiRequest,
        route_index: &mut Option<usize>,
    ) -> Result<Response<ResponseBody>, ApiError> {
        let path = request.head.uri.path();
        let is_read = matches!(request.head.method, Method::GET | Method::HEAD);
        let headers = &request.head.headers;
        let found = find_route(path, &request.head.method);
        let route = found.as_ref().ok().copied();
        *route_index =
            route.and_then(|it| routes::ROUTES.iter().position(|one| std::ptr::eq(one, it)));
        // Counts as a request, whatever its result.
        request.method_client.admit(&server.context)?;
        match path {
            "/v1" | "/v1/" | "/v1/openapi.json" if !is_read => {
                return Err(ApiError::method_not_allowed(READ_METHODS));
            }
            "/v1" | "/v1/" => return Ok(self.explorer.respond(headers)),
            "/v1/openapi.json" => {
                return Ok(self.openapi.get_or_build(server).await?.respond(headers));
            }
            _ => {}
        }
        let route = found?;
        let has_raw = route.response.has_raw();
        let media = content_negotiation::negotiate_media(headers, has_raw).ok_or_else(|| {
            ApiError::not_acceptable(if has_raw {
                "application/json or application/octet-stream"
            } else {
                "application/json"
            })
        })?;
        let body =
            request.body.map_err(|(status, message)| ApiError::from_body_error(status, message))?;
        let (uri, caller) = (&request.head.uri, request.method_client);
        let (owned_uri, content_type) = (uri.clone(), headers.get(header::CONTENT_TYPE).cloned());
        let (body_len, limits) = (body.len(), Limits::from_node(server));
        let parse = move || {
            let params = Params::parse(route, &owned_uri, content_type.as_ref(), &body, limits)?;
            let call = (route.build_call)(&params)?;
            Ok::<_, ApiError>((params, call))
        };
        // A long body is parsed on the CPU pool.
        let (params, call) = caller.parse_offloaded(&server.context, body_len, parse).await??;
        let context = RequestContext {
            server,
            caller,
            uri,
            headers,
            media,
            is_read,
            etag_buffer_bytes_max: self.etag_buffer_bytes_max,
        };
        match (&route.response, call) {
            (ResponseKind::Composite, call) => composite::respond(&context, &params, call).await,
            (ResponseKind::Status, call) => {
                transaction_status::respond(&context, &self.waiters, &params, call).await
            }
            (_, call) => response::respond(&context, route, &params, call).await,
        }
    }
}

impl Default for Rest {
    fn default() -> Self {
        Self::new()
    }
}

/// `Allow` of a path that can only be read.
const READ_METHODS: &str = "GET, HEAD, OPTIONS";

impl HttpApi<SolanaApi> for Rest {
    fn owns_path(&self, path: &str) -> bool {
        path == "/v1" || path.starts_with("/v1/")
    }

    fn handle<'a>(
        &'a self,
        server: &'a Arc<SolanaServer>,
        request: HttpApiRequest,
    ) -> Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send + 'a>> {
        Box::pin(async move {
            if request.head.method == Method::OPTIONS {
                return options(request.head.uri.path());
            }
            let (started, mut route_index) = (server.context.pool.now(), None);
            let (caller, is_head) = (request.method_client, request.head.method == Method::HEAD);
            let response = match self.respond(server, request, &mut route_index).await {
                Ok(response) => response,
                Err(err) => err.into_response(),
            };
            if !is_head {
                caller.charge(&server.context, response.body().immediate_bytes());
            }
            let duration = server.context.pool.now().saturating_sub(started);
            self.metrics.record(route_index, response.status(), duration);
            response
        })
    }

    fn refuse(&self, status: StatusCode, message: &str) -> Response<ResponseBody> {
        let response = ApiError::from_head_error(status, message).into_response();
        self.metrics.record(None, status, Duration::ZERO);
        response
    }
}

impl Collector for Rest {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![("status_waiters", self.waiters.len() as u64 * WAITER_BYTES)]
    }

    fn write(&self, out: &mut Exposition) {
        self.metrics.write(out);
    }
}

/// The route of a request.
fn find_route(path: &str, method: &Method) -> Result<&'static Route, ApiError> {
    let mut found = routes::ROUTES.iter().filter(|route| route.matches(path).is_some());
    // A path without variables comes before one with them.
    let first = found.next().ok_or_else(ApiError::no_route)?;
    let verb = match *method {
        Method::GET | Method::HEAD => Some(HttpMethod::Get),
        Method::POST => Some(HttpMethod::Post),
        _ => None,
    };
    let same_path = routes::ROUTES.iter().filter(|route| route.path == first.path);
    match same_path.clone().find(|route| Some(route.method) == verb) {
        Some(route) => Ok(route),
        None => {
            Err(ApiError::method_not_allowed(allow_header(same_path.map(|route| route.method))))
        }
    }
}

fn allow_header(verbs: impl Iterator<Item = HttpMethod>) -> &'static str {
    let verbs: Vec<HttpMethod> = verbs.collect();
    match (verbs.contains(&HttpMethod::Get), verbs.contains(&HttpMethod::Post)) {
        (true, true) => "GET, HEAD, OPTIONS, POST",
        (true, false) => READ_METHODS,
        (false, _) => "OPTIONS, POST",
    }
}

fn options(path: &str) -> Response<ResponseBody> {
    let allow = match routes::ROUTES.iter().find(|route| route.matches(path).is_some()) {
        Some(first) => {
            let same_path = routes::ROUTES.iter().filter(|route| route.path == first.path);
            allow_header(same_path.map(|route| route.method))
        }
        None if matches!(path, "/v1" | "/v1/" | "/v1/openapi.json") => READ_METHODS,
        None => return ApiError::no_route().into_response(),
    };
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}
