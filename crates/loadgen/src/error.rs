//! Why a load could not be offered. What a server answers wrongly under load is no error here: it is
//! counted.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// One variant per thing the caller can do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Nobody answers there. Fix: start the server, or say where it is.
    #[error("connect to {address}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        #[source]
        err: io::Error,
    },
    /// A connection broke.
    #[error("the connection broke before its answer was whole")]
    Broken(#[source] io::Error),
    /// An answer is no HTTP/1.1 that we know.
    #[error("not an answer that HTTP/1.1 has: {0}")]
    Http(&'static str),
    /// The server and we do not agree on TLS. Fix: name its certificate, or who signed that, with `--ca`.
    #[error("TLS with {address}")]
    Tls {
        /// Where.
        address: SocketAddr,
        /// What is wrong.
        #[source]
        err: io::Error,
    },
    /// There is nothing by which a server could be trusted.
    #[error("certificates to trust: {why}")]
    Trust {
        /// What is wrong.
        why: String,
    },
    /// Not of the form `http[s]://HOST[:PORT][/PATH][?QUERY]`.
    #[error("{url}: {why}; it is of the form http[s]://HOST[:PORT][/PATH][?QUERY]")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// A call before or after the load was answered with an error.
    #[error("{method}: {error}")]
    Call {
        /// Of the call.
        method: String,
        /// The error, or the text that is no answer.
        error: String,
    },
    /// The endpoint has nothing that the suite could ask for. Fix: give it addresses, or another ledger.
    #[error("{suite}: {why}")]
    NoInput {
        /// Which.
        suite: &'static str,
        /// What is missing.
        why: String,
    },
    /// A line of a log of requests is none.
    #[error("line {line} of the log: {why}")]
    Log {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A file could not be read or written.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        err: io::Error,
    },
    /// The plan cannot be: what is told must change.
    #[error("{0}")]
    Plan(String),
    /// The server's process cannot be looked at.
    #[error("look at process {pid}")]
    Process {
        /// Its number.
        pid: u32,
        /// What the system says.
        #[source]
        err: io::Error,
    },
    /// A thread of ours could not be started, or panicked.
    #[error("a thread of the load: {0}")]
    Thread(String),
}
