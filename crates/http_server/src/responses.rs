//! Responses that are complete.

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use crate::body::ResponseBody;

/// `Content-Type` of plain text.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// `Cache-Control` of a response that no cache may store.
pub const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// A response of plain text.
pub fn text_response(status: StatusCode, body: impl Into<Bytes>) -> Response<ResponseBody> {
    response(status, TEXT, body.into().into())
}

/// A response.
pub fn response(
    status: StatusCode,
    content_type: HeaderValue,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
