//! A change of a subscription's set, and its result.
//!
//! Not here: how a set changes (`set_update`).

use std::sync::Arc;

use ledger::AddressId;

use crate::address_set::AddressSet;
use crate::id_set::IdSet;
use crate::ids::SubscriptionId;

/// A change of a set of addresses.
pub enum SetChange {
    /// Adds addresses to the set.
    Add(AddressSet),
    /// Removes addresses from the set.
    Remove(AddressSet),
    /// Replaces all addresses of the set.
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
    /// Id of the subscription to change.
    pub subscription: SubscriptionId,
    /// The addition, if not all addresses of the set.
    pub(crate) token: Option<u64>,
}

/// The result of a change of a set.
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

/// The addresses that a change added.
#[derive(Clone, Default)]
pub struct AddedIds(pub(crate) Arc<IdSet>);

impl AddedIds {
    /// Whether an address is among them.
    pub fn contains(&self, id: AddressId) -> bool {
        self.0.contains(id.0)
    }

    /// Returns the number of added addresses.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the change added no addresses.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their ids, in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = AddressId> + '_ {
        self.0.iter().map(AddressId)
    }
}
