//! Filter of recent transactions: keyed hashes of their bytes, in two generations.
//!
//! Shape: a generation has buckets of eight hashes, a cache line each. A lookup checks both
//! generations; an insert goes to the newer one. When the newer one is half full or old, the older
//! one is cleared and becomes the newer one.
//! Bounds: 2 × `len_max` hashes of 8 bytes. A full bucket drops one hash. The table is allocated
//! with the first transaction: a node without transactions over QUIC does not pay for it.
//! Invariant: two different transactions are taken for equal with a probability of about 2⁻⁶⁰. A
//! sender cannot raise it without the key. All bytes are hashed, so no sender can block another
//! one's signature.

use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use parking_lot::Mutex;

/// Number of hashes in a bucket.
const BUCKET: usize = 8;

/// The buckets of one generation.
type Generation = [[AtomicU64; BUCKET]];

/// Recent transactions, for all threads.
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

    /// Stores a transaction. Returns its fingerprint, or `None` if it is stored already.
    pub(crate) fn insert(&self, bytes: &[u8]) -> Option<u64> {
        // 0 is an empty entry.
        let fingerprint = self.key.hash_one(bytes).max(1);
        let newer = self.newer.load(Ordering::Relaxed) & 1;
        if self
            .bucket(1 - newer, fingerprint)
            .iter()
            .any(|entry| entry.load(Ordering::Relaxed) == fingerprint)
        {
            return None;
        }
        let bucket = self.bucket(newer, fingerprint);
        for entry in bucket {
            match entry.compare_exchange(0, fingerprint, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.len.fetch_add(1, Ordering::Relaxed);
                    return Some(fingerprint);
                }
                Err(other) if other == fingerprint => return None,
                Err(_) => {}
            }
        }
        bucket[(fingerprint >> 60) as usize % BUCKET].store(fingerprint, Ordering::Relaxed);
        Some(fingerprint)
    }

    /// Removes a transaction that was not accepted. It may then be sent again.
    pub(crate) fn forget(&self, fingerprint: u64) {
        for generation in [0, 1] {
            for entry in self.bucket(generation, fingerprint) {
                // A fingerprint of another transaction is not removed.
                let _ =
                    entry.compare_exchange(fingerprint, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// Rotates the generations if it is time. Call it from time to time.
    pub(crate) fn rotate(&self, now: Instant) {
        let Some(mut rotated_at) = self.rotated_at.try_lock() else { return };
        let is_old = now.saturating_duration_since(*rotated_at) >= self.age_max;
        if !is_old && self.len.load(Ordering::Relaxed) < self.len_max {
            return;
        }
        *rotated_at = now;
        let newer = self.newer.load(Ordering::Relaxed) & 1;
        // A generation that is not allocated yet is empty.
        for entry in
            self.generations[1 - newer].get().into_iter().flat_map(|all| all.iter().flatten())
        {
            entry.store(0, Ordering::Relaxed);
        }
        self.len.store(0, Ordering::Relaxed);
        self.newer.store(1 - newer, Ordering::Relaxed);
    }

    fn bucket(&self, generation: usize, fingerprint: u64) -> &[AtomicU64; BUCKET] {
        let made = || (0..self.buckets).map(|_| Default::default()).collect();
        let buckets = self.generations[generation].get_or_init(made);
        // The number of buckets is a power of two; the mask limits the index to it.
        &buckets[fingerprint as usize & (buckets.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_duplicate_is_found_until_it_is_forgotten() {
        let filter = DedupFilter::new(100, Duration::from_secs(1), clock::now());
        let fingerprint = filter.insert(b"one").expect("new");
        assert!(filter.insert(b"two").is_some());
        assert_eq!(filter.insert(b"one"), None);
        filter.forget(fingerprint);
        assert!(filter.insert(b"one").is_some());
    }

    #[test]
    fn an_unused_filter_takes_no_memory() {
        let start = clock::now();
        let filter = DedupFilter::new(100, Duration::from_secs(1), start);
        let is_made = |filter: &DedupFilter| filter.generations.iter().any(|it| it.get().is_some());
        filter.rotate(start + Duration::from_secs(5));
        assert!(!is_made(&filter));
        assert!(filter.insert(b"one").is_some());
        assert!(is_made(&filter));
    }

    #[test]
    fn a_transaction_is_stored_for_one_rotation_and_gone_after_two() {
        let start = clock::now();
        let filter = DedupFilter::new(100, Duration::from_secs(1), start);
        assert!(filter.insert(b"one").is_some());
        filter.rotate(start + Duration::from_millis(999));
        filter.rotate(start + Duration::from_secs(1));
        assert_eq!(filter.insert(b"one"), None);
        filter.rotate(start + Duration::from_secs(2));
        assert!(filter.insert(b"one").is_some());
    }

    #[test]
    fn an_overfull_filter_takes_no_transaction_for_a_duplicate() {
        let now = clock::now();
        let filter = DedupFilter::new(1_000, Duration::from_secs(1), now);
        for n in 0..10_000u32 {
            assert!(filter.insert(&n.to_le_bytes()).is_some(), "{n}");
            filter.rotate(now);
        }
    }
}
