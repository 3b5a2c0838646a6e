//! The postings of ids that are far apart: a hash table of six bytes an entry, without free slots.
//!
//! Shape: up to 384 ids are in a sorted list. More are in shards, until the last id is removed: linear hashing
//! (Litwin, 1980). A bijection with a random key mixes the bits of an id. The lower half of the result is the number of
//! one of 65,536 buckets, the upper half is the key in it. Buckets with the same lower bits in their numbers are a
//! shard: the keys of all of them in one list, their postings in another, and the end of each bucket. When the shards
//! have too many ids on average, one of them is split into the buckets with an even and with an odd number. So growing
//! further copies one shard at a time, and after every eighth of them the list of shards: 64 bytes each, at most 4 MiB.
//! Memory: at most 4 KiB for up to 384 ids. Beyond that, 280 KiB for the buckets, and for each id 2 bytes of a key, 4
//! of a posting, and less than one for the lists' reserve and the shards: below 7 bytes from 600,000 ids on.
//! Cost: a lookup is a binary search in a bucket. A new or a removed id also moves the rest of its shard: some 2 KiB up
//! to 25 million ids, and in proportion beyond. A shard has twice the average just before it is split, so up to 5 KiB
//! move. Buckets are chosen by a keyed hash, so that a client cannot fill one.

use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::quality::RandomState;

use crate::posting_lists::PostingRef;

/// Maximum number of ids in the sorted list. A larger value makes changes slower; a smaller one allocates shards for
/// fewer ids.
const FEW_IDS_MAX: usize = 384;
/// Number of bits in a bucket's number.
const BUCKET_BITS: u32 = 16;
const SHARDS_MIN: usize = 256;
/// Shards of one bucket each.
const SHARDS_MAX: usize = 1 << BUCKET_BITS;
/// Ids of a shard, on average, above which one is split. A larger value makes changes slower; a smaller one needs more
/// memory for shards.
const SHARD_IDS_MAX: usize = 384;
/// Ids of a shard, on average, below which two are merged.
const SHARD_IDS_MIN: usize = SHARD_IDS_MAX / 4;

pub(crate) struct ScatteredPostings {
    /// All ids, sorted, with their postings, while there are no shards.
    few: Vec<(u32, PostingRef)>,
    /// None, or a number between [`SHARDS_MIN`] and [`SHARDS_MAX`].
    shards: Vec<Shard>,
    ids: usize,
    /// The key of the hash.
    seed: u32,
    reserved: Reserved,
}

/// The size of the memory that is never freed.
#[derive(Clone, Copy)]
struct Reserved {
    shards: usize,
    /// 0 if no memory is reserved.
    ids_per_shard: usize,
}

/// The location of an id, whether it has a posting or not.
struct Location {
    shard: usize,
    /// The bucket's position in the shard.
    bucket: usize,
    key: u16,
}

struct Shard {
    /// The end of each bucket in the lists.
    ends: Box<[u32]>,
    /// Sorted within a bucket.
    keys: Vec<u16>,
    /// The posting of each key.
    words: Vec<PostingRef>,
}

impl ScatteredPostings {
    /// Creates an empty table. Anyone who knows the seed can choose ids that all go to one shard.
    pub(crate) fn with_seed(seed: u32) -> Self {
        Self { few: Vec::new(), shards: Vec::new(), ids: 0, seed, reserved: Reserved::NONE }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved.ids_per_shard > 0
    }

    /// Allocates memory for `ids` ids, which is never freed.
    pub(crate) fn reserve(&mut self, ids: usize) {
        let shards = ids.div_ceil(SHARD_IDS_MAX).next_power_of_two().clamp(SHARDS_MIN, SHARDS_MAX);
        let mean = ids / shards;
        // Six standard deviations of the number of ids in a shard.
        let reserved = Reserved { shards, ids_per_shard: mean + 6 * mean.isqrt() + 8 };
        if self.shards.is_empty() {
            self.create_shards();
        }
        while self.shards.len() < shards {
            self.split_next();
        }
        self.reserved = reserved;
        for shard in &mut self.shards {
            let ids_min = reserved.ids_min(shard.ends.len());
            shard.reserve(ids_min);
        }
    }

    /// Returns the posting of an id.
    pub(crate) fn get(&self, id: u32) -> PostingRef {
        if self.shards.is_empty() {
            return self.search_few(id).map_or(PostingRef::EMPTY, |at| self.few[at].1);
        }
        let Location { shard, bucket, key } = self.locate(id);
        let shard = &self.shards[shard];
        shard.search(bucket, key).map_or(PostingRef::EMPTY, |at| shard.words[at])
    }

    /// Sets or removes the posting of an id.
    pub(crate) fn set(&mut self, id: u32, word: PostingRef) {
        self.change(id, |_| word);
    }

