//! One shard of the table from hash to id: groups of 16 slots, each a tag of two bytes and an id.
//!
//! Shape: a lookup starts in the group that the tag names and continues with the next while groups are
//! full. Slots hold no key: the caller compares the address of the id.
//! Bounds: at most 15 of 16 slots are used, so every search ends. A full shard does not grow: its ids are inserted
//! into a larger one, which replaces it. They are placed by their tags; no address is read and hashed again.
//! Invariant: a group that was full once is never seen with an empty slot again (a removal
//! leaves a tombstone). So a search that passes it misses no id that was inserted behind it.
//! Invariant: one thread changes slots; others may search meanwhile. A search finds an id that is in the shard
//! throughout.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

const GROUP_LEN: usize = 16;
/// Tags in a word.
const TAGS_PER_WORD: usize = 4;
const TAG_WIDTH: u32 = 16;
const EMPTY: u16 = 0;
const TOMBSTONE: u16 = 1;
/// Set in the tag of every slot that holds an id.
const OCCUPIED: u16 = 0x8000;
/// Bits of a hash in its tag.
const TAG_BITS: u32 = 15;

const ONES: u64 = 0x0001_0001_0001_0001;
const HIGHS: u64 = ONES << 15;

/// The part of a hash that places its id in any shard.
#[derive(Clone, Copy)]
pub(crate) struct Tag(u16);

/// A shard of the hash table. It has a fixed size.
pub(crate) struct HashShard {
    groups: Box<[Group]>,
    /// Slots with an id. For the writer.
    live: AtomicU32,
    /// Slots with an id or a tombstone. For the writer.
    used: AtomicU32,
}

struct Group {
    tags: [AtomicU64; GROUP_LEN / TAGS_PER_WORD],
    ids: [AtomicU32; GROUP_LEN],
}

impl HashShard {
    /// Creates an empty shard for `ids` and about a fifth more; without any slot if `ids` is 0. Its size is one
    /// that allocators have without rounding.
    pub(crate) fn with_capacity(ids: usize) -> Self {
        let groups = match ids {
            0 => 0,
            1..GROUP_LEN => 1,
            _ => {
                // A few bytes that mimalloc may need for the alignment.
                let more = size_of::<u64>();
                let groups = (ids * 6).div_ceil(5 * (GROUP_LEN - 1));
                let least = groups * size_of::<Group>() + more;
                // Four sizes to each power of two.
                let step = 1 << (least.ilog2() - 2);
                (least.next_multiple_of(step) - more) / size_of::<Group>()
            }
        };
        let group = |_| Group {
            tags: std::array::from_fn(|_| AtomicU64::new(0)),
            ids: std::array::from_fn(|_| AtomicU32::new(0)),
        };
        let groups = (0..groups).map(group).collect();
        Self { groups, live: AtomicU32::new(0), used: AtomicU32::new(0) }
    }

    /// Returns whether no further id can be inserted.
    pub(crate) fn is_full(&self) -> bool {
        let used = self.used.load(Ordering::Relaxed) as usize;
        used + 1 > self.groups.len() * (GROUP_LEN - 1)
    }

