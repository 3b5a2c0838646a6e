//! Why a listener or a subscription was refused.

use crate::queue::CloseReason;

/// Why a subscription was refused. All or nothing: nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The subscriptions of all listeners are at the limit. Fix: raise the limit.
    #[error("the node has {limit} subscriptions, the most it may have")]
    NodeFull {
        /// The limit.
        limit: usize,
    },
    /// The subscriptions of this listener are at the limit. Fix: end some, or raise the limit.
    #[error("the connection has {limit} subscriptions, the most it may have")]
    ListenerFull {
        /// The limit.
        limit: usize,
    },
    /// All sets together would exceed the limit of addresses. Fix: raise the limit.
    #[error("the node tracks as many addresses as it may: {limit}")]
    AddressesFull {
        /// The limit.
        limit: usize,
    },
    /// This listener's sets would exceed the limit of addresses. Fix: raise the limit.
    #[error("the connection may track {limit} addresses")]
    ListenerAddressesFull {
        /// The limit.
        limit: usize,
    },
    /// The address table is full.
    #[error(transparent)]
    Addresses(#[from] address::TableFull),
    /// This listener has no set of that id.
    #[error("no such subscription")]
    Unknown,
    /// This listener is closed.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

/// The listeners are at the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node has {limit} listeners, the most it may have")]
pub struct ListenError {
    /// The limit.
    pub limit: usize,
}
