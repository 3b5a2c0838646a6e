//! The writer's side: entries come at once and go when no reader's snapshot needs them.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::HashMap;
use ledger::{AddressId, Key};

use crate::large::{LARGE_MIN, Large};
use crate::postings::{ID_MAX, Postings, Set};
use crate::slabs::{self, BLOCK_MAX};

/// Entries that [`Index::settle_a_little`] lets go of at least, if so many wait: a few
/// microseconds.
const SETTLED_MIN: usize = 16;

/// The records by key, as the writer sees them: an entry that only old snapshots need is gone.
pub struct Index {
    postings: Arc<Postings>,
    slabs: slabs::Books,
    large: LargePlaces,
    /// Entries that go once the epoch is over, the oldest first; each is in here at most once.
    waiting: VecDeque<(u64, Key, AddressId)>,
    /// What became of those meanwhile.
    removed: HashMap<(Key, AddressId), Removed>,
    /// How many of a key's entries are removed and still there.
    removed_of: HashMap<Key, usize>,
    removed_since_settled: usize,
    keys: usize,
    entries: usize,
}

/// An entry that waits to go.
struct Removed {
    /// The epoch at which it was removed last.
    known_until: u64,
    /// Whether it was put in again since then.
    is_back: bool,
}

/// The places of large sets.
#[derive(Default)]
struct LargePlaces {
    /// How many were ever in use at once.
    len: u32,
    free: Vec<u32>,
}

impl Index {
    /// An index with nothing in it, for keys and records among `limit` addresses. `seed` keys the
    /// hash of key ids.
    ///
    /// Memory: about 100 KiB, and 24 KiB and up to 16 bytes for every 1,024 of `limit` for each facet
    /// that is used.
    pub fn new(limit: u32, seed: u64) -> Self {
        Self {
            postings: Arc::new(Postings::new(limit, seed)),
            slabs: slabs::Books::new(),
            large: LargePlaces::default(),
            waiting: VecDeque::new(),
            removed: HashMap::default(),
            removed_of: HashMap::default(),
            removed_since_settled: 0,
            keys: 0,
            entries: 0,
        }
    }

    /// What readers read: it shows every change at once.
    pub fn postings(&self) -> &Arc<Postings> {
        &self.postings
    }

    /// Makes `record` found by `key`; false if it was already.
    pub fn insert(&mut self, key: Key, record: AddressId) -> bool {
        let comes_back = match self.removed.get_mut(&(key, record)) {
            Some(removed) => !std::mem::replace(&mut removed.is_back, true),
            None => false,
        };
        if comes_back {
            self.uncount_removed(key);
        } else if !self.put(key, record) {
            return false;
        }
        self.entries += 1;
        self.keys += usize::from(self.len_of(key) == 1);
        true
    }

    /// Makes `record` no longer found by `key`; false if it was not. Readers whose snapshot was
    /// published in epoch `known_until` or before still find it.
    pub fn remove(&mut self, key: Key, record: AddressId, known_until: u64) -> bool {
        match self.removed.get_mut(&(key, record)) {
            Some(removed) if !removed.is_back => return false,
            Some(removed) => *removed = Removed { known_until, is_back: false },
            None if !self.postings.contains(key, record) => return false,
            None => {
                self.removed.insert((key, record), Removed { known_until, is_back: false });
                self.waiting.push_back((known_until, key, record));
            }
        }
        *self.removed_of.entry(key).or_default() += 1;
        self.removed_since_settled += 1;
        self.entries -= 1;
        self.keys -= usize::from(self.len_of(key) == 0);
        true
    }

    /// Lets go of what only readers of epochs before `oldest_held` needed: all of it.
    pub fn settle(&mut self, oldest_held: u64) {
        self.settle_some(oldest_held, usize::MAX);
    }

    /// As [`Self::settle`], but at most about twice as much as was removed since the last time: it
    /// keeps up, and a long scan that ends does not make one write pay for all that waited for it.
    pub fn settle_a_little(&mut self, oldest_held: u64) {
        let at_most = SETTLED_MIN + 2 * self.removed_since_settled + self.waiting.len() / 64;
        self.settle_some(oldest_held, at_most);
    }

