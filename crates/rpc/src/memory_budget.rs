//! How many bytes the answers hold that are kept, or made to be kept, and how many they may.
//!
//! Counted for as long as they are there: while an answer is collected, while the cache has it, and, once it
//! is given up or forgotten, until its client has read it.
//! Bounds: those that are collected, or given up and not sent, a quarter of the cache's; all, the cache's and
//! that quarter; each exceeded by a piece at most for each thread. When all of it is held the cache forgets. An
//! answer has at most a share of what others leave ([`MemoryBudget::limit_for`]), and so has a client; what finds no room is
//! streamed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use pool::ClientId;

/// Room for the answers of one cache. Copies are the same room.
#[derive(Clone)]
pub(crate) struct MemoryBudget(Arc<BudgetInner>);

struct BudgetInner {
    cache_max: u64,
    used: AtomicU64,
    used_max: u64,
    collected: Mutex<CollectedByClient>,
    collected_max: u64,
}

/// What is collected, or given up and not sent.
#[derive(Default)]
struct CollectedByClient {
    total: u64,
    /// Never 0.
    by_client: HashMap<ClientId, u64>,
}

impl MemoryBudget {
    /// For a cache of so many bytes.
    pub(crate) fn new(cache_bytes_max: u64) -> Self {
        let collected_max = cache_bytes_max / 4;
        let held_max = cache_bytes_max.saturating_add(collected_max);
        let (held, collected) = (AtomicU64::new(0), Mutex::default());
        let cache_max = cache_bytes_max;
        Self(Arc::new(BudgetInner {
            cache_max,
            used: held,
            used_max: held_max,
            collected,
            collected_max,
        }))
    }

    /// Whether all that there is room for is held.
    pub(crate) fn is_full(&self) -> bool {
        self.used_bytes() >= self.0.used_max
    }

    /// How long an answer of `client` may become of which `own` bytes are collected, while the cache has
    /// `kept` bytes. Each takes a share of what others leave, so that no number of answers that are not read
    /// leaves nothing.
    pub(crate) fn limit_for(&self, client: ClientId, own: u64, kept: u64) -> u64 {
        let BudgetInner { collected, collected_max, cache_max, .. } = &*self.0;
        let (all, of_client) = {
            let collected = collected.lock();
            (collected.total, collected.by_client.get(&client).copied().unwrap_or_default())
        };
        // A client has half of what other clients leave, an answer half of what his others leave.
        let of_others = all.saturating_sub(of_client);
        let of_his = of_client.saturating_sub(own);
        let collecting = (collected_max.saturating_sub(of_others) / 2).saturating_sub(of_his) / 2;
        // In the cache an answer has a sixteenth of what those leave that are kept no more and still read.
        let unread = self.used_bytes().saturating_sub(kept.saturating_add(all));
        collecting.min(cache_max.saturating_sub(unread) / 16)
    }

    fn collect(&self, client: ClientId, bytes: u64) {
        let mut collected = self.0.collected.lock();
        collected.total += bytes;
        *collected.by_client.entry(client).or_default() += bytes;
    }

    fn release(&self, client: ClientId, bytes: u64) {
        let mut collected = self.0.collected.lock();
        collected.total -= bytes;
        if let Some(of_client) = collected.by_client.get_mut(&client) {
            *of_client -= bytes;
            if *of_client == 0 {
                collected.by_client.remove(&client);
            }
        }
    }

    /// What all answers hold.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The bytes, counted for as long as they or a part of them are somewhere.
    pub(crate) fn track(&self, mut bytes: Vec<u8>) -> Bytes {
        // What is not used of it would be held as well.
        if bytes.capacity() - bytes.len() > bytes.len() / 4 {
            bytes.shrink_to_fit();
        }
        self.0.used.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Bytes::from_owner(TrackedBytes { bytes, budget: self.clone() })
    }
}

struct TrackedBytes {
    bytes: Vec<u8>,
    budget: MemoryBudget,
}

impl AsRef<[u8]> for TrackedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for TrackedBytes {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

/// Parts of one answer that are not in the cache, in order.
pub(crate) struct CollectedResponse {
    budget: MemoryBudget,
    client: ClientId,
    parts: VecDeque<Bytes>,
    bytes: u64,
}

impl CollectedResponse {
    pub(crate) fn new(room: &MemoryBudget, client: ClientId) -> Self {
        Self { budget: room.clone(), client, parts: VecDeque::new(), bytes: 0 }
    }

