//! Serves the REST interface of an API on the port of JSON-RPC.

use std::sync::Arc;
use std::time::Duration;

use ::metrics::{Collector, Exposition};
use http_server::ResponseBody;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};
use jsonrpc::error::RpcError;
use jsonrpc::{HttpApi, HttpApiRequest, HttpApiResponse, MethodClient, Server};

use crate::content_negotiation::negotiate_media;
use crate::error::ApiError;
use crate::explorer::explorer_page;
use crate::headers::{VERIFIED_LEVEL, VERIFIED_SLOT, slot_value};
use crate::known_responses::{
    KnownResponses, RepeatedResponse, RequestText, WatchedRequest, WatchedResponse,
};
use crate::metrics::{RestMetrics, RouteLabel};
use crate::openapi_document::OpenApiDocument;
use crate::params::Params;
use crate::request_context::{ETAG_BUFFER_BYTES_MAX, RequestContext};
use crate::response::route_commitment;
use crate::rest_api::RestApi;
use crate::route::{MethodCall, ResponseKind, Route};
use crate::route_table::{READ_METHODS, is_read};
use crate::static_response::StaticResponse;
use crate::{composite, value};

/// Stored responses have this fraction of the response cache's bytes, in addition to them.
const KNOWN_RESPONSES_DIVISOR: u64 = 16;

/// The REST interface of an API, which [`jsonrpc::serve`] takes in addition to the methods.
///
/// ```
/// use std::sync::Arc;
///
/// use jsonrpc::HttpApi;
/// use rest::{
///     ApiPaths, ErrorFormat, ErrorStyle, Examples, HttpMethod, Limits, MethodCall, Param,
///     ParamLocation, ParamType, RequestBody, ResponseKind, Rest, RestApi, Route, RouteTable, Tag,
///     ValueResponse, build_openapi, schema,
/// };
/// use serde_json::json;
/// use testkit::toy_api::ToyApi;
///
/// const LIMIT: Param =
///     Param::new("limit", ParamLocation::Query, ParamType::Number(1, 20), "Number of counters.");
///
/// struct Counters;
///
/// impl RestApi for Counters {
///     type Api = ToyApi;
///
///     const TABLE: &'static RouteTable = &RouteTable {
///         summary: "Counters over REST.",
///         etag_doc: "",
///         pages_doc: "",
///         routes: &[Route {
///             method: HttpMethod::Get,
///             path: "/v1/counters",
///             id: "getCounters",
///             summary: "List the highest counters",
///             params: &[LIMIT],
///             body: RequestBody::None,
///             schema: "Counters",
///             response: ResponseKind::Value(ValueResponse::for_state("list")),
///             links: &[],
///             build_call: |params| {
///                 Ok(MethodCall::Single("counterTop", json!([params.number("limit")])))
///             },
///         }],
///         tags: &[Tag { name: "Counters", segments: &["counters"] }],
///         paths: ApiPaths::V1,
///         errors: ErrorStyle { codes: &[], format: ErrorFormat::Coded },
///         headers: &[],
///         schemas: || vec![("Counters", schema::array("Counters.", schema::any("A counter.")))],
///     };
/// }
///
/// let rest: Arc<dyn HttpApi<ToyApi>> = Arc::new(Rest::new(Counters));
/// assert!(rest.owns_path("/v1/counters"));
/// let limits = Limits { items_max: 100, setting: "" };
/// let document = build_openapi(Counters::TABLE, &Examples::default(), limits);
/// assert_eq!(document["paths"]["/v1/counters"]["get"]["operationId"], "getCounters");
/// ```
pub struct Rest<R: RestApi> {
    api: R,
    metrics: RestMetrics,
    openapi: OpenApiDocument,
    explorer: StaticResponse,
    known_responses: KnownResponses,
    etag_buffer_bytes_max: usize,
}

/// The part of a request that its finished response needs.
#[derive(Clone, Copy)]
struct ReceivedRequest {
    caller: MethodClient,
    is_head: bool,
    /// When it was received, by the clock of the pool.
    started: Duration,
}

