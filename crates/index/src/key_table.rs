//! From a key's id to its word: an open-addressing table of both, in shards.
//!
//! Shape: buckets of 8 bytes, the key's id above its word, in shards chosen by the hash. A bucket is
//! read and written as a whole. A full shard is replaced by a larger one.
//! Invariant: one thread changes the table. A search finds a key that is in the table throughout: entries do not
//! move, and a bucket is emptied only where no search continues behind it.
//! Invariant: a shard's version is incremented after a word of it was replaced and before the memory that the word
//! referred to is reused. If a reader follows a word and then finds the version as it was before it
//! read the word, it has read the set of that word.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::chunked_array::{CHUNKS, ChunkedArray};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Maximum average keys of a shard, if there are as many keys as addresses.
const SHARD_LEN: u32 = 1024;
const EMPTY: u64 = u64::MAX;
const TOMBSTONE: u64 = u64::MAX - 1;
/// Number of buckets of a new shard.
const BUCKETS_MIN: usize = 4;

/// The table of the keys of one kind.
pub(crate) struct KeyTable {
    /// Allocated when first needed: a few keys among a billion addresses need few shards.
    shards: ChunkedArray<Shard>,
    shard_bits: u32,
    empty: Arc<Buckets>,
    seed: u64,
}

pub(crate) struct Shard {
    version: AtomicU32,
    buckets: ArcSwap<Buckets>,
}

struct Buckets {
    buckets: Box<[AtomicU64]>,
    /// Buckets with a key. For the writer.
    live: AtomicU32,
    /// Buckets with a key or a tombstone. For the writer.
    used: AtomicU32,
}

/// A key with its shard and its hash.
#[derive(Clone, Copy)]
pub(crate) struct KeyEntry<'a> {
    shard: &'a Shard,
    key: u32,
    hash: u64,
}

impl KeyTable {
    /// Creates an empty table for at most `limit` keys.
    pub(crate) fn new(limit: u32, seed: u64) -> Self {
        let shards = limit.div_ceil(SHARD_LEN).next_power_of_two();
        Self {
            shards: ChunkedArray::new((shards as usize).div_ceil(CHUNKS)),
            shard_bits: shards.trailing_zeros(),
            empty: Arc::new(Buckets::new(0)),
            seed,
        }
    }

