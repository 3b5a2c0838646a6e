//! Errors: one shape, with JSON-RPC's code and a stable name.
//!
//! `{"error": {"code": -32602, "name": "invalid_params", "message": "…", "data": …}}`, `data` depends on the
//! code. A missing object is missing at a slot. That slot and its commitment are in the headers, as for any response,
//! and in `data` if the code has no other. Tables map a code to its HTTP status and name: [`COMMON_CODES`], and that of
//! the API ([`ErrorCode`]).

use http_server::ResponseBody;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use jsonrpc::error::{FOREIGN_PAGE, RpcError};
use ledger::{Commitment, Slot};
use serde_json::{Value, json};

use crate::headers::{COMMITMENT, JSON, NO_STORE, SLOT, commitment_name, slot_value};

/// Our code for a missing object for which JSON-RPC returns null.
const NOT_FOUND: i64 = -32044;

/// The HTTP status and the name of a code.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCode {
    pub(crate) code: i64,
    pub(crate) status: u16,
    pub(crate) name: &'static str,
}

impl ErrorCode {
    /// A code, its HTTP status, and a name that never changes.
    pub const fn new(code: i64, status: u16, name: &'static str) -> Self {
        Self { code, status, name }
    }
}

const COMMON_CODES: &[ErrorCode] = &[
    ErrorCode::new(-32700, 400, "parse_error"),
    ErrorCode::new(-32600, 400, "invalid_request"),
    ErrorCode::new(-32601, 404, "no_such_path"),
    ErrorCode::new(-32602, 400, "invalid_params"),
    ErrorCode::new(-32603, 500, "internal"),
    ErrorCode::new(FOREIGN_PAGE, 403, "page_not_allowed"),
];

/// The codes of this interface.
const OWN_CODES: &[ErrorCode] = &[ErrorCode::new(NOT_FOUND, 404, "not_found")];

/// Every code, with those of an API.
pub(crate) fn all_codes(of_api: &[ErrorCode]) -> impl Iterator<Item = &ErrorCode> {
    COMMON_CODES.iter().chain(of_api).chain(OWN_CODES)
}

/// Names without a code in the table: errors of HTTP itself, overload, and codes that are not in the table.
const OTHER_NAMES: &[&str] = &[
    "body_too_large",
    "body_too_slow",
    "draining",
    "header_too_long",
    "method_denied",
    "method_not_allowed",
    "not_acceptable",
    "not_implemented",
    "origin_not_allowed",
    "refused",
    "too_busy",
    "unauthorized",
    "unsupported_media_type",
    "uri_too_long",
];

/// An error, which becomes a response with a JSON body.
#[derive(Debug)]
pub struct ApiError {
    kind: ErrorKind,
    err: Box<RpcError>,
    /// The path or state in which a missing object does not exist.
    missing_at: Option<(Slot, Commitment)>,
    headers: Vec<(header::HeaderName, HeaderValue)>,
}

/// The source of the status and the name of an error.
#[derive(Debug)]
enum ErrorKind {
    /// The tables of error codes.
    Code,
    /// The error has its own status and name.
    Http(StatusCode, &'static str),
}

impl ApiError {
    fn new(kind: ErrorKind, err: RpcError) -> Self {
        Self { kind, err: Box::new(err), missing_at: None, headers: Vec::new() }
    }

    fn http(status: StatusCode, name: &'static str, err: RpcError) -> Self {
        Self::new(ErrorKind::Http(status, name), err)
    }

    fn with_header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Creates the error of an invalid parameter.
    pub fn invalid(message: impl Into<String>) -> Self {
        RpcError::invalid_params(message).into()
    }

    /// Creates the error of an object that does not exist.
    pub fn not_found(what: &str) -> Self {
        RpcError::new(NOT_FOUND, format!("{what} not found")).into()
    }

    /// Adds the slot at which the object does not exist. The responses to other errors have no slot.
    pub fn at_slot(mut self, slot: Slot, commitment: Commitment) -> Self {
        self.missing_at = Some((slot, commitment));
        self
    }

    pub(crate) fn no_route() -> Self {
        RpcError::new(-32601, "no such path; /v1/ lists them").into()
    }

    /// The path does not have this method.
    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let err = RpcError::new(-32601, format!("{allow} only"));
        Self::http(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", err)
            .with_header(header::ALLOW, HeaderValue::from_static(allow))
    }

