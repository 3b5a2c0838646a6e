//! The numbers by which subscriptions and listeners are known.

/// The id of a subscription. Listeners that share a fixed subscription have the same id for it; a subscription to a
/// set has another id for each listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListenerId(pub(crate) u64);
