//! The cached accounts, evicted by the clock algorithm.
//!
//! Shape: a ring of keys and a hand. A use sets the reference bit of its key. The hand clears the bits and evicts keys
//! without one. So frequently used keys stay, at the cost of one lookup for each use.
//! Bounds: bytes; each key counts with its overhead beyond its data. Keys are evicted only on request, so that the
//! accounts of one transaction stay together.

use std::collections::{HashMap, VecDeque};

use solana_pubkey::Pubkey;

/// Cost of a cached account beyond its data: its entries in the VM and here, with allocations.
const OVERHEAD_BYTES: usize = 320;

struct CacheEntry {
    data_bytes: usize,
    is_referenced: bool,
}

/// Keys in the order of insertion, and the cost of each.
pub(crate) struct ClockCache {
    entries: HashMap<Pubkey, CacheEntry, foldhash::quality::RandomState>,
    ring: VecDeque<Pubkey>,
    bytes: usize,
    bytes_max: usize,
}

impl ClockCache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { entries: HashMap::default(), ring: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Marks a key as used. Returns `false` if it is not cached.
    pub(crate) fn touch(&mut self, key: &Pubkey) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        entry.is_referenced = true;
        true
    }

    /// Inserts a key, or updates its size.
    pub(crate) fn insert(&mut self, key: Pubkey, data_bytes: usize) {
        let before = self.entries.insert(key, CacheEntry { data_bytes, is_referenced: true });
        match before {
            Some(before) => self.bytes -= before.data_bytes,
            None => {
                self.ring.push_back(key);
                self.bytes += OVERHEAD_BYTES;
            }
        }
        self.bytes += data_bytes;
    }

    /// Removes a key. Cost: one step for each key if it is cached.
    pub(crate) fn remove(&mut self, key: &Pubkey) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= OVERHEAD_BYTES + entry.data_bytes;
            self.ring.retain(|other| other != key);
        }
    }

    /// Evicts a key and returns it. Returns `None` if the bytes are within the bound.
    pub(crate) fn evict_one(&mut self) -> Option<Pubkey> {
        while self.bytes > self.bytes_max {
            let key = self.ring.pop_front()?;
            // Every key of the ring has one entry.
            let entry = self.entries.get_mut(&key)?;
            if entry.is_referenced {
                entry.is_referenced = false;
                self.ring.push_back(key);
                continue;
            }
            self.bytes -= OVERHEAD_BYTES + entry.data_bytes;
            self.entries.remove(&key);
            return Some(key);
        }
        None
    }

    /// Removes all keys and returns them.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Pubkey> + use<'_> {
        self.entries.clear();
        self.bytes = 0;
        self.ring.drain(..)
    }

    /// Returns the bytes in use, and their bound.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> (usize, usize) {
        (self.bytes, self.bytes_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Pubkey {
        Pubkey::new_from_array([n; 32])
    }

    #[test]
    fn used_keys_stay_and_the_rest_is_evicted_in_clock_order() {
        let mut cache = ClockCache::new(3 * OVERHEAD_BYTES + 30);
        (1..=3).for_each(|n| cache.insert(key(n), 10));
        assert_eq!(cache.evict_one(), None);
        cache.insert(key(4), 10);
        // All were just used, so the oldest is evicted and all bits are cleared.
        assert_eq!(cache.evict_one(), Some(key(1)));
        assert_eq!(cache.evict_one(), None);
        assert!(cache.touch(&key(2)) && !cache.touch(&key(1)));
        cache.insert(key(5), 10);
        assert_eq!(cache.evict_one(), Some(key(3)));
        assert_eq!(cache.evict_one(), None);
    }

    #[test]
    fn an_account_that_grows_counts_with_its_new_size() {
        let mut cache = ClockCache::new(2 * OVERHEAD_BYTES + 100);
        cache.insert(key(1), 10);
        cache.insert(key(2), 10);
        cache.insert(key(2), 90);
        assert_eq!(cache.evict_one(), None);
        cache.insert(key(2), 91);
        assert_eq!(cache.evict_one(), Some(key(1)));
        cache.insert(key(3), 5);
        cache.remove(&key(3));
        cache.insert(key(2), 5);
        assert_eq!(cache.bytes(), (OVERHEAD_BYTES + 5, 2 * OVERHEAD_BYTES + 100));
        assert_eq!(cache.drain().collect::<Vec<_>>(), [key(2)]);
        assert_eq!(cache.bytes().0, 0);
    }
}
