//! A client for HTTP/1.1 and JSON-RPC: one request at a time on a connection that is kept alive.
//!
//! In: the URL of a server ([`Endpoint`]), which also builds requests. Out: status, headers and body of the response.
//! [`Connection`] is asynchronous, [`Client`] blocks and reconnects.
//! Bounds: the caller sets how many bytes of a body are stored. A [`Client`] waits two minutes for a response; a
//! [`Connection`] waits as long as its caller does. An error has a bounded part of a response, and of a URL only
//! the [`Server`].
//! Not here: redirects, compression, pipelining, HTTP/2, WebSocket.
#![forbid(unsafe_code)]

mod client;
mod connection;
mod endpoint;
mod error;
mod quick_ack_socket;
mod server;
mod shorten;
mod socket;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;

pub use client::Client;
pub use connection::{Connection, HttpResponse};
pub use endpoint::Endpoint;
pub use error::HttpClientError;
pub use server::{Server, redact_urls};
pub use shorten::{MESSAGE_CHARS_MAX, describe_error, shorten_message, shorten_middle};
pub use socket::{ByteStream, connect_stream};
