//! Output of one step of a session's task: the writes and actions that the connection must perform.

use subscriptions::SubscriptionId;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::payload::SplitPayload;
use super::shared_text::SharedText;

/// The next write or action of the connection.
pub enum SessionOutput<I> {
    /// A complete message.
    Text(String),
    /// The reply of a call that subscribes. Later messages wait until the client knows the id (`Config::hold_ms`).
    SubscribeReply(String),
    /// A notification of a block. The connection adds the listener's numbers.
    Split(SubscriptionId, SplitPayload<I>),
    /// A notification without items to conflate. The connection adds the listener's numbers.
    Prefix(SubscriptionId, SharedText),
    /// The subscription's queued notifications, up to and including a step.
    QueuedUntil(SubscriptionId, u64),
    /// Nothing: the connection waits before it runs the next step.
    Backoff,
    /// The close frame that ends the connection.
    Close(CloseCode, String),
}