/// A request without a known response.
struct PendingRequest {
    request: HttpApiRequest,
    /// Whether the rate limit of its client allows it.
    admitted: Result<(), RpcError>,
    /// Its text, if the response may be stored.
    text: Option<RequestText>,
}

impl<R: RestApi> Rest<R> {
    /// Creates the REST interface of an API.
    pub fn new(api: R) -> Self {
        let page = explorer_page(R::TABLE);
        Self {
            api,
            metrics: RestMetrics::new(R::TABLE.routes),
            openapi: OpenApiDocument::default(),
            explorer: StaticResponse::new("text/html; charset=utf-8", page.as_bytes()),
            known_responses: KnownResponses::new(0),
            etag_buffer_bytes_max: ETAG_BUFFER_BYTES_MAX,
        }
    }

    /// Buffers up to `bytes_max` bytes of a list or a block to hash them. Default: 1 MiB. A longer response gets
    /// an `ETag` computed from its dependencies, if they are known.
    pub fn with_etag_buffer(self, bytes_max: usize) -> Self {
        Self { etag_buffer_bytes_max: bytes_max, ..self }
    }

    /// Stores responses by the text of their request, and sends them again while they are current. `cache_bytes_max` is
    /// the size of the response cache; stored responses have up to a sixteenth of it in addition. Default: 0, which
    /// stores only `ETag`s.
    pub fn with_known_responses(self, cache_bytes_max: u64) -> Self {
        let known_responses = KnownResponses::new(cache_bytes_max / KNOWN_RESPONSES_DIVISOR);
        Self { known_responses, ..self }
    }

    /// Returns the API behind the interface.
    pub fn api(&self) -> &R {
        &self.api
    }

    async fn respond(
        &self,
        server: &Arc<Server<R::Api>>,
        pending: PendingRequest,
        matched: &mut Option<&'static Route>,
    ) -> Result<Response<ResponseBody>, ApiError> {
        let PendingRequest { request, admitted, text } = pending;
        let path = request.head.uri.path();
        let is_read = is_read(&request.head.method);
        let headers = &request.head.headers;
        let caller = request.method_client;
        let found = R::TABLE.find_route(path, &request.head.method);
        *matched = found.as_ref().ok().copied();
        admitted?;
        if R::TABLE.paths.is_page(path) {
            if !is_read {
                return Err(ApiError::method_not_allowed(READ_METHODS));
            }
            if R::TABLE.paths.is_explorer(path) {
                return Ok(self.explorer.respond(headers));
            }
            return Ok(self.openapi.get_or_build(&self.api, server).await?.respond(headers));
        }
        let route = found?;
        let has_raw = route.response.has_raw();
        let main_media = route.response.media();
        let media = negotiate_media(headers, main_media, has_raw).ok_or_else(|| {
            ApiError::not_acceptable(if has_raw {
                "application/json or application/octet-stream"
            } else {
                main_media
            })
        })?;
        let body =
            request.body.map_err(|(status, message)| ApiError::from_body_error(status, message))?;
        let uri = &request.head.uri;
        let owned_uri = uri.clone();
        let content_type = headers.get(header::CONTENT_TYPE).cloned();
        let body_len = body.len();
        let limits = self.api.limits(server);
        let parse = move || {
            let params = Params::parse(route, &owned_uri, content_type.as_ref(), &body, limits)?;
            let call = (route.build_call)(&params)?;
            Ok::<_, ApiError>((params, call))
        };
        // A long body is parsed on the CPU pool.
        let (params, call) = caller.parse_offloaded(&server.context, body_len, parse).await??;
        let text = text.filter(|text| self.known_responses.record_request(text, route));
        // Before the watch of its dependencies, and before the state of a composite is fixed.
        caller.wait_for_min_slot(server, route_commitment(route, &params)).await?;
        let etag_buffer_bytes_max = self.etag_buffer_bytes_max;
        let context =
            RequestContext { server, caller, uri, headers, media, is_read, etag_buffer_bytes_max };
        let watched = text.and_then(|text| {
            let request = WatchedRequest { text, route, params: &params, call: &call, media };
            WatchedResponse::start(server, caller, request)
        });
        let response = self.call(&context, route, &params, call).await?;
        if let Some(watched) = watched {
            let label = self.metrics.label(Some(route));
            self.known_responses.store(server, caller, watched, label, &response);
        }
        Ok(response)
    }

