//! An HTTP/1.1 server with WebSocket upgrades: listeners, TLS, connections, limits, bodies, compression.
//!
//! In: bound listeners, an [`HttpService`] and a [`WebSocketHandler`]. Out: bytes of responses.
//! Bounds: [`HttpConfig`]. The work of one poll of a connection is bounded as well ([`poll_budget`]).
//! Invariant: a client that is slow, or that sends anything, delays no other client by more than a bounded poll.
//! Not here: the meaning of a request ([`HttpService`]), any chain.

mod body;
mod buf_list;
mod client_id;
mod client_stream;
mod content_encoding;
mod cors;
mod drain;
mod fd_reserve;
mod head;
mod head_progress;
mod head_timer;
mod http_config;
mod http_context;
mod http_metrics;
mod http_service;
mod large_bodies;
mod listener;
mod page_access;
pub mod poll_budget;
mod rate_limited_body;
mod request_body;
pub mod request_id;
mod responses;
mod tls;
#[cfg(test)]
mod wall_clock;
mod websocket_handshake;
mod write_timeout;
mod yield_queue;

pub use authentication::Authenticator;
pub use body::{ChunkSource, ResponseBody};
pub use buf_list::BufList;
pub use content_encoding::{
    BodyEncoder, COMPRESS_BYTES_MIN, ContentEncoding, encode_all, parse_qvalue,
};
pub use cors::{AllowedOrigins, NoHost, NoOrigin};
pub use drain::Drain;
pub use http_config::HttpConfig;
pub use http_context::HttpContext;
pub use http_metrics::{HttpCounters, HttpEvent};
pub use http_service::{ClientRefusal, HttpRequest, HttpService};
pub use listener::{Listeners, Socket, WebSocketHandler, serve_http};
pub use page_access::PageAccess;
pub use rate_limited_body::RateLimitedBody;
pub use request_body::{BodyError, RequestBody};
pub use request_id::RequestId;
pub use responses::{NO_STORE, response, text_response};
pub use tls::{Tls, TlsError};
pub use write_timeout::DRAIN_BYTES_MAX;