    /// Returns the entry of a key, if its shard exists.
    pub(crate) fn entry(&self, key: u32) -> Option<KeyEntry<'_>> {
        let hash = hash(key, self.seed);
        Some(KeyEntry { shard: self.shards.get(self.shard_index(hash))?, key, hash })
    }

    /// Returns the entry of a key, and allocates its shard if necessary. Writer only.
    pub(crate) fn allocate_entry(&self, key: u32) -> KeyEntry<'_> {
        let hash = hash(key, self.seed);
        let make =
            || Shard { version: AtomicU32::new(0), buckets: ArcSwap::new(Arc::clone(&self.empty)) };
        KeyEntry { shard: self.shards.allocate(self.shard_index(hash), make), key, hash }
    }

    /// Returns the heap size in bytes. Cost: O(shards).
    pub(crate) fn bytes(&self) -> usize {
        let buckets = self.shards.iter().map(|shard| {
            let buckets = shard.buckets.load();
            if buckets.buckets.is_empty() {
                return 0; // shared by all empty shards
            }
            size_of::<Buckets>() + size_of_val(&*buckets.buckets)
        });
        self.shards.bytes() + buckets.sum::<usize>()
    }

    /// Returns the words of all keys, one shard at a time.
    pub(crate) fn words(&self) -> impl Iterator<Item = u32> + '_ {
        self.shards.iter().flat_map(|shard| {
            let buckets = shard.buckets.load();
            buckets.entries().map(|entry| entry as u32).collect::<Vec<_>>()
        })
    }

    fn shard_index(&self, hash: u64) -> u32 {
        // In two steps, because a shift by 64 bits overflows.
        (hash >> 1 >> (63 - self.shard_bits)) as u32
    }

    /// Sets the word of a key. Writer only.
    pub(crate) fn set(&self, key_entry: KeyEntry<'_>, word: u32) {
        let buckets = key_entry.shard.buckets.load();
        match buckets.search(key_entry) {
            Ok((at, _)) => {
                buckets.buckets[at].store(entry(key_entry.key, word), Ordering::Release);
            }
            Err(free) => self.insert(key_entry, word, &buckets, free),
        }
    }

    /// Returns the word of a key. If it is not in the table, it is inserted with `word`. Writer only.
    pub(crate) fn word_or_insert(&self, key_entry: KeyEntry<'_>, word: u32) -> Option<u32> {
        let buckets = key_entry.shard.buckets.load();
        match buckets.search(key_entry) {
            Ok((_, entry)) => Some(entry as u32),
            Err(free) => {
                self.insert(key_entry, word, &buckets, free);
                None
            }
        }
    }

    /// Inserts a key that is not in the table. `free` is the bucket where a search for it has found a free one.
    fn insert(&self, key_entry: KeyEntry<'_>, word: u32, buckets: &Buckets, free: Option<usize>) {
        if let Some(free) = free.filter(|_| !buckets.is_full()) {
            buckets.insert_at(free, entry(key_entry.key, word));
            return;
        }
        let live = buckets.live.load(Ordering::Relaxed) as usize;
        let grown = Buckets::new(((live + 1) * 25 / 18).max(BUCKETS_MIN)); // 72 of 100 in use
        for entry in buckets.entries() {
            grown.insert(hash((entry >> 32) as u32, self.seed), entry);
        }
        grown.insert(key_entry.hash, entry(key_entry.key, word));
        key_entry.shard.buckets.store(Arc::new(grown));
    }
}

impl KeyEntry<'_> {
    /// Returns the word of the key, if it is in the table.
    pub(crate) fn word(&self) -> Option<u32> {
        self.shard.buckets.load().find(*self).map(|(_, entry)| entry as u32)
    }

    /// Returns the version to compare with later.
    pub(crate) fn version(&self) -> u32 {
        self.shard.version.load(Ordering::Acquire)
    }

    /// Returns whether memory that was read through words of this shard since `version` still belonged to them.
    pub(crate) fn is_unchanged_since(&self, version: u32) -> bool {
        // Pairs with the fence in `mark_changed`: a reader that sees a write after it sees the new version.
        fence(Ordering::Acquire);
        self.shard.version.load(Ordering::Relaxed) == version
    }

    /// Announces that memory that a word of this shard referred to is about to be reused. Writer only.
    pub(crate) fn mark_changed(&self) {
        let version = self.shard.version.load(Ordering::Relaxed).wrapping_add(1);
        self.shard.version.store(version, Ordering::Release);
        fence(Ordering::Release);
    }

    /// Removes the key. Writer only.
    pub(crate) fn remove(&self) {
        self.shard.buckets.load().remove(*self);
    }
}

impl Buckets {
    fn new(len: usize) -> Self {
        let buckets = (0..len).map(|_| AtomicU64::new(EMPTY)).collect();
        Self { buckets, live: AtomicU32::new(0), used: AtomicU32::new(0) }
    }

    /// Returns whether nine of ten buckets are used. So one stays empty, and every search ends.
    fn is_full(&self) -> bool {
        let used = self.used.load(Ordering::Relaxed) as usize + 1;
        used * 10 > self.buckets.len() * 9
    }

    /// Returns the bucket of the key, and the entry that was read there.
    fn find(&self, key_entry: KeyEntry<'_>) -> Option<(usize, u64)> {
        self.search(key_entry).ok()
    }

