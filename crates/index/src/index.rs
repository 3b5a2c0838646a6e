//! The writer's side: entries are inserted at once and removed when no reader's snapshot needs them.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::HashMap;
use ledger::{AddressId, Key};

use crate::large_set::{LARGE_MIN, LargeSet};
use crate::postings::{ID_MAX, Postings, SetRef};
use crate::small_sets::{self, BLOCK_MAX};

/// Minimum entries that [`Index::reclaim_some`] removes, if that many are queued: a few
/// microseconds.
const RECLAIMED_MIN: usize = 16;

/// The records by key, as the writer sees them: without entries that only old snapshots need.
///
/// ```
/// use index::Index;
/// use ledger::{AddressId, Key, KeyKind};
///
/// let mut index = Index::new(1_000, 0x5eed);
/// let owner = Key { kind: KeyKind(0), id: AddressId(9) };
/// for record in [5, 3, 800] {
///     index.insert(owner, AddressId(record));
/// }
/// let found: Vec<AddressId> = index.postings().records(owner).collect();
/// assert_eq!(found, [3, 5, 800].map(AddressId));
///
/// // Readers with snapshots from epoch 4 or before still find an entry that is removed now.
/// index.remove(owner, AddressId(5), 4);
/// assert!(index.postings().contains(owner, AddressId(5)));
/// index.reclaim(5);
/// assert!(!index.postings().contains(owner, AddressId(5)));
/// ```
pub struct Index {
    postings: Arc<Postings>,
    slab_allocator: small_sets::SlabAllocator,
    large_set_allocator: LargeSetAllocator,
    /// Entries to remove once the epoch is over, the oldest first; each is queued at most once.
    reclaim_queue: VecDeque<(u64, Key, AddressId)>,
    /// The present state of the queued entries.
    retired: HashMap<(Key, AddressId), RetiredEntry>,
    /// Number of retired entries of a key that are still in its set.
    retired_by_key: HashMap<Key, usize>,
    retired_since_reclaim: usize,
    keys: usize,
    entries: usize,
}

/// An entry that is queued for removal.
struct RetiredEntry {
    /// The epoch in which it was removed last.
    known_until: u64,
    /// Whether it was inserted again since then.
    is_back: bool,
}

/// Allocates indices of large sets.
#[derive(Default)]
struct LargeSetAllocator {
    /// Maximum number of sets that were in use at once.
    len: u32,
    free: Vec<u32>,
}

impl Index {
    /// Creates an empty index, for keys and records among `limit` addresses. `seed` keys the
    /// hash of key ids.
    ///
    /// Memory: about 100 KiB, and 24 KiB and up to 16 bytes for every 1,024 of `limit` for each key kind
    /// that is used.
    pub fn new(limit: u32, seed: u64) -> Self {
        Self {
            postings: Arc::new(Postings::new(limit, seed)),
            slab_allocator: small_sets::SlabAllocator::new(),
            large_set_allocator: LargeSetAllocator::default(),
            reclaim_queue: VecDeque::new(),
            retired: HashMap::default(),
            retired_by_key: HashMap::default(),
            retired_since_reclaim: 0,
            keys: 0,
            entries: 0,
        }
    }

    /// Returns the readers' side. It shows every change at once.
    pub fn postings(&self) -> &Arc<Postings> {
        &self.postings
    }

    /// Inserts `record` under `key`; false if it was there.
    pub fn insert(&mut self, key: Key, record: AddressId) -> bool {
        let comes_back = match self.retired.get_mut(&(key, record)) {
            Some(removed) => !std::mem::replace(&mut removed.is_back, true),
            None => false,
        };
        let len = if comes_back {
            self.uncount_retired(key);
            self.postings.count_entries(key)
        } else {
            let Some(len) = self.insert_entry(key, record) else { return false };
            len
        };
        let retired = self.retired_by_key.get(&key).copied().unwrap_or(0);
        self.entries += 1;
        self.keys += usize::from(len - retired == 1);
        true
    }