    /// Changes the posting of an id. Returns the old one.
    pub(crate) fn change(
        &mut self,
        id: u32,
        change: impl FnOnce(PostingRef) -> PostingRef,
    ) -> PostingRef {
        if self.shards.is_empty() {
            return self.change_few(id, change);
        }
        let Location { shard, bucket, key } = self.locate(id);
        let shard = &mut self.shards[shard];
        let at = shard.search(bucket, key);
        let old = at.map_or(PostingRef::EMPTY, |at| shard.words[at]);
        let new = change(old);
        match at {
            Ok(at) if new != PostingRef::EMPTY => shard.words[at] = new,
            Ok(at) => {
                let ids_min = self.reserved.ids_min(shard.ends.len());
                shard.remove(bucket, at, ids_min);
                self.ids -= 1;
                self.shrink();
            }
            Err(at) if new != PostingRef::EMPTY => {
                shard.insert(bucket, at, key, new);
                self.ids += 1;
                self.grow();
            }
            Err(_) => {}
        }
        old
    }

    /// Returns its heap bytes. Cost: O(shards).
    pub(crate) fn bytes(&self) -> usize {
        self.few.capacity() * size_of::<(u32, PostingRef)>()
            + self.shards.iter().map(Shard::bytes).sum::<usize>()
            + self.shards.capacity() * size_of::<Shard>()
    }

    /// Finds the position of an id in the sorted list; the error is the position to insert it at.
    fn search_few(&self, id: u32) -> Result<usize, usize> {
        self.few.binary_search_by_key(&id, |(id, _)| *id)
    }

    /// Changes the posting of an id while there are no shards. Returns the old one.
    fn change_few(&mut self, id: u32, change: impl FnOnce(PostingRef) -> PostingRef) -> PostingRef {
        let at = self.search_few(id);
        let old = at.map_or(PostingRef::EMPTY, |at| self.few[at].1);
        let new = change(old);
        match at {
            Ok(at) if new != PostingRef::EMPTY => self.few[at].1 = new,
            Ok(at) => {
                self.few.remove(at);
                self.ids -= 1;
                if self.few.is_empty() {
                    self.few = Vec::new();
                }
            }
            Err(_) if new == PostingRef::EMPTY => {}
            Err(at) if self.few.len() < FEW_IDS_MAX => {
                self.few.insert(at, (id, new));
                self.ids += 1;
            }
            Err(_) => {
                self.create_shards();
                self.set(id, new);
            }
        }
        old
    }

    /// Creates the first shards, and moves the ids of the sorted list into them.
    fn create_shards(&mut self) {
        let shard = || Shard::with_capacity(SHARDS_MAX / SHARDS_MIN, 0);
        self.shards = (0..SHARDS_MIN).map(|_| shard()).collect();
        self.ids = 0;
        for (id, word) in std::mem::take(&mut self.few) {
            self.set(id, word);
        }
    }

    /// Hashes a number with the key of the table.
    pub(crate) fn hash(&self, number: u32) -> u32 {
        mix_bits(number ^ self.seed)
    }

    fn locate(&self, id: u32) -> Location {
        let hash = self.hash(id);
        let level = self.shards.len().ilog2();
        let is_split = hash & low_bits(level) < self.shards.len() as u32 - (1 << level);
        let bits = level + u32::from(is_split);
        Location {
            shard: (hash & low_bits(bits)) as usize,
            bucket: (hash & low_bits(BUCKET_BITS)) as usize >> bits,
            key: (hash >> BUCKET_BITS) as u16,
        }
    }

    fn grow(&mut self) {
        if self.ids > self.shards.len() * SHARD_IDS_MAX && self.shards.len() < SHARDS_MAX {
            self.split_next();
        }
    }

    fn shrink(&mut self) {
        let shards = self.shards.len();
        if self.ids == 0 && !self.is_reserved() {
            self.shards = Vec::new();
        } else if shards > self.reserved.shards && self.ids < shards * SHARD_IDS_MIN {
            self.merge_last();
        }
    }

    /// Splits the first shard that was not split since the number of shards was a power of two.
    fn split_next(&mut self) {
        let at = self.shards.len() - (1 << self.shards.len().ilog2());
        let shard = &mut self.shards[at];
        let ids_min = self.reserved.ids_min(shard.ends.len() / 2);
        let odd = shard.split(ids_min);
        if self.shards.len() == self.shards.capacity() {
            self.shards.reserve_exact(self.shards.len() / 8);
        }
        self.shards.push(odd);
    }

    /// Merges the last shard with the one that it was split from.
    fn merge_last(&mut self) {
        let Some(odd) = self.shards.pop() else { return };
        let at = self.shards.len() - (1 << self.shards.len().ilog2());
        let even = &mut self.shards[at];
        let ids_min = self.reserved.ids_min(even.ends.len() * 2);
        *even = even.merge(&odd, ids_min);
        if self.shards.len() < self.shards.capacity() / 2 {
            self.shards.shrink_to_fit();
        }
    }
}