    /// Returns the bucket of the key and the entry that was read there, or the first free bucket on its path.
    fn search(&self, key_entry: KeyEntry<'_>) -> Result<(usize, u64), Option<usize>> {
        let mut free = None;
        for at in self.path(key_entry.hash) {
            // Pairs with the release of an entry: what its word refers to is visible.
            let entry = self.buckets[at].load(Ordering::Acquire);
            if entry == EMPTY {
                return Err(free.or(Some(at)));
            }
            if entry == TOMBSTONE {
                free = free.or(Some(at));
            } else if (entry >> 32) as u32 == key_entry.key {
                return Ok((at, entry));
            }
        }
        Err(free)
    }

    /// Inserts an entry of a key that is not in the table. There must be a free bucket.
    fn insert(&self, hash: u64, entry: u64) {
        for at in self.path(hash) {
            let was = self.buckets[at].load(Ordering::Relaxed);
            if was != EMPTY && was != TOMBSTONE {
                continue;
            }
            self.insert_at(at, entry);
            return;
        }
        unreachable!("a shard that is not full has a free bucket");
    }

    /// Stores an entry in a free bucket.
    fn insert_at(&self, at: usize, entry: u64) {
        let was = self.buckets[at].load(Ordering::Relaxed);
        self.buckets[at].store(entry, Ordering::Release);
        add(&self.live, 1);
        add(&self.used, u32::from(was == EMPTY));
    }

    fn remove(&self, key_entry: KeyEntry<'_>) {
        let Some((at, _)) = self.find(key_entry) else { return };
        add(&self.live, u32::MAX);
        let len = self.buckets.len();
        if self.buckets[(at + 1) % len].load(Ordering::Relaxed) != EMPTY {
            self.buckets[at].store(TOMBSTONE, Ordering::Release);
            return;
        }
        // No search continues behind an empty bucket, so this one, and tombstones before it, may be emptied too.
        let mut at = at;
        loop {
            self.buckets[at].store(EMPTY, Ordering::Release);
            add(&self.used, u32::MAX);
            at = (at + len - 1) % len;
            if self.buckets[at].load(Ordering::Relaxed) != TOMBSTONE {
                return;
            }
        }
    }

    fn entries(&self) -> impl Iterator<Item = u64> {
        let entries = self.buckets.iter().map(|slot| slot.load(Ordering::Relaxed));
        entries.filter(|entry| *entry != EMPTY && *entry != TOMBSTONE)
    }

    /// Returns all buckets, starting with the one that the hash names.
    fn path(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let len = self.buckets.len();
        let first = (((hash & 0xffff_ffff) * len as u64) >> 32) as usize;
        (first..len).chain(0..first)
    }
}

fn entry(key: u32, word: u32) -> u64 {
    u64::from(key) << 32 | u64::from(word)
}

/// Adds with wrapping. Only one thread writes.
fn add(to: &AtomicU32, n: u32) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// Returns the keyed hash of a key's id. Ids of keys are in order, and an attacker that makes addresses may choose
/// which become keys.
fn hash(key: u32, seed: u64) -> u64 {
    let product = u128::from(u64::from(key) ^ seed) * u128::from(seed | 1);
    let folded = product as u64 ^ (product >> 64) as u64;
    let mixed = (folded ^ folded >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn words_come_and_go_like_in_a_map() {
        for (limit, keys) in [(100_000, 3_000), (1, 200), (1, 3)] {
            let table = KeyTable::new(limit, 12345);
            let mut model = BTreeMap::new();
            let mut random = 7_u64;
            for step in 0..200_000_u32 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let key = (random >> 33) as u32 % keys;
                let key_entry = table.allocate_entry(key);
                match random >> 60 {
                    ..9 => {
                        table.set(key_entry, step);
                        model.insert(key, step);
                    }
                    _ => {
                        key_entry.remove();
                        model.remove(&key);
                    }
                }
                let other = (random >> 40) as u32 % keys;
                let found = table.entry(other).and_then(|key_entry| key_entry.word());
                assert_eq!(found, model.get(&other).copied());
                assert_eq!(key_entry.word(), model.get(&key).copied());
            }
            for key in 0..keys {
                assert_eq!(table.allocate_entry(key).word(), model.get(&key).copied());
            }
        }
    }
}
