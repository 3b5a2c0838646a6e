//! How a request is refused: one shape, with JSON-RPC's code and a name that stays.
//!
//! `{"error": {"code": -32602, "name": "invalid_params", "message": "…", "data": …}}`, `data` as the code has it.
//! What is not there is not there at a slot: that and its commitment are in the headers, as of any answer, and in
//! `data` where the code has none. The table below says which HTTP status and name a code has.

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use ledger::{Commitment, Slot};
use rpc::ResponseBody;
use rpc::error::RpcError;
use serde_json::{Value, json};

use crate::response::{self, COMMITMENT, SLOT};

/// Of what is not there and has no code in JSON-RPC, where it is a null: ours.
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

/// Names that no code of the table has: what HTTP itself refuses, what is too much, and a code that is not in it.
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

/// Why a request got no answer.
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

    /// A parameter cannot be what it is.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        RpcError::invalid_params(message).into()
    }

    /// There is nothing of that name.
    pub(crate) fn not_found(what: &str) -> Self {
        RpcError::new(NOT_FOUND, format!("{what} not found")).into()
    }

    /// At which slot it is true that there is nothing; other problems are of no slot.
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

    /// The path has no such verb.
    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let err = RpcError::new(-32601, format!("{allow} only"));
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", err)
            .with_header(header::ALLOW, HeaderValue::from_static(allow))
    }

    /// The client takes nothing that there is.
    pub(crate) fn not_acceptable(media: &str) -> Self {
        let err =
            RpcError::invalid_request(format!("the answer is {media}; Accept has none of that"));
        Self::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", err)
    }

    /// The body is of a type that is not read here.
    pub(crate) fn unsupported_media_type(allowed: &str) -> Self {
        let err = RpcError::invalid_request(format!("the body is to be {allowed}"));
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", err)
    }

    /// The body was not read.
    pub(crate) fn from_body_error(status: StatusCode, words: String) -> Self {
        let (name, closes) = match status {
            StatusCode::PAYLOAD_TOO_LARGE => ("body_too_large", true),
            StatusCode::REQUEST_TIMEOUT => ("body_too_slow", true),
            _ => ("invalid_request", false),
        };
        let problem = Self::new(status, name, RpcError::invalid_request(words.trim_end()));
        if closes {
            return problem.with_header(header::CONNECTION, HeaderValue::from_static("close"));
        }
        problem
    }

    /// The request is refused by its head, before it is read.
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
        // Every status of the table is one.
        Self::new(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), name, err)
    }
}

/// An error as OpenAPI tells it.
pub(crate) fn schema() -> Value {
    let mut names: Vec<&str> = CODES.iter().map(|(_, _, name)| *name).collect();
    names.extend(OTHER_NAMES);
    names.sort_unstable();
    names.dedup();
    json!({
        "type": "object",
        "description": "Why there is no answer.",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "description": "The reason.",
            "required": ["code", "name", "message"],
            "properties": {
                "code": { "type": "integer", "format": "int64",
                    "description": "The code that JSON-RPC has for it, or -32044 where that has null." },
                "name": { "type": "string", "enum": names,
                    "description": "For programs; does not change." },
                "message": { "type": "string", "description": "For people." },
                "data": { "description": "Details, in a shape of the code. Of a 404 that has none in \
                    JSON-RPC `{\"slot\", \"commitment\"}`: where it is not there." },
            },
        } },
    })
}
