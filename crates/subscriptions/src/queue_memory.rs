//! What waits for all listeners together: one count of its memory, one bound, and which listeners are closed at
//! the bound.
//!
//! In: charges of message bodies, which the caller makes when it encodes them ([`QueueMemory::charge`]), and of queue
//! entries, which the queues make themselves. A body that many queues share is charged once.
//! Bounds: `Limits::queues_bytes_max`. Above it [`Subscriptions::enforce_memory_limit`] closes listeners until an eighth is free. The
//! owner whose listeners hold most loses its largest listener first, then the next. An owner with little is closed
//! only when no other has more, so one owner cannot crowd out another.
//! Cost: an atomic addition for each message and queue; at the bound a walk over everything that waits.

use std::collections::{BinaryHeap, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::queue::{CloseReason, Message, Queue};
use crate::registry::Subscriptions;

/// Whose a listener is. Listeners of one owner share what the owner may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u128);

/// The bytes of everything that waits for listeners.
#[derive(Debug, Default)]
pub struct QueueMemory {
    bytes: AtomicUsize,
}

/// A part of the count. Dropping it takes the part back.
#[derive(Debug)]
pub struct Charge {
    memory: Arc<QueueMemory>,
    bytes: usize,
}

impl QueueMemory {
    /// The count now.
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
    /// How much it counts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.replace(self.bytes, 0);
    }
}

/// The listeners of an owner, by what closing them frees.
struct OwnerUsage<M: Message> {
    bytes: usize,
    /// The largest is last.
    queues: Vec<(usize, Arc<Queue<M>>)>,
}

impl<S: Eq + Hash, M: Message, B> Subscriptions<S, M, B> {
    /// The count of what waits for all listeners.
    pub fn queue_memory(&self) -> &Arc<QueueMemory> {
        &self.shared.memory
    }

    /// Closes listeners if more waits than may ([`CloseReason::NodeBytesFull`]). Gives how many were closed.
    ///
    /// [`Self::deliver`] calls it. A caller that makes bodies without delivering them calls it too.
    pub fn enforce_memory_limit(&self) -> usize {
        let limit = self.shared.limits.queues_bytes_max;
        let memory = &self.shared.memory;
        if memory.bytes() <= limit {
            return 0;
        }
        let _making_room = self.shared.eviction_lock.lock();
        if memory.bytes() <= limit {
            return 0; // another thread made it
        }
        let engine = self.shared.registry.lock();
        let queues: Vec<_> = engine
            .listeners
            .values()
            .map(|entry| (entry.owner, Arc::clone(&entry.queue)))
            .collect();
        drop(engine);
        let mut owners: HashMap<OwnerId, OwnerUsage<M>> = HashMap::new();
        for (owner, queue) in queues {
            let bytes = queue.memory();
            if bytes == 0 {
                continue;
            }
            let holdings =
                owners.entry(owner).or_insert_with(|| OwnerUsage { bytes: 0, queues: Vec::new() });
            holdings.bytes += bytes;
            holdings.queues.push((bytes, queue));
        }
        for holdings in owners.values_mut() {
            holdings.queues.sort_unstable_by_key(|(bytes, _)| *bytes);
        }
        let mut largest: BinaryHeap<(usize, OwnerId)> =
            owners.iter().map(|(owner, holdings)| (holdings.bytes, *owner)).collect();
        let mut closed = 0;
        while memory.bytes() > limit - limit / 8 {
            let Some((_, owner)) = largest.pop() else { break };
            let Some(holdings) = owners.get_mut(&owner) else { continue };
            let Some((bytes, queue)) = holdings.queues.pop() else { continue };
            queue.evict(CloseReason::NodeBytesFull { limit });
            closed += 1;
            holdings.bytes -= bytes;
            largest.push((holdings.bytes, owner));
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_add_up_and_are_taken_back() {
        let memory = Arc::new(QueueMemory::default());
        let (one, other) = (memory.charge(5), memory.charge(7));
        assert_eq!(memory.bytes(), 12);
        drop(one);
        assert_eq!((memory.bytes(), other.bytes()), (7, 7));
        drop(other);
        assert_eq!(memory.bytes(), 0);
    }
}