    /// The client accepts no available media type.
    pub(crate) fn not_acceptable(media: &str) -> Self {
        let err =
            RpcError::invalid_request(format!("the response is {media}; Accept does not allow it"));
        Self::http(StatusCode::NOT_ACCEPTABLE, "not_acceptable", err)
    }

    /// The route does not read bodies of this type.
    pub(crate) fn unsupported_media_type(allowed: &str) -> Self {
        let err = RpcError::invalid_request(format!("the body must be {allowed}"));
        Self::http(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", err)
    }

    pub(crate) fn from_body_error(status: StatusCode, message: String) -> Self {
        let (name, closes) = match status {
            StatusCode::PAYLOAD_TOO_LARGE => ("body_too_large", true),
            StatusCode::REQUEST_TIMEOUT => ("body_too_slow", true),
            _ => ("invalid_request", false),
        };
        let err = Self::http(status, name, RpcError::invalid_request(message.trim_end()));
        if closes {
            return err.with_header(header::CONNECTION, HeaderValue::from_static("close"));
        }
        err
    }

    /// The request is refused because of its head, before its body is read.
    pub(crate) fn from_head_error(status: StatusCode, message: &str) -> Self {
        let name = match status {
            StatusCode::UNAUTHORIZED => "unauthorized",
            StatusCode::TOO_MANY_REQUESTS => "too_busy",
            StatusCode::FORBIDDEN => "origin_not_allowed",
            StatusCode::SERVICE_UNAVAILABLE => "draining",
            StatusCode::URI_TOO_LONG => "uri_too_long",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported_media_type",
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "header_too_long",
            StatusCode::NOT_IMPLEMENTED => "not_implemented",
            _ => "invalid_request",
        };
        Self::http(status, name, RpcError::invalid_request(message))
    }

    /// The response. `codes` are those of the API.
    pub(crate) fn into_response(mut self, codes: &[ErrorCode]) -> Response<ResponseBody> {
        let (status, name) = self.status_and_name(codes);
        if let (StatusCode::NOT_FOUND, Some((slot, commitment))) = (status, self.missing_at) {
            let commitment = commitment_name(commitment);
            let data = || json!({ "slot": slot, "commitment": commitment });
            self.err.data.get_or_insert_with(data);
            self.headers.push((SLOT, slot_value(slot)));
            self.headers.push((COMMITMENT, HeaderValue::from_static(commitment)));
        }
        let mut err = json!({
            "code": self.err.code, "name": name, "message": self.err.message,
        });
        if let Some(data) = self.err.data {
            err["data"] = data;
        }
        let mut text = json!({ "error": err }).to_string();
        text.push('\n');
        let mut response = Response::new(ResponseBody::from(bytes::Bytes::from(text)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        headers.extend(self.headers);
        response
    }

    fn status_and_name(&self, codes: &[ErrorCode]) -> (StatusCode, &'static str) {
        if let ErrorKind::Http(status, name) = self.kind {
            return (status, name);
        }
        let known = all_codes(codes).find(|known| known.code == self.err.code);
        let (status, name) = known.map_or((400, "refused"), |known| (known.status, known.name));
        // Every status in the tables is valid.
        (StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), name)
    }
}

impl From<RpcError> for ApiError {
    fn from(err: RpcError) -> Self {
        if err.is_denied() {
            return Self::http(StatusCode::FORBIDDEN, "method_denied", err);
        }
        if let Some(seconds) = err.retry_after_s() {
            return Self::http(StatusCode::TOO_MANY_REQUESTS, "too_busy", err)
                .with_header(header::RETRY_AFTER, seconds.into());
        }
        Self::new(ErrorKind::Code, err)
    }
}

/// The schema of an error of an API with these codes.
pub(crate) fn schema(codes: &[ErrorCode]) -> Value {
    let mut names: Vec<&str> = all_codes(codes).map(|known| known.name).collect();
    names.extend(OTHER_NAMES);
    names.sort_unstable();
    names.dedup();
    json!({
        "type": "object",
        "description": "An error response.",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "description": "The error.",
            "required": ["code", "name", "message"],
            "properties": {
                "code": { "type": "integer", "format": "int64",
                    "description": "The code of JSON-RPC, or -32044 where JSON-RPC would return null." },
                "name": { "type": "string", "enum": names,
                    "description": "A stable name, for programs." },
                "message": { "type": "string", "description": "A message for people." },
                "data": { "description": "Details, in a shape that depends on the code. A 404 without \
                    details in JSON-RPC has `{\"slot\", \"commitment\"}`, at which the object does not exist." },
            },
        } },
    })
}
