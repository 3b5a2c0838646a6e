//! Errors: one shape, with JSON-RPC's code and a stable name.
//!
//! `{"error": {"code": -32602, "name": "invalid_params", "message": "…", "data": …}}`, `data` depends on the
//! code. A missing object is missing at a slot. That slot and its commitment are in the headers, as for any response,
//! and in `data` if the code has no other. The table below maps a code to its HTTP status and name.

use http_server::ResponseBody;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use jsonrpc::error::RpcError;
use ledger::{Commitment, Slot};
use serde_json::{Value, json};

use crate::response::{self, COMMITMENT, SLOT};

/// Our code for a missing object for which JSON-RPC returns null.
pub(crate) const NOT_FOUND: i64 = -32044;

/// JSON-RPC's codes: HTTP status and name.
pub(crate) const CODES: &[(i64, u16, &str)] = &[
    (-32700, 400, "parse_error"),
    (-32600, 400, "invalid_request"),
    (-32601, 404, "no_such_path"),
    (-32602, 400, "invalid_params"),
    (-32603, 500, "internal"),
    (-32001, 404, "block_cleaned_up"),
    (-32002, 422, "preflight_failed"),
    (-32003, 422, "signature_verification_failed"),
    (-32004, 404, "block_not_available"),
    (-32005, 503, "node_unhealthy"),
    (-32006, 422, "precompile_verification_failed"),
    (-32007, 404, "slot_skipped"),
    (-32009, 404, "slot_skipped"),
    (-32010, 422, "key_excluded_from_index"),
    (-32011, 503, "history_not_available"),
    (-32013, 422, "signature_length_mismatch"),
    (-32014, 404, "block_not_available"),
    (-32015, 422, "unsupported_transaction_version"),
    (-32016, 409, "min_context_slot_not_reached"),
    (-32020, 404, "cursor_not_found"),
    (NOT_FOUND, 404, "not_found"),
];

/// Names without a code in the table: errors of HTTP itself, overload, and codes that are not in the table.
const OTHER_NAMES: &[&str] = &[
    "body_too_large",
    "body_too_slow",
    "header_too_long",
    "method_not_allowed",
    "not_acceptable",
    "not_implemented",
    "origin_not_allowed",
    "refused",
    "too_busy",
    "unsupported_media_type",
    "uri_too_long",
];

/// An error response.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    name: &'static str,
    err: RpcError,
    headers: Vec<(header::HeaderName, HeaderValue)>,
}

impl ApiError {
    fn new(status: StatusCode, name: &'static str, err: RpcError) -> Self {
        Self { status, name, err, headers: Vec::new() }
    }

    fn with_header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// A parameter is invalid.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        RpcError::invalid_params(message).into()
    }

    /// The object does not exist.
    pub(crate) fn not_found(what: &str) -> Self {
        RpcError::new(NOT_FOUND, format!("{what} not found")).into()
    }

    /// Adds the slot at which the object does not exist. Other errors have no slot.
    pub(crate) fn at_slot(mut self, slot: Slot, commitment: Commitment) -> Self {
        if self.status != StatusCode::NOT_FOUND {
            return self;
        }
        let name = response::commitment_name(commitment);
        self.err.data.get_or_insert_with(|| json!({ "slot": slot, "commitment": name }));
        self.with_header(SLOT, slot.into()).with_header(COMMITMENT, HeaderValue::from_static(name))
    }

    /// No route has that path.
    pub(crate) fn no_route() -> Self {
        RpcError::new(-32601, "no such path; /v1/ lists them").into()
    }

    /// The path does not have this method.
    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let err = RpcError::new(-32601, format!("{allow} only"));
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", err)
            .with_header(header::ALLOW, HeaderValue::from_static(allow))
    }

    /// The client accepts no available media type.
    pub(crate) fn not_acceptable(media: &str) -> Self {
        let err =
            RpcError::invalid_request(format!("the response is {media}; Accept does not allow it"));
        Self::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", err)
    }

    /// The route does not read bodies of this type.
    pub(crate) fn unsupported_media_type(allowed: &str) -> Self {
        let err = RpcError::invalid_request(format!("the body must be {allowed}"));
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", err)
    }

    /// The body could not be read.
    pub(crate) fn from_body_error(status: StatusCode, message: String) -> Self {
        let (name, closes) = match status {
            StatusCode::PAYLOAD_TOO_LARGE => ("body_too_large", true),
            StatusCode::REQUEST_TIMEOUT => ("body_too_slow", true),
            _ => ("invalid_request", false),
        };
        let err = Self::new(status, name, RpcError::invalid_request(message.trim_end()));
        if closes {
            return err.with_header(header::CONNECTION, HeaderValue::from_static("close"));
        }
        err
    }

    /// The request is refused because of its head, before its body is read.
    pub(crate) fn from_head_error(status: StatusCode, message: &str) -> Self {
        let name = match status {
            StatusCode::FORBIDDEN => "origin_not_allowed",
            StatusCode::URI_TOO_LONG => "uri_too_long",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported_media_type",
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "header_too_long",
            StatusCode::NOT_IMPLEMENTED => "not_implemented",
            _ => "invalid_request",
        };
        Self::new(status, name, RpcError::invalid_request(message))
    }

    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let mut err = json!({
            "code": self.err.code, "name": self.name, "message": self.err.message,
        });
        if let Some(data) = self.err.data {
            err["data"] = data;
        }
        let mut text = json!({ "error": err }).to_string();
        text.push('\n');
        let mut response = Response::new(ResponseBody::from(bytes::Bytes::from(text)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.extend(self.headers);
        response
    }
}

impl From<RpcError> for ApiError {
    fn from(err: RpcError) -> Self {
        if err.is_overload() {
            let ms = err.data.as_ref().and_then(|data| data.get("retryAfterMs")?.as_u64());
            let seconds = ms.map_or(1, |ms| ms / 1_000 + 1);
            return Self::new(StatusCode::TOO_MANY_REQUESTS, "too_busy", err)
                .with_header(header::RETRY_AFTER, seconds.into());
        }
        let known = CODES.iter().find(|(code, ..)| *code == err.code);
        let (status, name) = known.map_or((400, "refused"), |(_, status, name)| (*status, *name));
        // Every status in the table is valid.
        Self::new(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), name, err)
    }
}

/// The schema of an error.
pub(crate) fn schema() -> Value {
    let mut names: Vec<&str> = CODES.iter().map(|(_, _, name)| *name).collect();
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
