//! The memory of all queues together: one count that charges and queues share.
//!
//! In: charges of message bodies, which the caller makes when it encodes them ([`QueueMemory::charge`]), and of queue
//! entries, which the queues make themselves. A body that many queues share is charged once.
//! Cost: an atomic addition for each message and queue.
//! Not here: what happens at the limit (`eviction`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The owner of a listener. The listeners of one owner count together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u128);

/// The bytes of all queued messages.
#[derive(Debug, Default)]
pub struct QueueMemory {
    bytes: AtomicUsize,
}

/// A part of the count. Dropping it subtracts the part.
#[derive(Debug)]
pub struct Charge {
    memory: Arc<QueueMemory>,
    bytes: usize,
}

impl QueueMemory {
    /// Returns the bytes in use by all queues.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts bytes until the charge is dropped.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        self.replace(0, bytes);
        Charge { memory: Arc::clone(self), bytes }
    }

    /// Counts `now` where `before` was counted.
    pub(crate) fn replace(&self, before: usize, now: usize) {
        if now > before {
            self.bytes.fetch_add(now - before, Ordering::Relaxed);
        } else if now < before {
            self.bytes.fetch_sub(before - now, Ordering::Relaxed);
        }
    }
}

impl Charge {
    /// Returns the bytes that the reservation counts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.replace(self.bytes, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_add_up_and_are_subtracted_on_drop() {
        let memory = Arc::new(QueueMemory::default());
        let one = memory.charge(5);
        let other = memory.charge(7);
        assert_eq!(memory.bytes(), 12);
        drop(one);
        assert_eq!((memory.bytes(), other.bytes()), (7, 7));
        drop(other);
        assert_eq!(memory.bytes(), 0);
    }
}
