//! The entries of a listener's queue: messages, conflated messages, holds, and the reasons to close it.
//!
//! Not here: the queue itself, and its bounds (`queue`).

use crate::filter::Position;
use crate::ids::SubscriptionId;

/// The body of a message. Cloned for each listener, so let cloning it be cheap.
pub trait Message: Clone {
    /// The state of conflated messages.
    type Conflated: Default;

    /// Merges this message, the newest, into the state of those before it. Returns by how many bytes the state grew.
    fn conflate(self, state: &mut Self::Conflated) -> usize;

    /// The approximate bytes that dropping this clone frees: its share of the memory that clones share.
    fn memory(&self) -> usize {
        0
    }

    /// Bytes that only [`Self::conflate`] needs. They count in a queue that conflates.
    fn conflation_bytes(&self) -> usize {
        0
    }

    /// Drops what only [`Self::conflate`] needs: the listener does not conflate.
    fn forget_conflation(&mut self) {}
}

/// A message in the queue of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<M> {
    /// The number of the delivery of this subscription to this listener: from 0, without gaps.
    pub sequence: u64,
    /// The subscription that it is for.
    pub subscription: SubscriptionId,
    /// The message, shared by all listeners that get it.
    pub body: M,
    pub(crate) bytes: usize,
    /// The position of its publication.
    pub(crate) at: Position,
    /// Whether it may be conflated.
    pub(crate) conflates: bool,
}

/// Messages that were conflated to one because their listener was slow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflated<K> {
    /// The subscription that they were for.
    pub subscription: SubscriptionId,
    /// The sequence number of the newest of them.
    pub sequence: u64,
    /// Number of conflated messages.
    pub messages: u64,
    /// Conflated state of these messages.
    pub state: K,
    pub(crate) bytes: usize,
}

/// The reason why a listener was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// It did not read its messages fast enough.
    #[error("too slow: {limit} messages were waiting")]
    MessagesFull {
        /// Maximum number of messages in the queue.
        limit: usize,
    },
    /// It did not read its messages fast enough.
    #[error("too slow: more than {limit} bytes were waiting")]
    BytesFull {
        /// Maximum number of bytes in the queue.
        limit: usize,
    },
    /// All listeners together did not read their messages fast enough, and this one's owner used the most memory.
    #[error("too slow: more than {limit} bytes were waiting for all clients")]
    NodeBytesFull {
        /// Maximum number of bytes in all queues.
        limit: usize,
    },
    /// The publisher lost events that this listener may have subscribed to.
    #[error("the node could not keep up and notifications were lost")]
    EventsLost,
    /// The access of its owner was revoked.
    #[error("the API key was removed")]
    Revoked,
    /// There will be no more publications.
    #[error("the node is shutting down")]
    ShutDown,
}

/// The next entry of a listener's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<M, K> {
    /// The oldest message, removed from the queue.
    Message(Delivery<M>),
    /// Conflated messages, removed from the queue. All other messages have been removed before.
    Conflated(Conflated<K>),
    /// Nothing now; the listener's `wake` is called when there is a message.
    Empty,
    /// No more messages: the listener is closed.
    Closed(CloseReason),
}

/// A new subscription. Its messages wait until its listener knows the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Id of the held subscription.
    pub subscription: SubscriptionId,
    /// Distinguishes the holds of a subscription that is ended and made again.
    pub(crate) number: u64,
}
