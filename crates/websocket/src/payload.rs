//! The payloads in a client's queue: a notification that is the same for all listeners, or the common prefix of one,
//! to which the connection adds the listener's numbers when it writes it.
//!
//! Invariant: the common prefix is encoded once and shared. It is written as the first frame of a
//! WebSocket message whose second frame has the numbers.
//! Not here: the content of a notification, and how its numbers are written (the protocol).

use std::sync::Arc;

use subscriptions::Message;

use crate::shared_bytes::SharedBytes;

/// The items of a notification, from which one message can be made for a client that reads too slowly.
pub trait ConflatableItems: Send + Sync + 'static {
    /// The newest state of each item of several notifications.
    type State: Default + Send + 'static;

    /// Merges these items, the newest, into the state of those before them. Returns by how many bytes the state grew.
    fn conflate(&self, state: &mut Self::State) -> usize;

    /// Returns the bytes that may be alive only because of this.
    fn bytes(&self) -> usize;
}

/// The body of a queued message.
pub enum Payload<I> {
    /// A whole notification.
    Whole(SharedBytes),
    /// The prefix of a notification.
    Split(SplitPayload<I>),
}

/// A notification up to the listener's numbers (`Protocol::notification_suffix`).
pub struct SplitPayload<I> {
    /// What all listeners get.
    pub prefix: SharedBytes,
    /// The items of the notification, for conflation.
    pub items: Option<Arc<I>>,
}

impl<I> Payload<I> {
    /// Returns the bytes that it counts in a queue.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Split(payload) => payload.prefix.len(),
        }
    }

    /// Returns the bytes of a payload that is one frame.
    pub(crate) fn into_whole(self) -> Option<SharedBytes> {
        match self {
            Self::Whole(bytes) => Some(bytes),
            Self::Split(_) => None,
        }
    }
}

// Not derived: a clone shares the items.
impl<I> Clone for Payload<I> {
    fn clone(&self) -> Self {
        match self {
            Self::Whole(bytes) => Self::Whole(bytes.clone()),
            Self::Split(payload) => Self::Split(payload.clone()),
        }
    }
}

impl<I> Clone for SplitPayload<I> {
    fn clone(&self) -> Self {
        Self { prefix: self.prefix.clone(), items: self.items.clone() }
    }
}

impl<I: ConflatableItems> Message for Payload<I> {
    type Conflated = I::State;

    fn conflate(self, state: &mut I::State) -> usize {
        // Only subscriptions to sets conflate.
        let Self::Split(SplitPayload { items: Some(items), .. }) = self else { return 0 };
        items.conflate(state)
    }

    fn memory(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.memory(),
            Self::Split(SplitPayload { prefix, items }) => {
                let share = |items: &Arc<I>| items.bytes() / Arc::strong_count(items);
                prefix.memory() + items.as_ref().map_or(0, share)
            }
        }
    }

    fn conflation_bytes(&self) -> usize {
        match self {
            Self::Split(SplitPayload { items: Some(items), .. }) => items.bytes(),
            Self::Split(_) | Self::Whole(_) => 0,
        }
    }

    fn forget_conflation(&mut self) {
        if let Self::Split(payload) = self {
            payload.items = None;
        }
    }
}
