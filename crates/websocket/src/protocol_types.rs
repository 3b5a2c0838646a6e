//! The types that a protocol's connections and subscriptions are made of.

use std::hash::Hash;

use crate::payload::ConflatableItems;

/// The types of a protocol's subscriptions and notifications.
pub trait ProtocolTypes: Sized + Send + Sync + 'static {
    /// A subscription. Equal ones are shared by all clients that have them.
    type Subscription: Eq + Hash + Send + Sync + 'static;
    /// The items of a notification of a set, for clients that read too slowly.
    type Items: ConflatableItems;
    /// A block, retained for clients that resume.
    type Block: Send + Sync + 'static;
    /// State of one connection that only the protocol knows.
    type SessionState: Default + Send + Sync + 'static;
}
