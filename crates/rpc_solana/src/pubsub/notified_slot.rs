//! How far subscribers of confirmed blocks have their notifications.
//!
//! In: confirmed blocks, each after its notifications are in the queues. Out: whether a slot is among them.
//! A method that answers about a block may know it some milliseconds before the subscribers: the notifier is another thread.
//! A client that uses both hears the answer first then (`getSignatureStatuses`).

use std::sync::atomic::{AtomicU64, Ordering};

/// The newest confirmed slot whose notifications were sent. Without subscriptions every slot counts.
pub struct NotifiedSlot(AtomicU64);

impl Default for NotifiedSlot {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl NotifiedSlot {
    /// Subscribers have the notifications up to this slot. It may be an earlier one than before, if a ledger went back.
    pub(crate) fn set(&self, slot: u64) {
        self.0.store(slot, Ordering::Release);
    }

    /// Whether subscribers have the notifications of a confirmed slot.
    pub(crate) fn contains(&self, slot: u64) -> bool {
        slot <= self.0.load(Ordering::Acquire)
    }
}
