//! Memory of responses that are cached, or being computed for the cache, and its limits.
//!
//! Bytes are counted while a response is being collected, while the cache has it, and, after it was abandoned
//! or evicted, until its client has read it.
//! Bounds: responses that are being collected, or were abandoned and are not sent: a quarter of the cache's
//! limit. All: the cache's limit and that quarter. Each may be exceeded by one chunk per thread. When the whole
//! budget is used, the cache evicts entries. A response may use a share of the bytes that other responses leave
//! ([`MemoryBudget::limit_for`]), and so may a client; a response over its limit is streamed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use clients::{ClientId, trim_spare_capacity};
use parking_lot::Mutex;

/// Budget for the responses of one cache. Clones share it.
#[derive(Clone)]
pub(crate) struct MemoryBudget(Arc<BudgetInner>);

struct BudgetInner {
    cache_max: u64,
    used: AtomicU64,
    used_max: u64,
    collected: Mutex<CollectedByClient>,
    collected_max: u64,
}

/// Bytes that are being collected, or were abandoned and are not sent.
#[derive(Default)]
struct CollectedByClient {
    total: u64,
    /// Bytes by client. Never 0.
    by_client: HashMap<ClientId, u64>,
}

impl MemoryBudget {
    /// Creates the budget for a cache of `cache_bytes_max` bytes.
    pub(crate) fn new(cache_bytes_max: u64) -> Self {
        let collected_max = cache_bytes_max / 4;
        let used_max = cache_bytes_max.saturating_add(collected_max);
        let used = AtomicU64::new(0);
        let collected = Mutex::default();
        let cache_max = cache_bytes_max;
        Self(Arc::new(BudgetInner { cache_max, used, used_max, collected, collected_max }))
    }

    /// Returns whether the whole budget is used.
    pub(crate) fn is_full(&self) -> bool {
        self.used_bytes() >= self.0.used_max
    }

