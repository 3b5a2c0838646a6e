//! The limits of HTTP.

use hyper::header::HeaderName;

use crate::cors::AllowedOrigins;

/// Bytes of a body, and of the requests after it, that are read ahead.
const READ_BUFFER_BYTES: usize = 16 * 1024;

/// Limits. A request over one of them is refused with a message that names its setting, in the table `rpc` of the
/// configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// Bytes of a request's body. Default 51,200, as in Agave. Memory: up to 65,536 for each connection
    /// that is sending one, and at most 256 MiB, or four bodies of this length, for all that are longer.
    pub body_bytes_max: usize,
    /// Bytes of a request's head, URI and all headers together. Default 16,384; from 8,192 to 32,768. Memory:
    /// up to this for each connection that is sending one.
    pub head_bytes_max: usize,
    /// Bytes of a request's URI. Default 8,192, enough for 100 addresses in a list.
    pub uri_bytes_max: usize,
    /// Bytes of each header that is parsed as a list, all its lines together: `If-None-Match`, `Accept`,
    /// `Accept-Encoding` and similar ones. Default 4,096, enough for 100 `ETag`s.
    pub list_header_bytes_max: usize,
    /// Connections at once, HTTP and WebSocket together. Default 10,000. Memory: about 26 KiB each.
    /// One more waits in the listener's backlog.
    pub connections_max: usize,
    /// Connections at once from one address (an IPv6 network of 64 bits). Default none: an address may have all
    /// connections except the last tenth, of which it gets one only if it has fewer than are left. One more
    /// connection is answered with 429 and closed. Behind a proxy all connections come from one address: a
    /// value of `connections_max` lets it have all of them.
    pub connections_per_address_max: Option<usize>,
    /// Milliseconds in which a request's head must be complete: from its first byte, or from the start of a connection.
    /// Default 30,000.
    pub header_timeout_ms: u64,
    /// Milliseconds that a connection may wait for its next request. Default 920,000: longer than proxies keep their
    /// connections to a server, because a request on a connection that the node closes at the same time is lost. While
    /// the last tenth of `connections_max` is in use, it is `header_timeout_ms`.
    pub keep_alive_ms: u64,
    /// Milliseconds in which a request's body must be complete. Default 10,000.
    pub body_timeout_ms: u64,
    /// Milliseconds in which a client must read 64 KiB of a response that waits for it, or all that waits.
    /// Default 30,000.
    pub write_timeout_ms: u64,
    /// The request header that names a client, for rate limits and fair scheduling: for a node behind a proxy
    /// that sets it, such as `x-real-ip`. Its last value counts; an address is the same client as without a
    /// proxy. Any program that can reach the port can set it, too. Default none: a client is its address.
    pub client_header: Option<HeaderName>,
    /// Origins of web pages that may send requests. Default any, as in Agave.
    pub allowed_origins: AllowedOrigins,
}

impl HttpConfig {
    /// The length of a connection's read buffer. The head of a request must fit.
    pub(crate) fn read_buffer_bytes_max(&self) -> usize {
        self.head_bytes_max.max(READ_BUFFER_BYTES)
    }
}
