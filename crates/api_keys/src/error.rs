//! Why a key is refused, and why a request of a client is.

use std::time::Duration;

use crate::key_hash::KEY_BYTES_MAX;
use crate::utc::utc_text;

/// Why a request does not belong to a client that may use the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// A key is required. Fix: send a key.
    #[error("an API key is required: x-api-key, Authorization: Bearer, or ?api-key=")]
    Missing,
    /// The key is not in the file. Fix: send a key of the file.
    #[error("the API key is not valid")]
    Unknown,
    /// The key is too long. Fix: send a key, and nothing else.
    #[error("the API key is not valid: a key has at most {KEY_BYTES_MAX} bytes")]
    TooLong,
    /// The key has other origins. Fix: list the origin of the page at the key.
    #[error("this API key may not be used by this origin (origins of the key)")]
    Origin,
    /// The key has other addresses. Fix: list the address of the client at the key.
    #[error("this API key may not be used from this address (addresses of the key)")]
    Address,
    /// The address sends wrong keys. Fix: wait, and send a key of the file.
    #[error("too many wrong API keys from this address, retry in {} ms", retry_after.as_millis())]
    Throttled {
        /// Time until the next wrong key gets a response of its own.
        retry_after: Duration,
    },
}

impl AuthError {
    /// Returns the HTTP status of the refusal.
    pub fn status(&self) -> u16 {
        match self {
            Self::Missing | Self::Unknown | Self::TooLong => 401,
            Self::Origin | Self::Address => 403,
            Self::Throttled { .. } => 429,
        }
    }

    /// Returns the seconds after which to retry.
    pub fn retry_after_s(&self) -> Option<u64> {
        match self {
            Self::Throttled { retry_after } => Some(retry_after.as_secs() + 1),
            _ => None,
        }
    }
}

/// A client exceeded a limit of its tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} {what} of one client ({knob}){}", again(*retry_after, *resets_at))]
pub struct LimitReached {
    /// The limited quantity, in words.
    pub what: &'static str,
    /// The value of the limit.
    pub limit: u64,
    /// The setting of the limit in the key file.
    pub knob: &'static str,
    /// Time until a request will be admitted again; zero if that depends on the client.
    pub retry_after: Duration,
    /// Time at which a daily quota is whole again, in seconds since 1970.
    pub resets_at: Option<u64>,
}

fn again(retry_after: Duration, resets_at: Option<u64>) -> String {
    match resets_at {
        Some(unix_s) => format!(", used up until {}", utc_text(unix_s)),
        None if retry_after.is_zero() => String::new(),
        None => format!(", retry in {} ms", retry_after.as_millis()),
    }
}
