//! Why a load could not run. Errors in responses under load are not errors here: they are counted.

use std::io;
use std::path::PathBuf;

use http_client::HttpClientError;

/// One variant for each action that the caller can take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A connection could not be opened, or the endpoint is not valid.
    #[error(transparent)]
    Http(#[from] HttpClientError),
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
