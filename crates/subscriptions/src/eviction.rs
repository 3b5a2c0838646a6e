//! Which listeners are closed when the queues together are over their limit.
//!
//! Bounds: `Limits::queues_bytes_max`. Above it [`Subscriptions::enforce_memory_limit`] closes listeners until an
//! eighth is free. The owner that uses the most loses its largest listener first, then the next. The listeners of an
//! owner that uses little are closed only if no other owner uses more, so one owner cannot crowd out another.
//! Cost: at the limit a pass over all queued messages.

use std::collections::{BinaryHeap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use crate::delivery::{CloseReason, Message};
use crate::queue::Queue;
use crate::queue_memory::{OwnerId, QueueMemory};
use crate::registry::Subscriptions;

/// The queues of an owner, with the bytes that closing each frees.
struct OwnerUsage<M: Message> {
    bytes: usize,
    /// The queues by size; the largest one is last.
    queues: Vec<(usize, Arc<Queue<M>>)>,
}

impl<S: Eq + Hash, M: Message, B> Subscriptions<S, M, B> {
    /// Returns the memory that all queues use.
    pub fn queue_memory(&self) -> &Arc<QueueMemory> {
        &self.shared.memory
    }

    /// Closes listeners if the memory limit is exceeded ([`CloseReason::NodeBytesFull`]). Returns how many were closed.
    ///
    /// [`Self::deliver`] calls it. A caller that encodes bodies without delivering them calls it too.
    pub fn enforce_memory_limit(&self) -> usize {
        let limit = self.shared.limits.queues_bytes_max;
        let memory = &self.shared.memory;
        if memory.bytes() <= limit {
            return 0;
        }
        let _evicting = self.shared.eviction_lock.lock();
        if memory.bytes() <= limit {
            return 0; // another thread has evicted enough
        }
        let registry = self.shared.registry.lock();
        let queues: Vec<_> = registry
            .listeners
            .values()
            .map(|entry| (entry.owner, Arc::clone(&entry.queue)))
            .collect();
        drop(registry);
        let mut owners: HashMap<OwnerId, OwnerUsage<M>> = HashMap::new();
        for (owner, queue) in queues {
            let bytes = queue.memory();
            if bytes == 0 {
                continue;
            }
            let usage =
                owners.entry(owner).or_insert_with(|| OwnerUsage { bytes: 0, queues: Vec::new() });
            usage.bytes += bytes;
            usage.queues.push((bytes, queue));
        }
        for usage in owners.values_mut() {
            usage.queues.sort_unstable_by_key(|(bytes, _)| *bytes);
        }
        let mut largest: BinaryHeap<(usize, OwnerId)> =
            owners.iter().map(|(owner, usage)| (usage.bytes, *owner)).collect();
        let mut closed = 0;
        while memory.bytes() > limit - limit / 8 {
            let Some((_, owner)) = largest.pop() else { break };
            let Some(usage) = owners.get_mut(&owner) else { continue };
            let Some((bytes, queue)) = usage.queues.pop() else { continue };
            queue.evict(CloseReason::NodeBytesFull { limit });
            closed += 1;
            usage.bytes -= bytes;
            largest.push((usage.bytes, owner));
        }
        closed
    }
}
