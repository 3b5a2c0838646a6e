//! Why a suite has no requests.

use http_client::HttpClientError;

/// One variant for each action that the caller can take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// The endpoint has no data for the suite. Fix: pass addresses, or use another ledger.
    #[error("{suite}: {why}")]
    NoInput {
        /// Which.
        suite: &'static str,
        /// The missing data.
        why: String,
    },
    /// A request that checks the suite got no result.
    #[error(transparent)]
    Http(#[from] HttpClientError),
}
