//! The postings of ids that are far apart: a hash table of six bytes an entry, without free slots.
//!
//! Shape: linear hashing (Litwin, 1980). A bijection mixes the bits of an id. The lower half of the result is the number
//! of one of 65,536 buckets, the upper half is the key in it. Buckets with the same lower bits in their numbers are a
//! shard: the keys of all of them in one list, their postings in another, and the end of each bucket. When the shards
//! have too many ids on average, one of them is split into the buckets with an even and with an odd number, so growing
//! never takes longer than copying one shard.
//! Memory: 2 bytes of a key, 4 of a posting, and less than one for the lists' reserve and the shards; 150 KiB for the
//! first id.
//! Cost: a lookup is a binary search in a bucket. A new or a removed id also moves the rest of its shard, some 2 KiB.

use std::ops::Range;

use crate::posting_lists::PostingRef;

/// Number of bits in a bucket's number.
const BUCKET_BITS: u32 = 16;
const SHARDS_MIN: usize = 256;
/// Shards of one bucket each.
const SHARDS_MAX: usize = 1 << BUCKET_BITS;
/// Ids of a shard, on average, above which one is split. More would make changes slower, fewer would need more memory
/// for shards.
const SHARD_IDS_MAX: usize = 384;
/// Ids of a shard, on average, below which two are merged.
const SHARD_IDS_MIN: usize = SHARD_IDS_MAX / 4;

#[derive(Default)]
pub(crate) struct ScatteredPostings {
    /// None, or a number between [`SHARDS_MIN`] and [`SHARDS_MAX`].
    shards: Vec<Shard>,
    ids: usize,
    reserved: Option<Reserved>,
}

/// The size of the memory that is never freed.
#[derive(Clone, Copy)]
struct Reserved {
    shards: usize,
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
    /// The end of each bucket in the lists: below 65,536, as a bucket has fewer ids than keys, and as a shard of several
    /// buckets is split before.
    ends: Box<[u16]>,
    /// Sorted within a bucket.
    keys: Vec<u16>,
    /// The posting of each key.
    words: Vec<PostingRef>,
}

impl ScatteredPostings {
    pub(crate) fn len(&self) -> usize {
        self.ids
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved.is_some()
    }

    /// Allocates memory for `ids` ids, which is never freed.
    pub(crate) fn reserve(&mut self, ids: usize) {
        let shards = ids.div_ceil(SHARD_IDS_MAX).next_power_of_two().clamp(SHARDS_MIN, SHARDS_MAX);
        let mean = ids / shards;
        // Six standard deviations of the number of ids in a shard.
        let reserved = Reserved { shards, ids_per_shard: mean + 6 * mean.isqrt() + 8 };
        self.reserved = Some(reserved);
        self.create_shards();
        while self.shards.len() < shards {
            self.split_next();
        }
        self.shards.iter_mut().for_each(|shard| shard.reserve(reserved.ids_per_shard));
    }

