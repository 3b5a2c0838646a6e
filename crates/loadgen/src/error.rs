//! Why a load could not run. Errors in responses under load are not errors here: they are counted.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// One variant for each action that the caller can take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
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
    #[error("{url}: {why}; the form is http[s]://HOST[:PORT][/PATH][?QUERY]")]
    Url {
        /// The URL.
        url: String,
        /// The reason.
        why: String,
    },
    /// Not an API key.
    #[error("an API key has 1 to {bytes_max} visible ASCII characters")]
    ApiKey {
        /// The limit.
        bytes_max: usize,
    },
    /// A call before or after the load was answered with an error.
    #[error("{method}: {error}")]
    Call {
        /// The method.
        method: String,
        /// The error, or the text of an invalid response.
        error: String,
    },
    /// A line of a request log is invalid.
    #[error("line {line} of the log: {why}")]
    Log {
        /// Line number from 1.
        line: usize,
        /// The reason.
        why: String,
    },
    /// A file could not be read or written.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's error.
        #[source]
        err: io::Error,
    },
    /// The plan is invalid.
    #[error("{0}")]
    Plan(String),
    /// The server's process cannot be read.
    #[error(transparent)]
    Process(#[from] process_usage::ProcessError),
    /// A thread of ours could not be started, or panicked.
    #[error("a thread of the load generator: {0}")]
    Thread(String),
}