    fn settle_some(&mut self, oldest_held: u64, at_most: usize) {
        self.removed_since_settled = 0;
        for _ in 0..at_most {
            let Some((until, key, record)) = self.waiting.front().copied() else { return };
            if until >= oldest_held {
                return;
            }
            self.waiting.pop_front();
            match self.removed.get(&(key, record)) {
                Some(removed) if !removed.is_back && removed.known_until >= oldest_held => {
                    // Put in and removed again since it was queued.
                    self.waiting.push_back((removed.known_until, key, record));
                    continue;
                }
                Some(removed) if !removed.is_back => {
                    self.uncount_removed(key);
                    self.take(key, record);
                }
                _ => {}
            }
            self.removed.remove(&(key, record));
        }
    }

    /// How many records are found by `key`.
    pub fn len_of(&self, key: Key) -> usize {
        self.postings.len_of(key) - self.removed_of.get(&key).copied().unwrap_or(0)
    }

    /// How many keys find something.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// How many entries all keys have together.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether no key finds anything.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// How many entries were removed while a snapshot may need them, those that came back included.
    pub fn waiting(&self) -> usize {
        self.removed.len()
    }

    fn uncount_removed(&mut self, key: Key) {
        if let Some(count) = self.removed_of.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.removed_of.remove(&key);
            }
        }
    }

    /// Puts an entry into the set of its key; false if it is there.
    fn put(&mut self, key: Key, record: AddressId) -> bool {
        assert!(key.id.0 <= ID_MAX, "key id {} is above {ID_MAX}", key.id.0);
        let postings = Arc::clone(&self.postings);
        let words = postings.words(key.facet);
        let place = words.lay_out(key.id.0);
        let mut ids = [0; BLOCK_MAX + 1];
        let (len, old) = match place.word().map(Set::from_word) {
            None => {
                words.set(place, Set::One(record.0).to_word());
                return true;
            }
            Some(Set::Large(at)) => {
                return postings.large(at).is_some_and(|large| large.insert(record.0));
            }
            Some(Set::One(other)) => {
                ids[0] = other;
                (1, None)
            }
            Some(Set::Block(offset)) => {
                let mut block = [0; BLOCK_MAX];
                let len = postings.slabs().read(offset, &mut block);
                ids[..len].copy_from_slice(&block[..len]);
                (len, Some(offset))
            }
        };
        let Err(at) = ids[..len].binary_search(&record.0) else { return false };
        ids.copy_within(at..len, at + 1);
        ids[at] = record.0;
        let set = self.make(&ids[..=len]);
        words.set(place, set.to_word());
        place.changed();
        if let Some(offset) = old {
            postings.slabs().free(&mut self.slabs, offset);
        }
        true
    }

    /// Takes an entry, which is there, out of the set of its key.
    fn take(&mut self, key: Key, record: AddressId) {
        let postings = Arc::clone(&self.postings);
        let words = postings.words(key.facet);
        let place = words.lay_out(key.id.0);
        let mut ids = [0; BLOCK_MAX];
        match place.word().map(Set::from_word) {
            None => {}
            Some(Set::One(_)) => place.remove(),
            Some(Set::Block(offset)) => {
                let len = postings.slabs().read(offset, &mut ids);
                let Ok(at) = ids[..len].binary_search(&record.0) else { return };
                ids.copy_within(at + 1..len, at);
                let set = self.make(&ids[..len - 1]);
                words.set(place, set.to_word());
                place.changed();
                postings.slabs().free(&mut self.slabs, offset);
            }
            Some(Set::Large(at)) => {
                let Some(large) = postings.large(at) else { return };
                large.remove(record.0);
                if large.len() >= LARGE_MIN {
                    return;
                }
                let mut few = Vec::with_capacity(LARGE_MIN);
                large.read(0, LARGE_MIN, &mut few);
                let set = self.make(&few);
                words.set(place, set.to_word());
                place.changed();
                postings.set_large(at, None);
                self.large.free.push(at);
            }
        }
    }

    /// A set of these ids, which no key leads to yet.
    fn make(&mut self, ids: &[u32]) -> Set {
        match ids {
            [one] => Set::One(*one),
            ids if ids.len() <= BLOCK_MAX => {
                Set::Block(self.postings.slabs().put(&mut self.slabs, ids))
            }
            ids => {
                let at = self.large.free.pop().unwrap_or_else(|| {
                    self.large.len += 1; // bounded by `Chunks`
                    self.large.len - 1
                });
                self.postings.set_large(at, Some(Arc::new(Large::new(ids))));
                Set::Large(at)
            }
        }
    }
}

/// Every interleaving of the writer and a reader:
/// `RUSTFLAGS="--cfg loom" cargo test -p index --lib loom`.
#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use ledger::Facet;
    use loom::thread;

    use super::*;

    fn key(id: u32) -> Key {
        Key { facet: Facet(0), id: AddressId(id) }
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
