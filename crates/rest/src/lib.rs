//! REST for any API of [`jsonrpc`]: a second interface to its methods, for scripts, spreadsheets and HTTP caches.
//!
//! In: requests for the paths of an API, on the port of JSON-RPC ([`jsonrpc::HttpApi`]), and the [`RouteTable`] of a
//! [`RestApi`].
//! Out: the result of a [`Route`]'s method without its envelope. The slot and the commitment are in headers. The
//! OpenAPI document, the page to try the API and the metrics are made from the same table.
//! Bounds: those of the methods, which run as for JSON-RPC, with the same limits and cancellation. In addition, up to
//! [`Rest::with_etag_buffer`] bytes of a response are buffered to compute its `ETag`. A longer response is streamed.
//! Invariant: this crate reads only slots from the node. All other data comes from methods.
//! Not here: routes, schemas, any chain.
#![forbid(unsafe_code)]

mod api_paths;
mod composite;
mod content_negotiation;
mod error;
mod error_codes;
mod error_format;
mod etag;
mod explorer;
mod headers;
mod known_responses;
mod link_header;
mod metrics;
mod openapi;
mod openapi_document;
mod openapi_responses;
mod param;
mod params;
mod parse_request;
mod request_context;
mod response;
mod rest_api;
mod route;
mod route_table;
pub mod schema;
mod service;
mod static_response;
mod value;

pub use api_paths::ApiPaths;
pub use error::{ApiError, ErrorStyle};
pub use error_codes::ErrorCode;
pub use error_format::ErrorFormat;
pub use explorer::explorer_page;
pub use headers::{CURSOR, JSON_MEDIA};
pub use openapi::build_openapi;
pub use param::{JsonFormat, Limits, MaxItems, Param, ParamLocation, ParamType, TextFormat};
pub use params::Params;
pub use request_context::{RequestContext, ShortResult};
pub use response::{ResponseContext, json_response, short_response};
pub use rest_api::{Examples, RestApi, VerifiedSlot};
pub use route::{
    AcceptedResponse, CustomResponse, ETagSource, HttpMethod, Link, MethodCall, RawField,
    RequestBody, ResponseKind, Route, SlotSource, Tag, ValueResponse,
};
pub use route_table::{OwnHeader, RouteTable};
pub use service::Rest;
pub use static_response::StaticResponse;
pub use value::respond_value;
