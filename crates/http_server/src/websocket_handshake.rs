//! The upgrade of a connection from HTTP to WebSocket (RFC 6455, section 4).

use api_keys::Permit;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clients::ClientId;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Version};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::body::ResponseBody;
use crate::responses::text_response;

/// A connection that is about to change its protocol.
pub(crate) struct Upgrade {
    pub(crate) connection: OnUpgrade,
    pub(crate) client: ClientId,
    /// Its permit, if clients have API keys.
    pub(crate) permit: Option<Permit>,
}

/// A response, and the connection if its protocol changes after the response.
pub(crate) struct HandledRequest {
    pub(crate) response: Response<ResponseBody>,
    pub(crate) upgrade: Option<Upgrade>,
}

/// Bytes of a `Sec-WebSocket-Key` before base64 (RFC 6455, 4.1).
const WEBSOCKET_KEY_BYTES: usize = 16;

/// Returns whether a request is an upgrade to WebSocket. `Upgrade` has no meaning in HTTP/1.0 (RFC 9110, section 7.8).
pub(crate) fn is_websocket_upgrade(request: &Request<Incoming>) -> bool {
    let has_token = |name: HeaderName, what: &str| {
        request
            .headers()
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.split(',').any(|token| token.trim().eq_ignore_ascii_case(what)))
    };
    *request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && has_token(header::CONNECTION, "upgrade")
        && has_token(header::UPGRADE, "websocket")
}

pub(crate) fn handshake(
    request: &mut Request<Incoming>,
    client: ClientId,
    permit: Option<Permit>,
) -> HandledRequest {
    let refused = |status, message| HandledRequest {
        response: text_response(status, message),
        upgrade: None,
    };
    if !request.body().is_end_stream() {
        // Its bytes would be read as frames.
        let mut handled =
            refused(StatusCode::BAD_REQUEST, "a request for WebSocket must not have a body\n");
        // The body was not read.
        let close = HeaderValue::from_static("close");
        handled.response.headers_mut().insert(header::CONNECTION, close);
        return handled;
    }
    let headers = request.headers();
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let mut handled =
            refused(StatusCode::UPGRADE_REQUIRED, "Sec-WebSocket-Version: 13 is required\n");
        let version = HeaderValue::from_static("13");
        handled.response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, version);
        return handled;
    }
    let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY) else {
        return refused(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is required\n");
    };
    let is_key = |key: Vec<u8>| key.len() == WEBSOCKET_KEY_BYTES;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
    let (true, Ok(accept)) = (BASE64_STANDARD.decode(key).is_ok_and(is_key), accept) else {
        return refused(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is not 16 bytes in base64\n");
    };
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    let connection = hyper::upgrade::on(request);
    HandledRequest { response, upgrade: Some(Upgrade { connection, client, permit }) }
}

pub(crate) fn needs_websocket() -> Response<ResponseBody> {
    let message = "This port speaks WebSocket. JSON-RPC over HTTP is on the port before it\n";
    let mut response = text_response(StatusCode::UPGRADE_REQUIRED, message);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    response
}
