//! From a key's id to its word: an open table of both, in shards.
//!
//! Shape: slots of 8 bytes, the key's id above its word, in shards that the hash chooses. A slot is
//! read and written whole. A shard that is full is replaced by a larger one.
//! Invariant: one thread changes it. A search finds a key that is there throughout: slots do not
//! move, and a slot is emptied only where no search goes on behind it.
//! Invariant: a shard's version counts up after a word of it was replaced and before what that word
//! led to is used again. Whoever reads behind a word and then finds the version as it was before he
//! read the word has read what the word led to.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::chunked_array::{CHUNKS, ChunkedArray};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Keys a shard has at most on average, if as many keys as addresses are there.
const SHARD_LEN: u32 = 1024;
const EMPTY: u64 = u64::MAX;
const TOMBSTONE: u64 = u64::MAX - 1;
/// The first slots of a shard.
const BUCKETS_MIN: usize = 4;

/// The table of one facet.
pub(crate) struct KeyTable {
    /// Laid out when first needed: a few keys among a billion addresses need few shards.
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
    /// Slots with a key. For the writer.
    live: AtomicU32,
    /// Slots with a key or a tombstone. For the writer.
    used: AtomicU32,
}

/// A key's place: its shard and its hash.
#[derive(Clone, Copy)]
pub(crate) struct KeyEntry<'a> {
    shard: &'a Shard,
    key: u32,
    hash: u64,
}

impl KeyTable {
    /// An empty table for at most `limit` keys.
    pub(crate) fn new(limit: u32, seed: u64) -> Self {
        let shards = limit.div_ceil(SHARD_LEN).next_power_of_two();
        Self {
            shards: ChunkedArray::new((shards as usize).div_ceil(CHUNKS)),
            shard_bits: shards.trailing_zeros(),
            empty: Arc::new(Buckets::new(0)),
            seed,
        }
    }

    /// Where a key is, if it may be there at all.
    pub(crate) fn entry(&self, key: u32) -> Option<KeyEntry<'_>> {
        let hash = hash(key, self.seed);
        Some(KeyEntry { shard: self.shards.get(self.shard_of(hash))?, key, hash })
    }

    /// Where a key is or may be put. Writer only.
    pub(crate) fn allocate_entry(&self, key: u32) -> KeyEntry<'_> {
        let hash = hash(key, self.seed);
        let make =
            || Shard { version: AtomicU32::new(0), buckets: ArcSwap::new(Arc::clone(&self.empty)) };
        KeyEntry { shard: self.shards.allocate(self.shard_of(hash), make), key, hash }
    }

    /// The heap bytes of it. Cost: O(shards).
    pub(crate) fn bytes(&self) -> usize {
        let slots = self.shards.iter().map(|shard| {
            let slots = shard.buckets.load();
            if slots.buckets.is_empty() {
                return 0; // shared by all that have none
            }
            size_of::<Buckets>() + size_of_val(&*slots.buckets)
        });
        self.shards.bytes() + slots.sum::<usize>()
    }

    /// The words of all keys, a shard at a time.
    pub(crate) fn words(&self) -> impl Iterator<Item = u32> + '_ {
        self.shards.iter().flat_map(|shard| {
            let slots = shard.buckets.load();
            slots.entries().map(|entry| entry as u32).collect::<Vec<_>>()
        })
    }

    fn shard_of(&self, hash: u64) -> u32 {
        // In two steps, as a shift by 64 is none.
        (hash >> 1 >> (63 - self.shard_bits)) as u32
    }

    /// Sets the word of a key. Writer only.
    pub(crate) fn set(&self, place: KeyEntry<'_>, word: u32) {
        let slots = place.shard.buckets.load();
        if let Some((at, _)) = slots.find(place) {
            slots.buckets[at].store(entry(place.key, word), Ordering::Release);
            return;
        }
        if !slots.is_full() {
            slots.insert(place.hash, entry(place.key, word));
            return;
        }
        let live = slots.live.load(Ordering::Relaxed) as usize;
        let grown = Buckets::new(((live + 1) * 25 / 18).max(BUCKETS_MIN)); // 72 of 100 used
        for entry in slots.entries() {
            grown.insert(hash((entry >> 32) as u32, self.seed), entry);
        }
        grown.insert(place.hash, entry(place.key, word));
        place.shard.buckets.store(Arc::new(grown));
    }
}