    /// Removes `record` from `key`; false if it was not there. Readers with snapshots that were
    /// published in epoch `known_until` or before still find it.
    pub fn remove(&mut self, key: Key, record: AddressId, known_until: u64) -> bool {
        match self.retired.get_mut(&(key, record)) {
            Some(removed) if !removed.is_back => return false,
            Some(removed) => *removed = RetiredEntry { known_until, is_back: false },
            None if !self.postings.contains(key, record) => return false,
            None => {
                self.retired.insert((key, record), RetiredEntry { known_until, is_back: false });
                self.reclaim_queue.push_back((known_until, key, record));
            }
        }
        *self.retired_by_key.entry(key).or_default() += 1;
        self.retired_since_reclaim += 1;
        self.entries -= 1;
        self.keys -= usize::from(self.count_entries(key) == 0);
        true
    }

    /// Removes all entries that only readers of epochs before `oldest_pinned` needed.
    pub fn reclaim(&mut self, oldest_pinned: u64) {
        self.reclaim_up_to(oldest_pinned, usize::MAX);
    }

    /// Removes entries as [`Self::reclaim`] does, but at most about twice as many as were removed since the last
    /// call. So the queue does not grow, and when a long scan ends, one write does not pay for all entries that
    /// waited for it.
    pub fn reclaim_some(&mut self, oldest_pinned: u64) {
        let at_most =
            RECLAIMED_MIN + 2 * self.retired_since_reclaim + self.reclaim_queue.len() / 64;
        self.reclaim_up_to(oldest_pinned, at_most);
    }

    fn reclaim_up_to(&mut self, oldest_pinned: u64, at_most: usize) {
        self.retired_since_reclaim = 0;
        for _ in 0..at_most {
            let Some((until, key, record)) = self.reclaim_queue.front().copied() else { return };
            if until >= oldest_pinned {
                return;
            }
            self.reclaim_queue.pop_front();
            match self.retired.get(&(key, record)) {
                Some(removed) if !removed.is_back && removed.known_until >= oldest_pinned => {
                    // Inserted and removed again since it was queued.
                    self.reclaim_queue.push_back((removed.known_until, key, record));
                    continue;
                }
                Some(removed) if !removed.is_back => {
                    self.uncount_retired(key);
                    self.remove_entry(key, record);
                }
                _ => {}
            }
            self.retired.remove(&(key, record));
        }
    }

    /// Returns the number of records under `key`.
    pub fn count_entries(&self, key: Key) -> usize {
        self.postings.count_entries(key) - self.retired_by_key.get(&key).copied().unwrap_or(0)
    }

    /// Returns the number of keys that have a record.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Returns the number of entries of all keys.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Returns whether no key has a record.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns the number of entries that were removed while a snapshot may need them, including those that were
    /// inserted again.
    pub fn pending_reclaim(&self) -> usize {
        self.retired.len()
    }

