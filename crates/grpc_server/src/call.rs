//! The parts of a call that its method needs.

use std::sync::Arc;

use clients::ClientId;
use hyper::body::Incoming;
use tonic::codegen::http;

use crate::compression::{ACCEPT_ENCODING_HEADER, ENCODING_HEADER};
use crate::request_body::RequestBody;
use crate::server_state::ServerState;

/// Bytes of a header that names compressions. The rest of a longer one is ignored.
const ENCODING_BYTES_MAX: usize = 256;

/// The parts of a call that its method needs.
pub struct Call {
    /// The API key of the call, or the address of its connection.
    pub client: ClientId,
    /// The headers that name compressions.
    pub headers: http::HeaderMap,
    /// The body with the request messages, not counted yet.
    pub body: Incoming,
}

impl Call {
    /// Keeps the headers that a call still needs, and its body. The others have up to 16 KiB, which a call would hold
    /// until its message is complete.
    pub(crate) fn new(request: http::Request<Incoming>, client: ClientId) -> Self {
        let (parts, body) = request.into_parts();
        let mut headers = http::HeaderMap::new();
        for name in [ENCODING_HEADER, ACCEPT_ENCODING_HEADER] {
            let value = parts.headers.get(name).map(http::HeaderValue::as_bytes);
            let value = value.map(|value| value.get(..ENCODING_BYTES_MAX).unwrap_or(value));
            // A copy: the value may share the memory of all headers.
            let copy = value.and_then(|value| http::HeaderValue::from_bytes(value).ok());
            headers.extend(copy.map(|copy| (http::HeaderName::from_static(name), copy)));
        }
        Self { client, headers, body }
    }

    /// Returns the request with a body whose bytes count in the client's share, for a call with one short message.
    pub fn into_counted_request(self, state: &Arc<ServerState>) -> http::Request<RequestBody> {
        let Self { client, headers, body } = self;
        let mut request = http::Request::new(RequestBody::new(body, Arc::clone(state), client));
        *request.headers_mut() = headers;
        request
    }
}