    /// The response of a route to a call.
    async fn call(
        &self,
        context: &RequestContext<'_, R::Api>,
        route: &Route,
        params: &Params,
        call: MethodCall,
    ) -> Result<Response<ResponseBody>, ApiError> {
        match &route.response {
            ResponseKind::Value(value) => value::respond_value(context, value, params, call).await,
            ResponseKind::Accepted(accepted) => {
                value::respond_accepted(context, accepted, params, call).await
            }
            ResponseKind::Composite => composite::respond(context, params, call).await,
            ResponseKind::Custom(_) => self.api.respond(context, params, call).await,
        }
    }

    /// Adds the headers that every response has, and counts it.
    fn finish(
        &self,
        server: &Server<R::Api>,
        received: ReceivedRequest,
        label: RouteLabel,
        result: Result<Response<ResponseBody>, ApiError>,
    ) -> Response<ResponseBody> {
        let ReceivedRequest { caller, is_head, started } = received;
        let mut response = result.unwrap_or_else(|err| err.into_response(R::TABLE.errors));
        self.api.write_headers(server, response.headers_mut());
        if let Some(verified) = self.api.verified_slot(server) {
            let headers = response.headers_mut();
            headers.insert(VERIFIED_SLOT, slot_value(verified.slot));
            headers.insert(VERIFIED_LEVEL, HeaderValue::from_static(verified.level));
        }
        if !is_head {
            caller.charge(&server.context, response.body().immediate_bytes());
        }
        let duration = server.context.pool.now().saturating_sub(started);
        self.metrics.record(label, response.status(), duration);
        response
    }
}

impl<R: RestApi> HttpApi<R::Api> for Rest<R> {
    fn owns_path(&self, path: &str) -> bool {
        R::TABLE.paths.contains(path)
    }

    fn handle<'a>(
        &'a self,
        server: &'a Arc<Server<R::Api>>,
        mut request: HttpApiRequest,
    ) -> HttpApiResponse<'a> {
        if request.head.method == Method::OPTIONS {
            return HttpApiResponse::Ready(options::<R>(request.head.uri.path()));
        }
        let caller = request.method_client;
        let is_head = request.head.method == Method::HEAD;
        let started = server.context.pool.now();
        let received = ReceivedRequest { caller, is_head, started };
        // Counts as a request, whatever its result.
        let admitted = caller.admit(&server.context);
        let text = match admitted.is_ok() {
            true => self.known_responses.build_text(&request, caller.reached()),
            false => None,
        };
        // Before there is a future: that of a method has some kilobytes.
        if let Some(text) = &text
            && let Some(RepeatedResponse { label, response }) = self.known_responses.respond(
                server,
                caller,
                text,
                &mut request.head.headers,
                started,
            )
        {
            return HttpApiResponse::Ready(self.finish(server, received, label, response));
        }
        let pending = PendingRequest { request, admitted, text };
        HttpApiResponse::Pending(Box::pin(async move {
            let mut route = None;
            let response = self.respond(server, pending, &mut route).await;
            self.finish(server, received, self.metrics.label(route), response)
        }))
    }

    fn refuse(&self, status: StatusCode, message: &str) -> Response<ResponseBody> {
        let err = ApiError::from_head_error(status, message);
        self.metrics.record(self.metrics.label(None), status, Duration::ZERO);
        err.into_response(R::TABLE.errors)
    }
}

impl<R: RestApi> Collector for Rest<R> {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut parts = self.api.memory();
        parts.push(("rest_responses", self.known_responses.bytes()));
        parts
    }

    fn write(&self, out: &mut Exposition) {
        self.metrics.write(out);
    }
}

/// The methods that a path allows.
fn options<R: RestApi>(path: &str) -> Response<ResponseBody> {
    let own = R::TABLE.paths.is_page(path).then_some(READ_METHODS);
    let Some(allow) = R::TABLE.allow_header(path).or(own) else {
        return ApiError::no_route(R::TABLE.paths.explorer).into_response(R::TABLE.errors);
    };
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}
