//! The counts of addresses in sets: of each listener, of its owner, and of all distinct subscriptions.
//!
//! Not here: the distinct addresses of the node, which are counted where they are indexed (`index`).

use std::hash::Hash;

use crate::delivery::Message;
use crate::error::SubscribeError;
use crate::ids::ListenerId;
use crate::registry::{Registry, Subscriptions};

/// The numbers of addresses that a request adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressCounts {
    /// To the listener and its owner.
    pub(crate) own: usize,
    /// To the pairs of distinct subscriptions and addresses.
    pub(crate) pairs: usize,
}

impl<S, M: Message, B> Subscriptions<S, M, B> {
    /// Returns the error of a request that exceeds the limit of distinct addresses.
    pub(crate) fn addresses_full(&self, added: usize) -> SubscribeError {
        SubscribeError::AddressesFull { added, limit: self.shared.limits.addresses_max }
    }
}

impl<S: Eq + Hash, M: Message, B> Registry<S, M, B> {
    /// Checks that a listener may have these addresses in addition.
    pub(crate) fn check_addresses(
        &mut self,
        subscriptions: &Subscriptions<S, M, B>,
        listener: ListenerId,
        added: AddressCounts,
    ) -> Result<(), SubscribeError> {
        let limits = &subscriptions.shared.limits;
        let entry = self.listener_entry(listener);
        let owner = entry.owner;
        let addresses = entry.tracked_addresses + added.own;
        let limit = limits.addresses_per_listener_max;
        if added.own > 0 && addresses > limit {
            return Err(SubscribeError::ListenerAddressesFull { addresses, limit });
        }
        let of_owner = self.addresses_by_owner.get(&owner).copied().unwrap_or_default();
        let addresses = of_owner + added.own;
        let limit = limits.addresses_per_owner_max;
        if added.own > 0 && addresses > limit {
            return Err(SubscribeError::OwnerAddressesFull { addresses, limit });
        }
        let pairs = self.address_pairs + added.pairs;
        let limit = limits.address_pairs_max;
        if added.pairs > 0 && pairs > limit {
            return Err(SubscribeError::AddressPairsFull { pairs, limit });
        }
        Ok(())
    }

    /// Counts addresses for a listener and its owner.
    pub(crate) fn count_addresses(&mut self, listener: ListenerId, count: usize) {
        let Some(entry) = self.listeners.get_mut(&listener) else { return };
        entry.tracked_addresses += count;
        if count > 0 {
            *self.addresses_by_owner.entry(entry.owner).or_default() += count;
        }
    }

    /// Stops counting addresses for a listener and its owner.
    pub(crate) fn release_addresses(&mut self, listener: ListenerId, count: usize) {
        let Some(entry) = self.listeners.get_mut(&listener) else { return };
        entry.tracked_addresses -= count;
        if let Some(of_owner) = self.addresses_by_owner.get_mut(&entry.owner) {
            *of_owner -= count;
            if *of_owner == 0 {
                self.addresses_by_owner.remove(&entry.owner);
            }
        }
    }
}