    fn uncount_retired(&mut self, key: Key) {
        if let Some(count) = self.retired_by_key.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.retired_by_key.remove(&key);
            }
        }
    }

    /// Inserts an entry into the set of its key. Returns the number of entries of the set; `None` if it is there.
    fn insert_entry(&mut self, key: Key, record: AddressId) -> Option<usize> {
        assert!(key.id.0 <= ID_MAX, "key id {} is above {ID_MAX}", key.id.0);
        let postings = Arc::clone(&self.postings);
        let table = postings.key_table(key.kind);
        let entry = table.allocate_entry(key.id.0);
        let mut ids = [0; BLOCK_MAX + 1];
        let word = table.word_or_insert(entry, SetRef::One(record.0).to_word());
        let (len, old) = match word.map(SetRef::from_word) {
            None => return Some(1),
            Some(SetRef::Large(at)) => {
                let large = postings.large_set(at)?;
                return large.insert(record.0).then(|| large.len());
            }
            Some(SetRef::One(other)) => {
                ids[0] = other;
                (1, None)
            }
            Some(SetRef::Block(offset)) => {
                let mut block = [0; BLOCK_MAX];
                let len = postings.small_sets().read(offset, &mut block);
                ids[..len].copy_from_slice(&block[..len]);
                (len, Some(offset))
            }
        };
        let Err(at) = ids[..len].binary_search(&record.0) else { return None };
        ids.copy_within(at..len, at + 1);
        ids[at] = record.0;
        let set = self.store_set(&ids[..=len]);
        table.set(entry, set.to_word());
        entry.mark_changed();
        if let Some(offset) = old {
            postings.small_sets().free(&mut self.slab_allocator, offset);
        }
        Some(len + 1)
    }

    /// Removes an entry, which must be there, from the set of its key.
    fn remove_entry(&mut self, key: Key, record: AddressId) {
        let postings = Arc::clone(&self.postings);
        let table = postings.key_table(key.kind);
        let entry = table.allocate_entry(key.id.0);
        let mut ids = [0; BLOCK_MAX];
        match entry.word().map(SetRef::from_word) {
            None => {}
            Some(SetRef::One(_)) => entry.remove(),
            Some(SetRef::Block(offset)) => {
                let len = postings.small_sets().read(offset, &mut ids);
                let Ok(at) = ids[..len].binary_search(&record.0) else { return };
                ids.copy_within(at + 1..len, at);
                let set = self.store_set(&ids[..len - 1]);
                table.set(entry, set.to_word());
                entry.mark_changed();
                postings.small_sets().free(&mut self.slab_allocator, offset);
            }
            Some(SetRef::Large(at)) => {
                let Some(large) = postings.large_set(at) else { return };
                large.remove(record.0);
                if large.len() >= LARGE_MIN {
                    return;
                }
                let mut few = Vec::with_capacity(LARGE_MIN);
                large.read(0, LARGE_MIN, &mut few);
                let set = self.store_set(&few);
                table.set(entry, set.to_word());
                entry.mark_changed();
                postings.set_large_set(at, None);
                self.large_set_allocator.free.push(at);
            }
        }
    }

    /// Stores a new set of these ids. No key refers to it yet.
    fn store_set(&mut self, ids: &[u32]) -> SetRef {
        match ids {
            [one] => SetRef::One(*one),
            ids if ids.len() <= BLOCK_MAX => {
                SetRef::Block(self.postings.small_sets().put(&mut self.slab_allocator, ids))
            }
            ids => {
                let at = self.large_set_allocator.free.pop().unwrap_or_else(|| {
                    self.large_set_allocator.len += 1; // bounded by `ChunkedArray`
                    self.large_set_allocator.len - 1
                });
                self.postings.set_large_set(at, Some(Arc::new(LargeSet::new(ids))));
                SetRef::Large(at)
            }
        }
    }
}

/// Every interleaving of the writer and a reader:
/// `RUSTFLAGS="--cfg loom" cargo test -p index --lib loom`.
#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use ledger::KeyKind;
    use loom::thread;

    use super::*;

    fn key(id: u32) -> Key {
        Key { kind: KeyKind(0), id: AddressId(id) }
    }

    #[test]
    fn a_reader_never_sees_what_its_block_is_used_for_next() {
        loom::model(|| {
            let mut index = Index::new(1, 7);
            for (of, record) in [(1, 11), (1, 12), (2, 21)] {
                index.insert(key(of), AddressId(record));
            }
            let postings = Arc::clone(index.postings());
            let reader =
                thread::spawn(move || postings.records(key(1)).map(|id| id.0).collect::<Vec<_>>());
            // The block of 11 and 12 is freed, and taken for 21 and 22.
            index.insert(key(1), AddressId(13));
            index.insert(key(2), AddressId(22));
            let read = reader.join().unwrap_or_default();
            assert!(read == [11, 12] || read == [11, 12, 13], "{read:?}");
        });
    }
}
