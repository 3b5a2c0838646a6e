//! Why a call of a client is refused.

use clients::RateLimited;

/// Why a call of a client is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallRefused {
    /// The client is over a limit of its own.
    #[error(transparent)]
    RateLimited(#[from] RateLimited),
    /// The client's tier does not have the method.
    #[error("the method {method} is not available to this client (tiers.allow, tiers.deny)")]
    MethodDenied {
        /// The name of the method.
        method: String,
    },
}