    /// Returns the maximum length of a response to `client`, with `own` bytes of it collected. Each response gets a
    /// share of the bytes that others leave, so unread responses never use up the whole budget, whatever their number.
    ///
    /// `cached_bytes` is the length of all content in the cache, without the keys and records of its entries: the
    /// budget counts content only. In a cache of small values, keys and records are most of the bytes. If they were
    /// included, as many bytes of responses that were evicted and are not read would not count.
    pub(crate) fn limit_for(&self, client: ClientId, own: u64, cached_bytes: u64) -> u64 {
        let BudgetInner { collected, collected_max, cache_max, .. } = &*self.0;
        let (all, of_client) = {
            let collected = collected.lock();
            (collected.total, collected.by_client.get(&client).copied().unwrap_or_default())
        };
        // A client gets half of the bytes that other clients leave; a response gets half of those that the client's
        // other responses leave.
        let of_others = all.saturating_sub(of_client);
        let own_others = of_client.saturating_sub(own);
        let collecting =
            (collected_max.saturating_sub(of_others) / 2).saturating_sub(own_others) / 2;
        // A cache entry gets a sixteenth of the bytes that are left by responses that were evicted and are still being
        // read.
        let unread = self.used_bytes().saturating_sub(cached_bytes.saturating_add(all));
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

    /// Returns the bytes of all responses.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Counts `bytes` as long as the returned buffer, or a slice of it, exists.
    pub(crate) fn track(&self, bytes: Vec<u8>) -> Bytes {
        let bytes = trim_spare_capacity(bytes);
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

/// Parts of one response that are not in the cache, in order.
pub struct CollectedResponse {
    budget: MemoryBudget,
    client: ClientId,
    parts: VecDeque<Bytes>,
    bytes: u64,
}

impl CollectedResponse {
    /// Creates an empty response to a client.
    pub(crate) fn new(budget: &MemoryBudget, client: ClientId) -> Self {
        Self { budget: budget.clone(), client, parts: VecDeque::new(), bytes: 0 }
    }

    /// Returns an empty response of the same client.
    pub(crate) fn empty_like(&self) -> Self {
        Self::new(&self.budget, self.client)
    }

    /// Returns its maximum length, while the cache has `cached_bytes` of content.
    pub(crate) fn limit(&self, cached_bytes: u64) -> u64 {
        self.budget.limit_for(self.client, self.bytes, cached_bytes)
    }

    /// Appends a part of the response.
    pub fn push(&mut self, part: Vec<u8>) {
        let bytes = part.len() as u64;
        self.bytes += bytes;
        self.budget.collect(self.client, bytes);
        self.parts.push_back(self.budget.track(part));
    }

    /// Removes the next bytes: a whole part, or `bytes_max` of a much longer one.
    pub fn pop(&mut self, bytes_max: usize) -> Option<Bytes> {
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

    /// Returns the bytes that are left.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    pub(crate) fn first_chunk(&self) -> Bytes {
        self.parts.front().cloned().unwrap_or_default()
    }

    /// Returns whether no part is left.
    pub fn is_empty(&self) -> bool {
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
    fn bytes_are_counted_until_their_last_part_is_dropped() {
        let budget = MemoryBudget::new(400);
        let mut collected = CollectedResponse::new(&budget, ONE);
        collected.push(vec![1; 60]);
        collected.push(vec![2; 60]);
        assert!(collected.limit(0) < collected.bytes());
        let parts: Vec<_> = std::iter::from_fn(|| collected.pop(20)).collect();
        assert_eq!(parts.iter().map(Bytes::len).collect::<Vec<_>>(), [20, 40, 20, 40]);
        assert!(collected.is_empty() && budget.0.collected.lock().by_client.is_empty());
        assert_eq!(budget.used_bytes(), 120, "the parts still exist");
        let slice = parts[0].slice(3..4);
        drop(parts);
        assert_eq!(budget.used_bytes(), 60);
        drop(slice);
        assert_eq!((budget.used_bytes(), budget.limit_for(ONE, 0, 0)), (0, 25));
        let full: Vec<_> = (0..5).map(|_| budget.track(vec![0; 100])).collect();
        assert!(budget.is_full(), "all of it is used");
        drop(full);
        assert!(!budget.is_full());
    }

    #[test]
    fn a_tracked_buffer_has_no_uncounted_capacity() {
        let budget = MemoryBudget::new(100);
        let mut bytes = Vec::with_capacity(100);
        bytes.resize(80, 7);
        let start = bytes.as_ptr();
        let tracked = budget.track(bytes);
        assert_eq!((tracked.len(), budget.used_bytes()), (80, 80));
        assert_ne!(tracked.as_ptr(), start, "it is copied");
    }

    #[test]
    fn a_client_that_does_not_read_leaves_the_larger_part_to_others() {
        const MIB: u64 = 1 << 20;
        let budget = MemoryBudget::new(256 * MIB);
        assert_eq!(budget.limit_for(ONE, 0, 0), 16 * MIB);
        // One client takes as much as it can.
        let mut unsent = Vec::new();
        let take = |client: ClientId, unsent: &mut Vec<CollectedResponse>| {
            let mut collected = CollectedResponse::new(&budget, client);
            while collected.bytes() < collected.limit(0) {
                collected.push(vec![0; MIB as usize / 8]);
            }
            unsent.push(collected);
        };
        (0..50).for_each(|_| take(ONE, &mut unsent));
        assert!(budget.limit_for(ONE, 0, 0) < MIB / 8, "it has used its share");
        assert!(
            budget.limit_for(ClientId(2), 0, 0) >= 7 * MIB,
            "{}",
            budget.limit_for(ClientId(2), 0, 0)
        );
        (2..=4).for_each(|n| take(ClientId(n), &mut unsent));
        assert!(budget.limit_for(ClientId(9), 0, 0) >= 3 * MIB);
        assert!(budget.used_bytes() <= 64 * MIB);
        unsent.clear();
        // Responses in the cache take nothing from the share; those that were evicted and are still being read
        // do.
        let _cached: Vec<_> = (0..128).map(|_| budget.track(vec![0; MIB as usize])).collect();
        assert_eq!(budget.limit_for(ONE, 0, 128 * MIB), 16 * MIB);
        assert_eq!(budget.limit_for(ONE, 0, 0), 8 * MIB);
    }
}