    /// Returns the posting of an id.
    pub(crate) fn get(&self, id: u32) -> PostingRef {
        if self.ids == 0 {
            return PostingRef::EMPTY;
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
            let new = change(PostingRef::EMPTY);
            if new != PostingRef::EMPTY {
                self.create_shards();
                self.set(id, new);
            }
            return PostingRef::EMPTY;
        }
        let Location { shard, bucket, key } = self.locate(id);
        let shard = &mut self.shards[shard];
        let at = shard.search(bucket, key);
        let old = at.map_or(PostingRef::EMPTY, |at| shard.words[at]);
        let new = change(old);
        match at {
            Ok(at) if new != PostingRef::EMPTY => shard.words[at] = new,
            Ok(at) => {
                shard.remove(bucket, at, self.reserved.map_or(0, |it| it.ids_per_shard));
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

    /// Its heap bytes. Cost: O(shards).
    pub(crate) fn bytes(&self) -> usize {
        let shards = self.shards.iter().map(Shard::bytes).sum::<usize>();
        shards + self.shards.capacity() * size_of::<Shard>()
    }

    fn create_shards(&mut self) {
        if self.shards.is_empty() {
            let shard = || Shard::with_capacity(SHARDS_MAX / SHARDS_MIN, 0);
            self.shards = (0..SHARDS_MIN).map(|_| shard()).collect();
        }
    }

    fn locate(&self, id: u32) -> Location {
        let hash = mix_bits(id);
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
        let shards_min = self.reserved.map_or(SHARDS_MIN, |reserved| reserved.shards);
        if self.ids == 0 && self.reserved.is_none() {
            self.shards = Vec::new();
        } else if self.shards.len() > shards_min && self.ids < self.shards.len() * SHARD_IDS_MIN {
            self.merge_last();
        }
    }

    /// Splits the first shard that was not split since the number of shards was a power of two.
    fn split_next(&mut self) {
        let at = self.shards.len() - (1 << self.shards.len().ilog2());
        let odd = self.shards[at].split();
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
        *even = even.merge(&odd);
        if self.shards.len() < self.shards.capacity() / 2 {
            self.shards.shrink_to_fit();
        }
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

    /// The positions of a bucket's ids.
    fn range(&self, bucket: usize) -> Range<usize> {
        let start = bucket.checked_sub(1).map_or(0, |before| self.ends[before]);
        start.into()..self.ends[bucket].into()
    }

    /// The position of a key, or in the error where it would be.
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

    /// Leaves the buckets with an even number, and returns those with an odd one.
    fn split(&mut self) -> Self {
        let [even, odd] = [0, 1].map(|parity| {
            let buckets = (parity..self.ends.len()).step_by(2);
            let buckets = buckets.map(|bucket| (&*self, self.range(bucket)));
            Self::from_buckets(buckets, self.ends.len() / 2)
        });
        *self = even;
        odd
    }

    /// The opposite of [`Self::split`].
    fn merge(&self, odd: &Self) -> Self {
        let buckets = (0..self.ends.len())
            .flat_map(|bucket| [(self, self.range(bucket)), (odd, odd.range(bucket))]);
        Self::from_buckets(buckets, self.ends.len() * 2)
    }

    /// A shard with `len` buckets, each copied from a range of a shard.
    fn from_buckets<'a>(
        buckets: impl Iterator<Item = (&'a Self, Range<usize>)> + Clone,
        len: usize,
    ) -> Self {
        let ids = buckets.clone().map(|(_, range)| range.len()).sum();
        let mut shard = Self::with_capacity(len, capacity_for(ids));
        for ((from, range), end) in buckets.zip(&mut shard.ends) {
            shard.keys.extend_from_slice(&from.keys[range.clone()]);
            shard.words.extend_from_slice(&from.words[range]);
            *end = shard.keys.len() as u16;
        }
        shard
    }
}

/// The capacity for a number of ids: a sixteenth more, so that few insertions allocate.
fn capacity_for(ids: usize) -> usize {
    ids + ids / 16 + 4
}

/// A mask of the `bits` lowest bits.
fn low_bits(bits: u32) -> u32 {
    (1 << bits) - 1
}

/// MurmurHash3's finalizer: a bijection in which each bit of the id reaches each bit of the result.
fn mix_bits(id: u32) -> u32 {
    let mixed = (id ^ (id >> 16)).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
    mixed ^ (mixed >> 16)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn word(number: u32) -> PostingRef {
        PostingRef::from_bits(number + 1)
    }

    #[test]
    fn it_equals_a_map_while_it_grows_and_shrinks() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let mut postings = ScatteredPostings::default();
        let mut model = BTreeMap::new();
        // Enough for every number of shards between two powers of two, and back.
        for (inserted, removed) in [(60_000, 20_000), (250_000, 290_000), (500, 0)] {
            for number in 0..inserted {
                let id = rng.random_range(0..1 << 31);
                postings.set(id, word(number));
                model.insert(id, word(number));
            }
            let some: Vec<u32> = model.keys().copied().collect();
            for at in 0..removed.min(some.len()) {
                // Every third or so at first, the last ones in order.
                let id = some[(at * 3 + at / (some.len() / 3 + 1)) % some.len()];
                assert_eq!(postings.get(id), model.remove(&id).unwrap_or(PostingRef::EMPTY));
                postings.set(id, PostingRef::EMPTY);
                postings.set(id, PostingRef::EMPTY);
            }
            assert_eq!(postings.len(), model.len());
            assert!(model.iter().all(|(id, word)| postings.get(*id) == *word));
            let is_absent = |id: u32| postings.get(id) == PostingRef::EMPTY;
            assert!((0..100_000).all(|id| model.contains_key(&id) || is_absent(id)));
        }
        model.keys().for_each(|id| postings.set(*id, PostingRef::EMPTY));
        postings.set(7, PostingRef::EMPTY);
        assert_eq!((postings.len(), postings.bytes()), (0, 0), "nothing is allocated");
    }

    #[test]
    fn an_id_takes_less_than_seven_bytes() {
        let mut postings = ScatteredPostings::default();
        let mut most = 0.0_f64;
        for number in 0..1_200_000_u32 {
            postings.set(number.wrapping_mul(1_789), word(number));
            if number > 300_000 && number.is_multiple_of(10_000) {
                most = most.max(postings.bytes() as f64 / postings.len() as f64);
            }
        }
        assert!(most < 7.0, "{most}");
        assert!(postings.shards.len() > 3_000, "{} shards", postings.shards.len());
    }
}
