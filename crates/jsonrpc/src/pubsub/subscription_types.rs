//! The types of an API's subscriptions.

use std::hash::Hash;

use websocket::ConflatableItems;

/// The types of an API's subscriptions and notifications.
pub trait SubscriptionTypes: Sized + Send + Sync + 'static {
    /// A subscription. Equal ones are shared by all clients that have them.
    type Subscription: Eq + Hash + Send + Sync + 'static;
    /// The items of a notification of a set, for clients that read too slowly.
    type Items: ConflatableItems;
    /// A block, retained for clients that resume.
    type Block: Send + Sync + 'static;
}
