//! Why a fork could not be started.

use std::io;
use std::path::{Path, PathBuf};

use chain_solana::FetchError;
use store::StoreError;

/// One variant for each action that the user can take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamForkError {
    /// The upstream did not answer, and no cache replaces it. Fix: the URL, or a cache that was filled before.
    #[error(
        "the fork needs its upstream for the first start; later ones can do without, with --fork-cache"
    )]
    Upstream(#[source] FetchError),
    /// The upstream is another cluster. Fix: `--fork-url` or `--fork-genesis`.
    #[error(
        "the upstream {upstream} (--fork-url) has the genesis hash {found}, and --fork-genesis is {expected}"
    )]
    OtherCluster {
        /// Host of the upstream.
        upstream: String,
        /// What it has.
        found: String,
        /// What was requested.
        expected: String,
    },
    /// The upstream did not answer, and the cache has several clusters. Fix: `--fork-genesis`.
    #[error(
        "the upstream did not answer, and {} has the accounts of {clusters} clusters: name one with --fork-genesis",
        dir.display()
    )]
    Ambiguous {
        /// The directory.
        dir: PathBuf,
        /// How many.
        clusters: usize,
    },
    /// The cache on disk could not be read or written.
    #[error("{what} {}", path.display())]
    File {
        /// What was done.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        err: io::Error,
    },
    /// The file is not a cache of this version.
    #[error("{} is no cache of this version for this cluster: remove it", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Another process uses the cache.
    #[error("--fork-cache")]
    Lock(#[from] StoreError),
    /// A thread could not be started.
    #[error("start the thread of the fork")]
    Thread(#[source] io::Error),
}

/// The error of an operation on a file.
pub(crate) fn file_error(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> UpstreamForkError {
    move |err| UpstreamForkError::File { what, path: path.to_owned(), err }
}
