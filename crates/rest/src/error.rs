//! Errors: one shape for each API, with JSON-RPC's code and a stable name.
//!
//! `{"error": {"code": -32602, "name": "invalid_params", "message": "…", "data": …}}`, `data` depends on the
//! code. Another shape is in [`ErrorFormat`](crate::ErrorFormat). A missing object is missing at a slot. That slot and its
//! commitment are in the headers, as for any response, and in `data` if the code has no other.
//! Not here: the HTTP status and the name of a code (`error_codes`), shapes (`error_format`).

use http_server::{NO_STORE, ResponseBody};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use jsonrpc::error::RpcError;
use ledger::{Commitment, Slot};
use serde_json::json;

use crate::error_codes::{ErrorCode, NOT_FOUND, all_codes};
use crate::error_format::{ErrorFormat, ErrorParts, InvalidParam};
use crate::headers::{COMMITMENT, JSON, SLOT, commitment_name, slot_value};
use crate::param::ParamLocation;

/// An error, which becomes a response with a JSON body.
#[derive(Debug)]
pub struct ApiError {
    kind: ErrorKind,
    err: Box<RpcError>,
    /// The path or state in which a missing object does not exist.
    missing_at: Option<(Slot, Commitment)>,
    /// The parameter that is the reason.
    param: Option<Box<InvalidParam>>,
    headers: Vec<(header::HeaderName, HeaderValue)>,
}

/// The error codes of an API, and the JSON shape of its errors.
#[derive(Clone, Copy, Debug)]
pub struct ErrorStyle {
    /// The codes of its methods' errors, apart from those of JSON-RPC. One with a code of JSON-RPC replaces it.
    pub codes: &'static [ErrorCode],
    /// The JSON shape of the errors.
    pub format: ErrorFormat,
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
        Self { kind, err: Box::new(err), missing_at: None, param: None, headers: Vec::new() }
    }

    fn http(status: StatusCode, name: &'static str, err: RpcError) -> Self {
        Self::new(ErrorKind::Http(status, name), err)
    }

    /// Adds a header to the response.
    #[must_use]
    pub fn with_header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Creates the error of an invalid parameter.
    pub fn invalid(message: impl Into<String>) -> Self {
        RpcError::invalid_params(message).into()
    }

    /// Creates the error of an invalid parameter, with the value that the client sent.
    pub(crate) fn invalid_param(
        location: ParamLocation,
        name: &'static str,
        input: String,
        message: String,
    ) -> Self {
        let param = Some(Box::new(InvalidParam { location, name, input }));
        Self { param, ..Self::invalid(message) }
    }

    /// Replaces the message for people.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.err.message = message.into();
        self
    }

    /// Whether it is the error of an object that does not exist.
    pub fn is_not_found(&self) -> bool {
        self.err.code == NOT_FOUND
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

    /// The path does not exist. `explorer` is the page that lists all paths.
    pub(crate) fn no_route(explorer: &str) -> Self {
        RpcError::new(-32601, format!("no such path; {explorer} lists them")).into()
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

    /// The response in the style of an API.
    pub(crate) fn into_response(mut self, style: ErrorStyle) -> Response<ResponseBody> {
        let (status, name) = self.status_and_name(style.codes);
        if let (StatusCode::NOT_FOUND, Some((slot, commitment))) = (status, self.missing_at) {
            let commitment = commitment_name(commitment);
            let data = || json!({ "slot": slot, "commitment": commitment });
            self.err.data.get_or_insert_with(data);
            self.headers.push((SLOT, slot_value(slot)));
            self.headers.push((COMMITMENT, HeaderValue::from_static(commitment)));
        }
        let body = style.format.body(ErrorParts {
            code: self.err.code,
            name,
            message: &self.err.message,
            data: self.err.data,
            param: self.param.as_deref(),
        });
        let mut text = body.to_string();
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
