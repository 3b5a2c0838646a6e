//! Which accounts are held, and which goes when there is no more room: the clock algorithm.
//!
//! Shape: a ring of keys and a hand. Each key has a mark that a use sets; the hand takes marks away and
//! lets go of what has none. So what is used often stays, at the cost of one look-up a use.
//! Bounds: bytes, each key counted with what it costs beside its data. Room is made only when asked for,
//! so that what one transaction names stays together.

use std::collections::{HashMap, VecDeque};

use solana_pubkey::Pubkey;

/// What a held account costs beside its data: its places in the VM and here, allocations included.
const OVERHEAD_BYTES: usize = 320;

struct CacheEntry {
    data_bytes: usize,
    is_referenced: bool,
}

/// Keys in the order in which they came, and what each costs.
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

    /// Marks a key as used; false if it is not held.
    pub(crate) fn touch(&mut self, key: &Pubkey) -> bool {
        let Some(held) = self.entries.get_mut(key) else { return false };
        held.is_referenced = true;
        true
    }

    /// Holds a key, or notes what it has become.
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

    /// Makes room: gives a key that is held no longer, as long as there are too many.
    pub(crate) fn evict_one(&mut self) -> Option<Pubkey> {
        while self.bytes > self.bytes_max {
            let key = self.ring.pop_front()?;
            // Every key of the ring is held, once.
            let held = self.entries.get_mut(&key)?;
            if held.is_referenced {
                held.is_referenced = false;
                self.ring.push_back(key);
                continue;
            }
            self.bytes -= OVERHEAD_BYTES + held.data_bytes;
            self.entries.remove(&key);
            return Some(key);
        }
        None
    }

    /// Forgets all keys and gives them.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Pubkey> + use<'_> {
        self.entries.clear();
        self.bytes = 0;
        self.ring.drain(..)
    }

    /// Bytes that are held, and may be once there is room.
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
    fn what_is_used_stays_and_the_rest_is_evicted_in_clock_order() {
        let mut held = ClockCache::new(3 * OVERHEAD_BYTES + 30);
        (1..=3).for_each(|n| held.insert(key(n), 10));
        assert_eq!(held.evict_one(), None);
        held.insert(key(4), 10);
        // All were just used, so the oldest goes, and the marks are gone.
        assert_eq!(held.evict_one(), Some(key(1)));
        assert_eq!(held.evict_one(), None);
        assert!(held.touch(&key(2)) && !held.touch(&key(1)));
        held.insert(key(5), 10);
        assert_eq!(held.evict_one(), Some(key(3)));
        assert_eq!(held.evict_one(), None);
    }

    #[test]
    fn an_account_that_grows_counts_with_what_it_is_now() {
        let mut held = ClockCache::new(2 * OVERHEAD_BYTES + 100);
        held.insert(key(1), 10);
        held.insert(key(2), 10);
        held.insert(key(2), 90);
        assert_eq!(held.evict_one(), None);
        held.insert(key(2), 91);
        assert_eq!(held.evict_one(), Some(key(1)));
        held.insert(key(2), 5);
        assert_eq!(held.bytes(), (OVERHEAD_BYTES + 5, 2 * OVERHEAD_BYTES + 100));
        assert_eq!(held.drain().collect::<Vec<_>>(), [key(2)]);
        assert_eq!(held.bytes().0, 0);
    }
}
