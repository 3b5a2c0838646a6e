//! One shard of the table from hash to id: groups of 16 slots, each a tag byte and an id.
//!
//! Shape: a lookup starts in the group that the hash names and continues with the next while groups are
//! full. Slots hold no key: the caller compares the address of the id.
//! Bounds: at most 15 of 16 slots are used, so every search ends. A full shard does not grow: its ids are inserted
//! into a larger one, which replaces it.
//! Invariant: a group that was full once is never seen with an empty slot again (a removal
//! leaves a tombstone). So a search that passes it misses no id that was inserted behind it.
//! Invariant: one thread changes slots; others may search meanwhile. A search finds an id that is in the shard
//! throughout.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

const GROUP_LEN: usize = 16;
const EMPTY: u8 = 0;
const TOMBSTONE: u8 = 1;
/// Set in the tag of every slot that holds an id.
const OCCUPIED: u8 = 0x80;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;

/// A shard of the hash table. It has a fixed size.
pub(crate) struct HashShard {
    groups: Box<[Group]>,
    /// Slots with an id. For the writer.
    live: AtomicU32,
    /// Slots with an id or a tombstone. For the writer.
    used: AtomicU32,
}

struct Group {
    tags: [AtomicU64; 2],
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
    #[cfg(all(test, not(loom)))]
    pub(crate) fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed) as usize
    }

    /// Returns the heap size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.groups)
    }

    /// Returns the id with this hash for which `is_it` holds.
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let pattern = ONES * u64::from(tag(hash));
        for group in self.path(hash) {
            let mut has_empty = false;
            for (half, tags) in group.tags.iter().enumerate() {
                // Pairs with the release in `set_tag`: the tag's id, and its address, are visible.
                let tags = tags.load(Ordering::Acquire);
                let mut hits = zero_bytes(tags ^ pattern);
                while hits != 0 {
                    let at = half * 8 + hits.trailing_zeros() as usize / 8;
                    let id = group.ids[at].load(Ordering::Relaxed);
                    if is_it(id) {
                        return Some(id);
                    }
                    hits &= hits - 1;
                }
                has_empty |= zero_bytes(tags) != 0;
            }
            if has_empty {
                return None;
            }
        }
        None
    }

    /// Inserts an id that is not in the shard. The shard must not be full. Writer only.
    pub(crate) fn insert(&self, hash: u64, id: u32) {
        debug_assert!(!self.is_full());
        for group in self.path(hash) {
            for (half, tags) in group.tags.iter().enumerate() {
                let now = tags.load(Ordering::Relaxed);
                let free = !now & HIGHS;
                if free == 0 {
                    continue;
                }
                let at = free.trailing_zeros() / 8;
                let shift = at * 8;
                let was = (now >> shift) as u8;
                group.ids[half * 8 + at as usize].store(id, Ordering::Relaxed);
                set_tag(tags, shift, tag(hash));
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
        let pattern = ONES * u64::from(tag(hash));
        for group in self.path(hash) {
            let tags = group.tags.each_ref().map(|tags| tags.load(Ordering::Relaxed));
            let has_empty = tags.iter().any(|tags| zero_bytes(*tags) != 0);
            for (half, tags) in tags.into_iter().enumerate() {
                let mut hits = zero_bytes(tags ^ pattern);
                while hits != 0 {
                    let at = hits.trailing_zeros() / 8;
                    if group.ids[half * 8 + at as usize].load(Ordering::Relaxed) == id {
                        set_tag(
                            &group.tags[half],
                            at * 8,
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
        self.groups.iter().flat_map(|group| {
            group.ids.iter().enumerate().filter_map(|(at, id)| {
                let tags = group.tags[at / 8].load(Ordering::Relaxed);
                let is_occupied = (tags >> (at % 8 * 8)) as u8 & OCCUPIED != 0;
                is_occupied.then(|| id.load(Ordering::Relaxed))
            })
        })
    }

    /// Returns the groups in the order in which a lookup of this hash visits them, each once.
    fn path(&self, hash: u64) -> impl Iterator<Item = &Group> {
        // The middle bits: the highest choose the shard, the lowest are the tag.
        let first = (((hash >> 8) & 0xffff_ffff) * self.groups.len() as u64) >> 32;
        let (before, from) = self.groups.split_at(first as usize);
        from.iter().chain(before)
    }
}

fn tag(hash: u64) -> u8 {
    OCCUPIED | hash as u8
}

/// Sets one tag. A reader that sees the tag also sees all earlier writes.
fn set_tag(tags: &AtomicU64, shift: u32, tag: u8) {
    let others = tags.load(Ordering::Relaxed) & !(0xff << shift);
    tags.store(others | u64::from(tag) << shift, Ordering::Release);
}

/// Returns the high bit of every byte that is zero. Above a zero byte it may name one that is 1 as well.
fn zero_bytes(bytes: u64) -> u64 {
    bytes.wrapping_sub(ONES) & !bytes & HIGHS
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
                shard.insert(crowded_hash(id), id);
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
        (0..15).for_each(|id| shard.insert(0, id));
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
            (0..16).for_each(|id| shard.insert(0, id));
            shard.insert(0, 99);
            let reader = {
                let shard = Arc::clone(&shard);
                thread::spawn(move || shard.find(0, |id| id == 99))
            };
            shard.remove(0, 3);
            shard.insert(0, 50);
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
            shard.insert(7, 1);
            // Found, or not inserted yet; never with another address.
            assert!(matches!(reader.join().ok(), Some(None | Some(1))));
            assert_eq!(shard.find(7, |_| address.load(Ordering::Relaxed) == 5), Some(1));
        });
    }
}
