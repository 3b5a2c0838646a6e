//! The interface to the node that answers forwarded requests.
//!
//! Not here: connections to a kaspad, their number and their sharing (`follow_kaspa`), the choice of requests
//! (`protocol`).

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use clients::ClientId;
use kaspa::{Encoding, Operation};

/// The reply to a forwarded request.
pub type ForwardFuture<'a> = Pin<Box<dyn Future<Output = Result<Bytes, ForwardError>> + Send + 'a>>;

/// Sends requests to a kaspad.
///
/// The connections behind it are shared, so it limits the requests of each client that wait. If the future is dropped,
/// the client has left or does not wait any longer.
pub trait Forward: Send + Sync {
    /// Sends a request, which is a whole message with the id of the client. Returns the whole reply with the same id,
    /// whether the method succeeded or not.
    ///
    /// The operation is a method, and the request was checked. Slow methods should not delay the others.
    fn forward(
        &self,
        client: ClientId,
        encoding: Encoding,
        operation: Operation,
        request: Bytes,
    ) -> ForwardFuture<'_>;
}

/// Why a request was not forwarded, or has no reply: a text for the client, which can do nothing but try again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ForwardError {
    text: String,
}

impl ForwardError {
    /// Creates an error with the text of another one.
    pub fn new(error: impl fmt::Display) -> Self {
        Self { text: error.to_string() }
    }
}
