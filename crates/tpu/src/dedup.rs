//! Which transactions came a moment ago: keyed hashes of their bytes, in a table that turns over.
//!
//! Shape: two generations of buckets of eight hashes, a cache line each. A hash is looked for in both and
//! put into the newer; when that is half full, or old, the older is emptied and becomes the newer.
//! Bounds: 2 × `len_max` hashes of 8 bytes. A full bucket forgets its oldest. The table is made when the
//! first transaction comes: a node without transactions over QUIC does not pay for it.
//! Invariant: two different transactions are taken for equal with a chance of 2⁻⁶⁰ or so, which a sender
//! cannot better without the key; the whole bytes are hashed, so nobody can spoil another's signature.

use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use parking_lot::Mutex;

/// Hashes in a bucket.
const BUCKET: usize = 8;

/// Buckets of hashes.
type Generation = [[AtomicU64; BUCKET]];

/// What came a moment ago, for all threads.
pub(crate) struct DedupFilter {
    key: RandomState,
    generations: [OnceLock<Box<Generation>>; 2],
    /// Buckets of a generation, a power of two.
    buckets: usize,
    newer: AtomicUsize,
    /// Hashes in the newer generation.
    len: AtomicUsize,
    len_max: usize,
    age_max: Duration,
    rotated_at: Mutex<Instant>,
}

impl DedupFilter {
    pub(crate) fn new(len_max: usize, age_max: Duration, now: Instant) -> Self {
        let buckets = (len_max * 2).div_ceil(BUCKET).next_power_of_two();
        Self {
            key: RandomState::default(),
            generations: Default::default(),
            buckets,
            newer: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            len_max,
            age_max,
            rotated_at: Mutex::new(now),
        }
    }

    /// Remembers a transaction; its mark, or none if it is remembered already.
    pub(crate) fn insert(&self, bytes: &[u8]) -> Option<u64> {
        // 0 is an empty place.
        let mark = self.key.hash_one(bytes).max(1);
        let newer = self.newer.load(Ordering::Relaxed) & 1;
        if self.bucket(1 - newer, mark).iter().any(|place| place.load(Ordering::Relaxed) == mark) {
            return None;
        }
        let bucket = self.bucket(newer, mark);
        for place in bucket {
            match place.compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.len.fetch_add(1, Ordering::Relaxed);
                    return Some(mark);
                }
                Err(other) if other == mark => return None,
                Err(_) => {}
            }
        }
        bucket[(mark >> 60) as usize % BUCKET].store(mark, Ordering::Relaxed);
        Some(mark)
    }

    /// Forgets a transaction that was not taken after all, so that it may come again.
    pub(crate) fn forget(&self, mark: u64) {
        for generation in [0, 1] {
            for place in self.bucket(generation, mark) {
                // Another's mark in this place is not ours to remove.
                let _ = place.compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// Turns the generations over if it is time; call it now and then.
    pub(crate) fn rotate(&self, now: Instant) {
        let Some(mut turned) = self.rotated_at.try_lock() else { return };
        let is_old = now.saturating_duration_since(*turned) >= self.age_max;
        if !is_old && self.len.load(Ordering::Relaxed) < self.len_max {
            return;
        }
        *turned = now;
        let newer = self.newer.load(Ordering::Relaxed) & 1;
        // One that was not made yet is empty.
        for place in
            self.generations[1 - newer].get().into_iter().flat_map(|all| all.iter().flatten())
        {
            place.store(0, Ordering::Relaxed);
        }
        self.len.store(0, Ordering::Relaxed);
        self.newer.store(1 - newer, Ordering::Relaxed);
    }

    fn bucket(&self, generation: usize, mark: u64) -> &[AtomicU64; BUCKET] {
        let made = || (0..self.buckets).map(|_| Default::default()).collect();
        let buckets = self.generations[generation].get_or_init(made);
        // A power of two of them; the mask keeps the place inside.
        &buckets[mark as usize & (buckets.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_repetition_is_known_until_it_is_forgotten() {
        let recent = DedupFilter::new(100, Duration::from_secs(1), clock::now());
        let mark = recent.insert(b"one").expect("new");
        assert!(recent.insert(b"two").is_some());
        assert_eq!(recent.insert(b"one"), None);
        recent.forget(mark);
        assert!(recent.insert(b"one").is_some());
    }

    #[test]
    fn a_table_that_nothing_came_to_takes_no_memory() {
        let start = clock::now();
        let recent = DedupFilter::new(100, Duration::from_secs(1), start);
        let is_made = |recent: &DedupFilter| recent.generations.iter().any(|it| it.get().is_some());
        recent.rotate(start + Duration::from_secs(5));
        assert!(!is_made(&recent));
        assert!(recent.insert(b"one").is_some());
        assert!(is_made(&recent));
    }

    #[test]
    fn what_came_is_known_for_one_rotation_and_gone_after_two() {
        let start = clock::now();
        let recent = DedupFilter::new(100, Duration::from_secs(1), start);
        assert!(recent.insert(b"one").is_some());
        recent.rotate(start + Duration::from_millis(999));
        recent.rotate(start + Duration::from_secs(1));
        assert_eq!(recent.insert(b"one"), None);
        recent.rotate(start + Duration::from_secs(2));
        assert!(recent.insert(b"one").is_some());
    }

    #[test]
    fn ten_times_too_many_are_no_trouble_and_none_is_mistaken() {
        let now = clock::now();
        let recent = DedupFilter::new(1_000, Duration::from_secs(1), now);
        for n in 0..10_000u32 {
            assert!(recent.insert(&n.to_le_bytes()).is_some(), "{n}");
            recent.rotate(now);
        }
    }
}
