//! Why a listener or a subscription was refused.

use crate::delivery::CloseReason;

/// Why a subscription was refused. All or nothing: nothing has changed. The texts are those that clients read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The subscriptions of all listeners are at the limit. Fix: raise the limit.
    #[error("Node subscription limit reached")]
    NodeFull {
        /// Subscriptions that the node may have.
        limit: usize,
    },
    /// The subscriptions of this listener are at the limit. Fix: end some, or raise the limit.
    #[error(
        "Connection subscription limit reached: {limit} (pubsub.subscriptions_per_connection_max)"
    )]
    ListenerFull {
        /// Subscriptions that a listener may have.
        limit: usize,
    },
    /// All sets together would have more distinct addresses than the limit. Fix: raise the limit.
    #[error(
        "Node address limit reached: {added} addresses do not fit into {limit} distinct ones \
         (--max-tracked-addresses)"
    )]
    AddressesFull {
        /// The addresses of the request.
        added: usize,
        /// Distinct addresses that the node may track.
        limit: usize,
    },
    /// The subscriptions would have more pairs with an address than the limit. Fix: raise the limit.
    #[error(
        "Node address limit reached: {pairs} addresses of all subscriptions, at most {limit} \
         (pubsub.tracked_pairs_max)"
    )]
    AddressPairsFull {
        /// Pairs that the node would have with the request.
        pairs: usize,
        /// Pairs that the node may have.
        limit: usize,
    },
    /// The sets of this listener's owner would exceed the limit of addresses. Fix: raise the limit.
    #[error(
        "Client address limit reached: {addresses} addresses, at most {limit} \
         (pubsub.tracked_addresses_per_client_max)"
    )]
    OwnerAddressesFull {
        /// Addresses that the owner would have with the request.
        addresses: usize,
        /// Addresses that an owner may have.
        limit: usize,
    },
    /// This listener's sets would exceed the limit of addresses. Fix: raise the limit.
    #[error(
        "Connection address limit reached: {addresses} addresses, at most {limit} \
         (pubsub.tracked_addresses_per_connection_max)"
    )]
    ListenerAddressesFull {
        /// Addresses that the listener would have with the request.
        addresses: usize,
        /// Addresses that a listener may have.
        limit: usize,
    },
    /// The address table has no free id.
    #[error(transparent)]
    Addresses(#[from] address::TableFull),
    /// This listener has no set of that id.
    #[error("Invalid subscription id.")]
    Unknown,
    /// The listener was closed before the call.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

/// The listeners are at the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node has {limit} listeners, the most it may have")]
pub struct ListenError {
    /// Listeners that the node may have.
    pub limit: usize,
}