    /// Others of the same client.
    pub(crate) fn empty_like(&self) -> Self {
        Self::new(&self.budget, self.client)
    }

    /// How long all of it may become, while the cache has `kept` bytes.
    pub(crate) fn limit(&self, kept: u64) -> u64 {
        self.budget.limit_for(self.client, self.bytes, kept)
    }

    pub(crate) fn push(&mut self, part: Vec<u8>) {
        let bytes = part.len() as u64;
        self.bytes += bytes;
        self.budget.collect(self.client, bytes);
        self.parts.push_back(self.budget.track(part));
    }

    /// The next of them: all of a part, or `bytes_max` of a much longer one.
    pub(crate) fn pop(&mut self, bytes_max: usize) -> Option<Bytes> {
        let part = self.parts.front_mut()?;
        let bytes = if part.len() > 2 * bytes_max {
            part.split_to(bytes_max)
        } else {
            self.parts.pop_front()?
        };
        self.bytes -= bytes.len() as u64;
        self.budget.release(self.client, bytes.len() as u64);
        Some(bytes)
    }

    /// How many bytes there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    pub(crate) fn first_chunk(&self) -> &[u8] {
        self.parts.front().map_or(&[], |part| part)
    }

    /// Leaves out the first bytes, which are in the first part.
    pub(crate) fn drop_prefix(&mut self, bytes: usize) {
        if let Some(part) = self.parts.front_mut() {
            let bytes = bytes.min(part.len());
            drop(part.split_to(bytes));
            self.bytes -= bytes as u64;
            self.budget.release(self.client, bytes as u64);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Drop for CollectedResponse {
    fn drop(&mut self) {
        self.budget.release(self.client, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ClientId = ClientId(1);

    #[test]
    fn bytes_are_counted_for_as_long_as_a_part_of_them_is_there() {
        let room = MemoryBudget::new(400);
        let mut collected = CollectedResponse::new(&room, ONE);
        collected.push(vec![1; 60]);
        collected.push(vec![2; 60]);
        assert!(collected.limit(0) < collected.bytes());
        collected.drop_prefix(10);
        let parts: Vec<_> = std::iter::from_fn(|| collected.pop(20)).collect();
        assert_eq!(parts.iter().map(Bytes::len).collect::<Vec<_>>(), [20, 30, 20, 40]);
        assert!(collected.is_empty() && room.0.collected.lock().by_client.is_empty());
        assert_eq!(room.used_bytes(), 120, "somebody has them still");
        let kept = parts[0].slice(3..4);
        drop(parts);
        assert_eq!(room.used_bytes(), 60);
        drop(kept);
        assert_eq!((room.used_bytes(), room.limit_for(ONE, 0, 0)), (0, 25));
        let full: Vec<_> = (0..5).map(|_| room.track(vec![0; 100])).collect();
        assert!(room.is_full(), "all of it is held");
        drop(full);
        assert!(!room.is_full());
    }

    #[test]
    fn a_client_that_does_not_read_leaves_the_larger_part_to_others() {
        const MIB: u64 = 1 << 20;
        let room = MemoryBudget::new(256 * MIB);
        assert_eq!(room.limit_for(ONE, 0, 0), 16 * MIB);
        // One client, as much as he can.
        let mut unsent = Vec::new();
        let take = |client: ClientId, unsent: &mut Vec<CollectedResponse>| {
            let mut collected = CollectedResponse::new(&room, client);
            while collected.bytes() < collected.limit(0) {
                collected.push(vec![0; MIB as usize / 8]);
            }
            unsent.push(collected);
        };
        (0..50).for_each(|_| take(ONE, &mut unsent));
        assert!(room.limit_for(ONE, 0, 0) < MIB / 8, "he has had his share");
        assert!(
            room.limit_for(ClientId(2), 0, 0) >= 7 * MIB,
            "{}",
            room.limit_for(ClientId(2), 0, 0)
        );
        (2..=4).for_each(|n| take(ClientId(n), &mut unsent));
        assert!(room.limit_for(ClientId(9), 0, 0) >= 3 * MIB);
        assert!(room.used_bytes() <= 64 * MIB);
        unsent.clear();
        // Those that are in the cache take nothing, those that are there no more and are read their own.
        let _held: Vec<_> = (0..128).map(|_| room.track(vec![0; MIB as usize])).collect();
        assert_eq!(room.limit_for(ONE, 0, 128 * MIB), 16 * MIB);
        assert_eq!(room.limit_for(ONE, 0, 0), 8 * MIB);
    }
}
