//! The way of a request to another node: what this crate needs of it.
//!
//! Not here: connections to a kaspad, their number and their sharing (`follow_kaspa`), the choice of requests
//! (`methods`).

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use clients::ClientId;
use kaspa::Operation;

/// The reply to a forwarded request, later.
pub type ForwardFuture<'a> = Pin<Box<dyn Future<Output = Result<Bytes, ForwardError>> + Send + 'a>>;

/// Sends requests to a kaspad in one encoding.
///
/// The connections behind it are shared, so it limits what one client may have in flight. Dropping the future gives the
/// request up: its client is gone, or does not wait any longer.
pub trait Forward: Send + Sync {
    /// Sends a request, which is a whole message with the id of the client. Returns the whole reply, whatever its
    /// result, with the same id.
    ///
    /// The request has a known operation, and was checked. Slow operations should not delay the others.
    fn forward(&self, client: ClientId, operation: Operation, request: Bytes) -> ForwardFuture<'_>;
}

/// The upstream of each encoding: a kaspad has a port for each of them.
#[derive(Clone)]
pub struct Forwards {
    /// Requests in Borsh.
    pub borsh: Arc<dyn Forward>,
    /// Requests in JSON. `None`: the upstream has no such port, and only what is answered here works in JSON.
    pub json: Option<Arc<dyn Forward>>,
}

/// Why a request was not forwarded, or got no reply. The texts are those that clients read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// No upstream is connected.
    #[error("the upstream node is not connected")]
    NotConnected,
    /// The upstream does not serve the client's encoding.
    #[error("the upstream node is not connected in this encoding")]
    NoSuchEncoding,
    /// Too many requests are in flight, of this client or of all.
    #[error("too many requests wait for the upstream node")]
    Busy,
    /// The reply did not come in time.
    #[error("the upstream node did not answer within {limit_ms} ms")]
    TimedOut {
        /// Milliseconds that a reply may take.
        limit_ms: u64,
    },
    /// The reply is longer than the limit.
    #[error("the reply of the upstream node has more than {limit} bytes")]
    TooLong {
        /// Bytes that a reply may have.
        limit: usize,
    },
    /// The reply is not one to this request.
    #[error("the upstream node sent an invalid reply")]
    InvalidReply,
    /// The connection ended before the reply.
    #[error("the connection to the upstream node was lost")]
    ConnectionLost,
}