impl KeyEntry<'_> {
    /// The key's word.
    pub(crate) fn word(&self) -> Option<u32> {
        self.shard.buckets.load().find(*self).map(|(_, entry)| entry as u32)
    }

    /// The version to compare with later.
    pub(crate) fn version(&self) -> u32 {
        self.shard.version.load(Ordering::Acquire)
    }

    /// Whether what was read since behind words of this shard was still theirs.
    pub(crate) fn is_unchanged_since(&self, version: u32) -> bool {
        // Pairs with the fence of `changed`: whoever read what was written after it sees its count.
        fence(Ordering::Acquire);
        self.shard.version.load(Ordering::Relaxed) == version
    }

    /// Says that what a word of this shard led to is about to be used again. Writer only.
    pub(crate) fn mark_changed(&self) {
        let version = self.shard.version.load(Ordering::Relaxed).wrapping_add(1);
        self.shard.version.store(version, Ordering::Release);
        fence(Ordering::Release);
    }

    /// Takes out the key. Writer only.
    pub(crate) fn remove(&self) {
        self.shard.buckets.load().remove(*self);
    }
}

impl Buckets {
    fn new(len: usize) -> Self {
        let buckets = (0..len).map(|_| AtomicU64::new(EMPTY)).collect();
        Self { buckets, live: AtomicU32::new(0), used: AtomicU32::new(0) }
    }

    /// At most nine of ten are used, so one stays empty: every search ends.
    fn is_full(&self) -> bool {
        let used = self.used.load(Ordering::Relaxed) as usize + 1;
        used * 10 > self.buckets.len() * 9
    }

    /// Where the key is, and what was there when we looked.
    fn find(&self, place: KeyEntry<'_>) -> Option<(usize, u64)> {
        for at in self.path(place.hash) {
            // Pairs with the release of an entry: what its word leads to is there.
            let entry = self.buckets[at].load(Ordering::Acquire);
            if entry == EMPTY {
                return None;
            }
            if (entry >> 32) as u32 == place.key {
                return Some((at, entry));
            }
        }
        None
    }

    /// Puts in an entry whose key is not in. There must be room.
    fn insert(&self, hash: u64, entry: u64) {
        for at in self.path(hash) {
            let was = self.buckets[at].load(Ordering::Relaxed);
            if was != EMPTY && was != TOMBSTONE {
                continue;
            }
            self.buckets[at].store(entry, Ordering::Release);
            add(&self.live, 1);
            add(&self.used, u32::from(was == EMPTY));
            return;
        }
        unreachable!("a shard that is not full has a free slot");
    }

    fn remove(&self, place: KeyEntry<'_>) {
        let Some((at, _)) = self.find(place) else { return };
        add(&self.live, u32::MAX);
        let len = self.buckets.len();
        if self.buckets[(at + 1) % len].load(Ordering::Relaxed) != EMPTY {
            self.buckets[at].store(TOMBSTONE, Ordering::Release);
            return;
        }
        // No search goes on behind an empty slot, so this one, and tombstones before it, may be too.
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

    /// All slots, from the one that the hash names on.
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

/// Ids come in order, and whoever makes addresses may choose which ones become keys: so it is keyed.
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
            let words = KeyTable::new(limit, 12345);
            let mut model = BTreeMap::new();
            let mut random = 7_u64;
            for step in 0..200_000_u32 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let key = (random >> 33) as u32 % keys;
                let place = words.allocate_entry(key);
                match random >> 60 {
                    ..9 => {
                        words.set(place, step);
                        model.insert(key, step);
                    }
                    _ => {
                        place.remove();
                        model.remove(&key);
                    }
                }
                let other = (random >> 40) as u32 % keys;
                let found = words.entry(other).and_then(|place| place.word());
                assert_eq!(found, model.get(&other).copied());
                assert_eq!(place.word(), model.get(&key).copied());
            }
            for key in 0..keys {
                assert_eq!(words.allocate_entry(key).word(), model.get(&key).copied());
            }
        }
    }
}
