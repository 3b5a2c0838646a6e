//! Why a request to a depot failed.

use std::time::Duration;

/// Why a request to a depot failed. `object` is the URL of the depot and the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DepotError {
    /// The object does not exist.
    #[error("{object}: does not exist")]
    NotFound {
        /// The object.
        object: String,
    },
    /// The object is longer than the caller allows.
    #[error("{object}: has {bytes} bytes, at most {bytes_max}")]
    TooLong {
        /// The object.
        object: String,
        /// The length of the object.
        bytes: u64,
        /// The limit of the caller.
        bytes_max: usize,
    },
    /// The URL of a depot is invalid.
    #[error("{url}: {why}; valid: file:///directory, s3://bucket[/prefix]")]
    Url {
        /// The URL without user and password.
        url: String,
        /// The reason.
        why: String,
    },
    /// The key is invalid.
    #[error("{key:?}: a key is names of letters, digits, '.', '_' and '-', separated by '/'")]
    Key {
        /// The key.
        key: String,
    },
    /// The store replaced an object that a request had to create only. A log or a snapshot needs another store.
    #[error("{store}: replaced an object that had to be created only (If-None-Match: *)")]
    NotExclusive {
        /// The URL of the depot.
        store: String,
    },
    /// A list has more objects than the limit.
    #[error("{prefix}: has more than {max} objects (list_max)")]
    TooMany {
        /// The listed prefix.
        prefix: String,
        /// The limit.
        max: usize,
    },
    /// The store has no space for the object, which was not created.
    #[error("{object}: the store is full: {reason}")]
    Full {
        /// The object.
        object: String,
        /// The error of the store.
        reason: String,
    },
    /// The last attempt failed.
    #[error("{operation} {object}: {reason} (attempts: {attempts}, in {elapsed:.1?})")]
    Failed {
        /// The request: get, put, list, delete or upload.
        operation: &'static str,
        /// The object.
        object: String,
        /// The failure of the last attempt.
        reason: String,
        /// Number of attempts.
        attempts: u32,
        /// Time since the first attempt began.
        elapsed: Duration,
    },
}