impl Default for ScatteredPostings {
    fn default() -> Self {
        Self::with_seed(RandomState::default().hash_one(0_u32) as u32)
    }
}

impl Reserved {
    const NONE: Self = Self { shards: SHARDS_MIN, ids_per_shard: 0 };

    /// Returns the number of ids that a shard of `buckets` buckets always has memory for: in proportion, so that the
    /// sum is the same for any number of shards.
    fn ids_min(self, buckets: usize) -> usize {
        (self.ids_per_shard * buckets).div_ceil(SHARDS_MAX / self.shards)
    }
}

impl Shard {
    fn with_capacity(buckets: usize, ids: usize) -> Self {
        Self {
            ends: vec![0; buckets].into_boxed_slice(),
            keys: Vec::with_capacity(ids),
            words: Vec::with_capacity(ids),
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.ends)
            + self.keys.capacity() * size_of::<u16>()
            + self.words.capacity() * size_of::<PostingRef>()
    }

    /// Returns the positions of a bucket's ids.
    fn range(&self, bucket: usize) -> Range<usize> {
        let start = bucket.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[bucket] as usize
    }

    /// Finds the position of a key; the error is the position to insert it at.
    fn search(&self, bucket: usize, key: u16) -> Result<usize, usize> {
        let range = self.range(bucket);
        let found = self.keys[range.clone()].binary_search(&key);
        found.map(|at| range.start + at).map_err(|at| range.start + at)
    }

    fn insert(&mut self, bucket: usize, at: usize, key: u16, word: PostingRef) {
        if self.keys.len() == self.keys.capacity() {
            self.reserve(capacity_for(self.keys.len() + 1));
        }
        self.keys.insert(at, key);
        self.words.insert(at, word);
        self.ends[bucket..].iter_mut().for_each(|end| *end += 1);
    }

    /// Removes a key, and frees memory above that for `ids_min` ids.
    fn remove(&mut self, bucket: usize, at: usize, ids_min: usize) {
        self.keys.remove(at);
        self.words.remove(at);
        self.ends[bucket..].iter_mut().for_each(|end| *end -= 1);
        let capacity = capacity_for(self.keys.len()).max(ids_min);
        if self.keys.capacity() > capacity + capacity / 4 {
            self.keys.shrink_to(capacity);
            self.words.shrink_to(capacity);
        }
    }

    fn reserve(&mut self, ids: usize) {
        self.keys.reserve_exact(ids.saturating_sub(self.keys.len()));
        self.words.reserve_exact(ids.saturating_sub(self.words.len()));
    }

    /// Keeps the buckets with an even number and returns the others, each with memory for at least `ids_min` ids.
    fn split(&mut self, ids_min: usize) -> Self {
        let [even, odd] = [0, 1].map(|parity| {
            let buckets = (parity..self.ends.len()).step_by(2);
            let buckets = buckets.map(|bucket| (&*self, self.range(bucket)));
            Self::from_buckets(buckets, self.ends.len() / 2, ids_min)
        });
        *self = even;
        odd
    }

    /// Interleaves the buckets of two shards that were split.
    fn merge(&self, odd: &Self, ids_min: usize) -> Self {
        let buckets = (0..self.ends.len())
            .flat_map(|bucket| [(self, self.range(bucket)), (odd, odd.range(bucket))]);
        Self::from_buckets(buckets, self.ends.len() * 2, ids_min)
    }

    /// Builds a shard of `len` buckets, each copied from a range, with memory for at least `ids_min` ids.
    fn from_buckets<'a>(
        buckets: impl Iterator<Item = (&'a Self, Range<usize>)> + Clone,
        len: usize,
        ids_min: usize,
    ) -> Self {
        let ids = buckets.clone().map(|(_, range)| range.len()).sum();
        let mut shard = Self::with_capacity(len, capacity_for(ids).max(ids_min));
        for ((from, range), end) in buckets.zip(&mut shard.ends) {
            shard.keys.extend_from_slice(&from.keys[range.clone()]);
            shard.words.extend_from_slice(&from.words[range]);
            *end = shard.keys.len() as u32;
        }
        shard
    }
}

/// Returns the capacity for a number of ids: a sixteenth more, so that few insertions allocate.
fn capacity_for(ids: usize) -> usize {
    ids + ids / 16 + 4
}

/// Returns a mask of the `bits` lowest bits.
fn low_bits(bits: u32) -> u32 {
    (1 << bits) - 1
}

/// Mixes the bits of an id with MurmurHash3's finalizer, a bijection.
fn mix_bits(id: u32) -> u32 {
    let mixed = (id ^ (id >> 16)).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
    mixed ^ (mixed >> 16)
}

#[cfg(test)]
mod tests;
