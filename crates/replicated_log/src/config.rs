//! Configuration of a log, for all implementations.
//!
//! Not here: the choice of an implementation (`open`).

use std::time::Duration;

use crate::error::LogError;

/// Maximum length of a cluster's name: it is part of the names of streams and directories.
const CLUSTER_NAME_BYTES_MAX: usize = 64;

/// Settings of all implementations. An implementation ignores the settings that it does not need.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// `nats://a:4222,nats://b:4222`, `file:///dir`, `s3://bucket/prefix` or `memory:`.
    pub url: String,
    /// Name of the cluster: letters, digits, `_` and `-`.
    pub cluster: String,
    /// Number of servers that store each message. NATS only.
    pub replicas: u8,
    /// Age at which messages are removed.
    pub max_age: Duration,
    /// Size of the log at which the oldest messages are removed.
    pub max_bytes: u64,
    /// Memory for messages in transit, for each writer and each reader. One batch may exceed it.
    pub in_flight_bytes: usize,
    /// Time limit of one request to the log.
    pub request_timeout: Duration,
}

impl LogConfig {
    /// Returns an error if the cluster's name cannot be part of a stream's or directory's name.
    pub(crate) fn check_cluster(&self) -> Result<(), LogError> {
        let name = &self.cluster;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !name.is_empty() && name.len() <= CLUSTER_NAME_BYTES_MAX && name.bytes().all(is_allowed)
        {
            return Ok(());
        }
        Err(LogError::with_reason(
            self.url.as_str(),
            "open the log",
            format!(
                "cluster `{name}` is not a name of 1 to {CLUSTER_NAME_BYTES_MAX} letters, digits, `_` and `-`"
            ),
        ))
    }
}
