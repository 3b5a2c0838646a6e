//! Why a call is not forwarded, or has no reply.

use std::time::Duration;

use clients::ShareFull;

/// Why a call is not forwarded, or has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// The operation is not a method.
    #[error("RPC method not found")]
    NotAMethod,
    /// The message has no id, is of another operation, or cannot be read. kaspad would close the connection.
    #[error("the message is not a request of the method")]
    Malformed,
    /// A count or a length in the request is not backed by bytes.
    #[error("the parameters of the request are malformed: {reason}")]
    InvalidParams {
        /// Description of the malformed field.
        reason: String,
    },
    /// The request is too long.
    #[error("the request has {bytes} bytes, at most {bytes_max} are forwarded (request_bytes_max)")]
    RequestTooLong {
        /// Bytes of the request.
        bytes: usize,
        /// Bytes that are allowed.
        bytes_max: usize,
    },
    /// No upstream for JSON is configured.
    #[error("calls in JSON are not forwarded: no source for JSON is configured (--json-source)")]
    NoJsonUpstream,
    /// The client has too many calls that wait.
    #[error("{0}")]
    ClientCalls(ShareFull),
    /// Too many calls of all clients wait.
    #[error("too many forwarded calls wait; try again later")]
    QueueFull,
    /// The reply of the upstream did not come within the time limit.
    #[error("no reply of the upstream within {limit:?}")]
    Timeout {
        /// The time limit of the call.
        limit: Duration,
    },
    /// The reply is too long.
    #[error("the reply has more than {bytes_max} bytes (response_bytes_max)")]
    ReplyTooLong {
        /// Bytes that are allowed.
        bytes_max: usize,
    },
    /// Too many bytes of replies wait for clients that read slowly.
    #[error("the replies that wait for their clients have no room for another; try again later")]
    RepliesFull,
    /// No upstream accepts a connection, or it closed the connection before its reply.
    #[error("the upstream is not available: {reason}")]
    Unavailable {
        /// The reason, without the address of the upstream.
        reason: String,
    },
}

impl ForwardError {
    /// Returns the error of a call that the end of the node interrupts.
    pub(super) fn stopping() -> Self {
        Self::Unavailable { reason: "the node stops".to_owned() }
    }

    /// Returns the name of the error in metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::NotAMethod | Self::Malformed => "malformed",
            Self::InvalidParams { .. } => "invalid_params",
            Self::RequestTooLong { .. } => "request_too_long",
            Self::NoJsonUpstream | Self::Unavailable { .. } => "unavailable",
            Self::ClientCalls(_) => "client_limit",
            Self::QueueFull => "queue_full",
            Self::Timeout { .. } => "timeout",
            Self::ReplyTooLong { .. } => "reply_too_long",
            Self::RepliesFull => "replies_full",
        }
    }
}
