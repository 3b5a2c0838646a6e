//! Calls of JSON-RPC that a followed chain forwards to its upstream.
//!
//! Shape: a call is queued at once. [`UpstreamCall::poll`] says when its result has arrived. The producer has an
//! [`UpstreamReply`].
//! Invariant: each call gets a result. A dropped reply is an error.

use std::task::{Poll, Waker};

use serde_json::Value;

use crate::pending::{Pending, PendingSender, pending};

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum UpstreamError {
    /// The upstream refused the call.
    #[error("{message}")]
    Refused {
        /// The code of the JSON-RPC error.
        code: i64,
        /// The message of the JSON-RPC error.
        message: String,
        /// The data of the JSON-RPC error.
        data: Option<Value>,
    },
    /// The upstream did not respond. Fix: the upstream, or its address (`--upstream`).
    #[error("the upstream (--upstream) did not answer: {0}")]
    Unreachable(String),
    /// Too many calls wait for the upstream. Fix: try again later.
    #[error("{limit} calls wait for the upstream already")]
    TooMany {
        /// Maximum number of calls that wait.
        limit: usize,
    },
}

/// The result of a call, in JSON.
pub type UpstreamResult = Result<Vec<u8>, UpstreamError>;

/// An upstream of a followed chain.
pub trait UpstreamRpc: Send + Sync {
    /// Queues a call. `params` is a JSON array.
    fn call(&self, method: &'static str, params: &str) -> Result<UpstreamCall, UpstreamError>;
}

/// The result of a queued call, once it has arrived.
pub struct UpstreamCall(Pending<UpstreamResult>);

/// The sending half of an [`UpstreamCall`], for the producer.
pub struct UpstreamReply(PendingSender<UpstreamResult>);

impl UpstreamCall {
    /// Creates a call, and the reply that completes it.
    pub fn new() -> (Self, UpstreamReply) {
        let (result, sender) = pending();
        (Self(result), UpstreamReply(sender))
    }

    /// Whether the result has arrived. If not, `waker` is woken once it has.
    pub fn poll(&self, waker: impl FnOnce() -> Waker) -> Poll<()> {
        self.0.poll(waker)
    }

    /// Returns the result. Blocks until it has arrived.
    pub fn wait(self) -> UpstreamResult {
        let ended = || Err(UpstreamError::Unreachable("the node ends".to_owned()));
        self.0.wait().unwrap_or_else(ended)
    }
}

impl UpstreamReply {
    /// Whether the client has disconnected.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }

    /// Sends the result to the caller.
    pub fn send(self, result: UpstreamResult) {
        self.0.send(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_reply_is_an_error() {
        let (call, reply) = UpstreamCall::new();
        assert!(!reply.is_abandoned());
        drop(reply);
        assert_eq!(call.wait(), Err(UpstreamError::Unreachable("the node ends".to_owned())));
        let (call, reply) = UpstreamCall::new();
        drop(call);
        assert!(reply.is_abandoned());
    }

    #[test]
    fn a_reply_is_the_calls_result() {
        let (call, reply) = UpstreamCall::new();
        reply.send(Ok(b"7".to_vec()));
        assert!(call.poll(|| unreachable!("it is there")).is_ready());
        assert_eq!(call.wait(), Ok(b"7".to_vec()));
    }
}
