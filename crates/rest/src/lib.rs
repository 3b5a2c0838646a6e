//! REST: a second door to the methods of JSON-RPC, for scripts, spreadsheets and HTTP caches.
//!
//! In: requests below `/v1/`, on the port of JSON-RPC ([`rpc::HttpApi`]). Out: what the method of a `route::Route` answers, without its envelope: the slot and the commitment are in headers.
//! Bounds: those of the methods, which run as JSON-RPC's do, limits and cancellation included; beside them
//! `answer::ETAG_BUFFER_BYTES_MAX` of an answer are held to know its `ETag`, and what is longer is streamed.
//! Invariant: nothing is read here but slots and examples. What a route answers, methods of `rpc` have answered.
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

use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};
use rpc::metrics::{Collector, Exposition};
use rpc::{HttpApi, HttpApiRequest, Node, ResponseBody};

use crate::error::ApiError;
use crate::metrics::RestMetrics;
use crate::openapi_document::OpenApiDocument;
use crate::params::{Limits, Params};
use crate::response::RequestContext;
use crate::route::{HttpMethod, ResponseKind, Route};
use crate::status_waiters::StatusWaiters;

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
    /// The API of a ledger that stands still: nobody is woken who waits for a transaction.
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

    /// The API, and where the ledger puts its events: those who wait for a transaction are woken by them.
    /// Starts a thread, which ends when the events are dropped.
    ///
    /// Errors: the thread could not be started.
    pub fn start() -> io::Result<(Self, WaiterEvents)> {
        let rest = Self::new();
        let events = rest.waiters.start()?;
        Ok((rest, events))
    }

    /// Holds at most so many bytes of a list or a block to hash them; 1 MiB if it is not said. What is longer
    /// gets an `ETag` of what it is made from, where that is known.
    pub fn with_etag_buffer(self, bytes_max: usize) -> Self {
        Self { etag_buffer_bytes_max: bytes_max, ..self }
    }

    /// How many clients wait for a transaction now.
    pub fn waiters_len(&self) -> usize {
        self.waiters.len()
    }

    async fn respond(
        &self,
        node: &Arc<Node>,
        request: HttpApiRequest,
        number: &mut Option<usize>,
    ) -> Result<Response<ResponseBody>, ApiError> {
        let path = request.head.uri.path();
        let is_read = matches!(request.head.method, Method::GET | Method::HEAD);
        let headers = &request.head.headers;
        let found = find_route(path, &request.head.method);
        let route = found.as_ref().ok().copied();
        *number = route.and_then(|it| routes::ROUTES.iter().position(|one| std::ptr::eq(one, it)));
        // Whatever comes of it, it is a request.
        request.method_client.admit(node)?;
        match path {
            "/v1" | "/v1/" | "/v1/openapi.json" if !is_read => {
                return Err(ApiError::method_not_allowed(READ_METHODS));
            }
            "/v1" | "/v1/" => return Ok(self.explorer.respond(headers)),
            "/v1/openapi.json" => {
                return Ok(self.openapi.get_or_build(node).await?.respond(headers));
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
            request.body.map_err(|(status, words)| ApiError::from_body_error(status, words))?;
        let (uri, caller, hold_bytes_max) =
            (&request.head.uri, request.method_client, self.etag_buffer_bytes_max);
        let (uri_to_read, content_type) = (uri.clone(), headers.get(header::CONTENT_TYPE).cloned());
        let (bytes, limits) = (body.len(), Limits::from_node(node));
        // A long body on the CPU pool.
        let read = move || {
            let args = Params::parse(route, &uri_to_read, content_type.as_ref(), &body, limits)?;
            let plan = (route.build_call)(&args)?;
            Ok::<_, ApiError>((args, plan))
        };
        let (args, plan) = caller.parse_offloaded(node, bytes, read).await??;
        let asked = RequestContext {
            node,
            caller,
            uri,
            headers,
            media,
            is_read,
            etag_buffer_bytes_max: hold_bytes_max,
        };
        match (&route.response, plan) {
            (ResponseKind::Composite, plan) => composite::respond(&asked, &args, plan).await,
            (ResponseKind::Status, plan) => {
                transaction_status::respond(&asked, &self.waiters, &args, plan).await
            }
            (_, plan) => response::respond(&asked, route, &args, plan).await,
        }
    }
}

impl Default for Rest {
    fn default() -> Self {
        Self::new()
    }
}

/// What a path answers that only reads.
const READ_METHODS: &str = "GET, HEAD, OPTIONS";

impl HttpApi for Rest {
    fn owns_path(&self, path: &str) -> bool {
        path == "/v1" || path.starts_with("/v1/")
    }

    fn handle<'a>(
        &'a self,
        node: &'a Arc<Node>,
        request: HttpApiRequest,
    ) -> Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send + 'a>> {
        Box::pin(async move {
            if request.head.method == Method::OPTIONS {
                return options(request.head.uri.path());
            }
            let (began, mut number) = (node.pool.now(), None);
            let (caller, is_head) = (request.method_client, request.head.method == Method::HEAD);
            let response = match self.respond(node, request, &mut number).await {
                Ok(response) => response,
                Err(problem) => problem.into_response(),
            };
            if !is_head {
                caller.charge(node, response.body().immediate_bytes());
            }
            let took = node.pool.now().saturating_sub(began);
            self.metrics.record(number, response.status(), took);
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
    fn write(&self, to: &mut Exposition) {
        self.metrics.write(to);
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
    let of_path = routes::ROUTES.iter().filter(|route| route.path == first.path);
    match of_path.clone().find(|route| Some(route.method) == verb) {
        Some(route) => Ok(route),
        None => Err(ApiError::method_not_allowed(allow_header(of_path.map(|route| route.method)))),
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
            let of_path = routes::ROUTES.iter().filter(|route| route.path == first.path);
            allow_header(of_path.map(|route| route.method))
        }
        None if matches!(path, "/v1" | "/v1/" | "/v1/openapi.json") => READ_METHODS,
        None => return ApiError::no_route().into_response(),
    };
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}