    /// Returns the number of ids in the shard.
    pub(crate) fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed) as usize
    }

    /// Returns the heap size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.groups)
    }

    /// Returns the id with this hash for which `is_it` holds.
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = Tag::from_hash(hash);
        let pattern = ONES * u64::from(tag.0);
        for group in self.path(tag) {
            let mut has_empty = false;
            for (word, tags) in group.tags.iter().enumerate() {
                // Pairs with the release in `set_tag`: the tag's id, and its address, are visible.
                let tags = tags.load(Ordering::Acquire);
                let mut hits = zero_tags(tags ^ pattern);
                while hits != 0 {
                    let at = word * TAGS_PER_WORD + (hits.trailing_zeros() / TAG_WIDTH) as usize;
                    let id = group.ids[at].load(Ordering::Relaxed);
                    if is_it(id) {
                        return Some(id);
                    }
                    hits &= hits - 1;
                }
                has_empty |= zero_tags(tags) != 0;
            }
            if has_empty {
                return None;
            }
        }
        None
    }

    /// Inserts an id that is not in the shard. The shard must not be full. Writer only.
    pub(crate) fn insert(&self, tag: Tag, id: u32) {
        debug_assert!(!self.is_full());
        for group in self.path(tag) {
            for (word, tags) in group.tags.iter().enumerate() {
                let now = tags.load(Ordering::Relaxed);
                let free = !now & HIGHS;
                if free == 0 {
                    continue;
                }
                let at = free.trailing_zeros() / TAG_WIDTH;
                let shift = at * TAG_WIDTH;
                let was = (now >> shift) as u16;
                group.ids[word * TAGS_PER_WORD + at as usize].store(id, Ordering::Relaxed);
                set_tag(tags, shift, tag.0);
                self.live.store(self.live.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                if was == EMPTY {
                    self.used.store(self.used.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                }
                return;
            }
        }
        unreachable!("a shard that is not full has a free slot");
    }

    /// Removes an id from the shard. Writer only.
    pub(crate) fn remove(&self, hash: u64, id: u32) {
        let tag = Tag::from_hash(hash);
        let pattern = ONES * u64::from(tag.0);
        for group in self.path(tag) {
            let tags = group.tags.each_ref().map(|tags| tags.load(Ordering::Relaxed));
            let has_empty = tags.iter().any(|tags| zero_tags(*tags) != 0);
            for (word, tags) in tags.into_iter().enumerate() {
                let mut hits = zero_tags(tags ^ pattern);
                while hits != 0 {
                    let at = hits.trailing_zeros() / TAG_WIDTH;
                    if group.ids[word * TAGS_PER_WORD + at as usize].load(Ordering::Relaxed) == id {
                        set_tag(
                            &group.tags[word],
                            at * TAG_WIDTH,
                            if has_empty { EMPTY } else { TOMBSTONE },
                        );
                        self.live.store(self.live.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
                        if has_empty {
                            let used = self.used.load(Ordering::Relaxed);
                            self.used.store(used - 1, Ordering::Relaxed);
                        }
                        return;
                    }
                    hits &= hits - 1;
                }
            }
            if has_empty {
                break;
            }
        }
        debug_assert!(false, "id {id} is not in its shard");
    }

    /// Returns all ids. Writer only.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        self.tagged_ids().map(|(_, id)| id)
    }

    /// Returns all ids with the tags that place them. Writer only.
    pub(crate) fn tagged_ids(&self) -> impl Iterator<Item = (Tag, u32)> {
        self.groups.iter().flat_map(|group| {
            group.ids.iter().enumerate().filter_map(|(at, id)| {
                let tags = group.tags[at / TAGS_PER_WORD].load(Ordering::Relaxed);
                let tag = (tags >> (at % TAGS_PER_WORD * TAG_WIDTH as usize)) as u16;
                (tag & OCCUPIED != 0).then(|| (Tag(tag), id.load(Ordering::Relaxed)))
            })
        })
    }

    /// Returns the groups in the order in which a lookup of this tag visits them, each once.
    fn path(&self, tag: Tag) -> impl Iterator<Item = &Group> {
        let first = (usize::from(tag.0 & !OCCUPIED) * self.groups.len()) >> TAG_BITS;
        let (before, from) = self.groups.split_at(first);
        from.iter().chain(before)
    }
}

impl Tag {
    /// Takes bits from the middle of a hash: the highest choose the shard.
    pub(crate) fn from_hash(hash: u64) -> Self {
        Self(OCCUPIED | (hash >> 8) as u16)
    }
}

/// Sets one tag. A reader that sees the tag also sees all earlier writes.
fn set_tag(tags: &AtomicU64, shift: u32, tag: u16) {
    let others = tags.load(Ordering::Relaxed) & !(0xffff << shift);
    tags.store(others | u64::from(tag) << shift, Ordering::Release);
}

/// Returns the high bit of every tag that is zero. Above a zero tag it may name one that is 1 as well.
fn zero_tags(tags: u64) -> u64 {
    tags.wrapping_sub(ONES) & !tags & HIGHS
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns one of eight hashes, so that tags and groups collide all the time.
    fn crowded_hash(id: u32) -> u64 {
        let hash = u64::from(id % 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ hash >> 29
    }

    #[test]
    fn inserted_ids_are_found_and_removed_ones_are_not() {
        let shard = HashShard::with_capacity(100);
        let mut model = BTreeMap::new();
        let mut random = 1_u64;
        for _ in 0..100_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let id = (random >> 33) as u32 % 90;
            if model.remove(&id).is_some() {
                shard.remove(crowded_hash(id), id);
            } else if !shard.is_full() {
                shard.insert(Tag::from_hash(crowded_hash(id)), id);
                model.insert(id, ());
            }
            assert_eq!(shard.len(), model.len());
            let probe = (random >> 40) as u32 % 90;
            let found = shard.find(crowded_hash(probe), |id| id == probe);
            assert_eq!(found.is_some(), model.contains_key(&probe));
        }
        let mut ids: Vec<u32> = shard.ids().collect();
        ids.sort_unstable();
        assert_eq!(ids, model.into_keys().collect::<Vec<_>>());
    }

    #[test]
    fn zero_capacity_finds_nothing() {
        let shard = HashShard::with_capacity(0);
        assert!(shard.is_full());
        assert_eq!(shard.find(7, |_| true), None);
        let shard = HashShard::with_capacity(1);
        (0..15).for_each(|id| shard.insert(Tag::from_hash(0), id));
        assert!(shard.is_full());
        assert_eq!(shard.find(0, |id| id == 99), None);
    }
}

/// Every interleaving of one writer and a reader: `RUSTFLAGS="--cfg loom" cargo test -p address`.
#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn an_id_that_stays_is_found_while_others_come_and_go() {
        loom::model(|| {
            let shard = Arc::new(HashShard::with_capacity(20));
            // The first group is full; 15 is in the second.
            (0..16).for_each(|id| shard.insert(Tag::from_hash(0), id));
            shard.insert(Tag::from_hash(0), 99);
            let reader = {
                let shard = Arc::clone(&shard);
                thread::spawn(move || shard.find(0, |id| id == 99))
            };
            shard.remove(0, 3);
            shard.insert(Tag::from_hash(0), 50);
            assert_eq!(reader.join().ok(), Some(Some(99)));
        });
    }

    #[test]
    fn a_reader_that_sees_an_id_sees_its_address() {
        loom::model(|| {
            let shard = Arc::new(HashShard::with_capacity(1));
            let address = Arc::new(AtomicU64::new(0));
            let reader = {
                let shard = Arc::clone(&shard);
                let address = Arc::clone(&address);
                thread::spawn(move || shard.find(7, |_| address.load(Ordering::Relaxed) == 5))
            };
            address.store(5, Ordering::Relaxed);
            shard.insert(Tag::from_hash(7), 1);
            // Found, or not inserted yet; never with another address.
            assert!(matches!(reader.join().ok(), Some(None | Some(1))));
            assert_eq!(shard.find(7, |_| address.load(Ordering::Relaxed) == 5), Some(1));
        });
    }
}
