//! Why a request got no response.

use std::io;
use std::net::SocketAddr;

use crate::Server;

/// One variant for each action that the caller can take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpClientError {
    /// The server does not answer. Fix: start the server, or correct the address.
    #[error("connect to {address}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        err: io::Error,
    },
    /// A connection broke.
    #[error("the connection broke before its response was complete")]
    Broken(#[source] io::Error),
    /// What a body was passed to does not accept it.
    #[error("store the body of a response")]
    Sink(#[source] io::Error),
    /// A response is not valid HTTP/1.1, or uses a part of it that this client does not support.
    #[error("invalid HTTP/1.1 response: {0}")]
    Http(&'static str),
    /// The TLS handshake failed. Fix: pass the server's certificate, or that of its issuer, with
    /// `--ca`.
    #[error("TLS with {address}")]
    Tls {
        /// The address.
        address: SocketAddr,
        /// The reason.
        #[source]
        err: io::Error,
    },
    /// There are no trusted certificates.
    #[error("trusted certificates: {why}")]
    Trust {
        /// The reason.
        why: String,
    },
    /// Not of the form `http[s]://HOST[:PORT][/PATH][?QUERY]`.
    #[error("{server}: {why}; the form is http[s]://HOST[:PORT][/PATH][?QUERY]")]
    Url {
        /// The server that the URL names. The URL itself may have a secret.
        server: Server,
        /// The reason.
        why: String,
    },
    /// Not an API key.
    #[error("an API key has 1 to {bytes_max} visible ASCII characters")]
    ApiKey {
        /// The limit.
        bytes_max: usize,
    },
    /// The body of a response is too long. The rest of it is not read.
    #[error("the response has more than {bytes_max} bytes")]
    BodyTooLong {
        /// The limit.
        bytes_max: usize,
    },
    /// A call was answered with an error.
    #[error("{method}: {error}")]
    Call {
        /// The method.
        method: String,
        /// The error, or the beginning of an invalid response.
        error: String,
    },
    /// The endpoint has no address.
    #[error("a server without an address")]
    NoAddress,
    /// The runtime of a blocking client could not be started.
    #[error("start the runtime of an HTTP client")]
    Runtime(#[source] io::Error),
}
