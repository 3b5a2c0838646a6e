//! Output of one step of a session's task: the writes and actions that the connection must perform.

use subscriptions::SubscriptionId;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::message::OutgoingMessage;
use crate::payload::SplitPayload;
use crate::shared_bytes::SharedBytes;

/// The next write or action of the connection.
pub enum SessionOutput<I> {
    /// A complete message.
    Message(OutgoingMessage),
    /// A part of a streamed message, not the last one. Until its last part has been written there is no other message,
    /// and no notification; those that are queued are written before the first part. All parts have the kind of the
    /// first. Each is a frame: some 64 KiB are enough. The protocol limits how long it may take: a client that reads
    /// 64 KiB within `Config::write_timeout_ms` is not closed.
    Part(OutgoingMessage),
    /// The last part of a streamed message.
    LastPart(OutgoingMessage),
    /// The reply of a call that subscribes. Later messages wait until the client knows the id (`Config::hold_ms`).
    SubscribeReply(OutgoingMessage),
    /// A notification of a block. The connection adds the listener's numbers.
    Split(SubscriptionId, SplitPayload<I>),
    /// A notification without items to conflate. The connection adds the listener's numbers.
    Prefix(SubscriptionId, SharedBytes),
    /// The subscription's queued notifications, up to and including a step.
    QueuedUntil(SubscriptionId, u64),
    /// Nothing: the connection waits before it runs the next step.
    Backoff,
    /// The close frame that ends the connection.
    Close(CloseCode, String),
}
