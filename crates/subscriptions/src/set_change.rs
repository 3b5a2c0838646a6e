//! A change of a subscription's set, and its result.
//!
//! Not here: how a set changes (`set_update`).

use std::sync::Arc;

use ledger::AddressId;

use crate::address_set::AddressSet;
use crate::id_set::IdSet;
use crate::ids::SubscriptionId;

/// A change of a set.
pub enum SetChange {
    /// Adds addresses.
    Add(AddressSet),
    /// Removes addresses.
    Remove(AddressSet),
    /// Replaces all addresses.
    Replace(AddressSet),
}

impl SetChange {
    pub(crate) fn set(&self) -> &AddressSet {
        match self {
            Self::Add(set) | Self::Remove(set) | Self::Replace(set) => set,
        }
    }
}

/// A subscription, or an addition to one, that is to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The addition, if not all addresses of the set.
    pub(crate) token: Option<u64>,
}

/// The result of a change.
pub struct SetChangeResult {
    /// The addition to start, if anything was added.
    pub activation: Option<Activation>,
    /// The addresses that were added and were not in the set before.
    pub added: AddedIds,
    /// The number of addresses removed.
    pub removed: usize,
    /// The number of addresses in the set now.
    pub len: usize,
}

/// Addresses that were added.
#[derive(Clone, Default)]
pub struct AddedIds(pub(crate) Arc<IdSet>);

impl AddedIds {
    /// Whether an address is among them.
    pub fn contains(&self, id: AddressId) -> bool {
        self.0.contains(id.0)
    }

    /// The number of addresses.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their ids, in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = AddressId> + '_ {
        self.0.iter().map(AddressId)
    }
}
