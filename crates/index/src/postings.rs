//! What readers see of the index, and how a word tells where a set is.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use ledger::{AddressId, Key, KeyKind};

use crate::chunked_array::ChunkedArray;
use crate::key_table::{KeyEntry, KeyTable};
use crate::large_set::LargeSet;
use crate::small_sets::{BLOCK_MAX, SmallSets};

/// The largest id of a key or a record: a word needs a bit for itself.
pub const ID_MAX: u32 = (1 << 31) - 1;

/// Records copied at a time from a large set.
const BATCH_LEN: usize = 1024;
const TAG_BITS: u32 = 30;

/// The sets of all keys, shared by the writer and all readers.
pub struct Postings {
    key_tables: Box<[OnceLock<KeyTable>]>,
    small_sets: SmallSets,
    large_sets: ChunkedArray<ArcSwapOption<LargeSet>>,
    limit: u32,
    seed: u64,
}

/// What a facet's keys come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyKindUsage {
    /// Keys by which something is found.
    pub keys: usize,
    /// Entries under them, those included that only old readers still need.
    pub entries: usize,
    /// The heap bytes of both.
    pub bytes: usize,
}

/// Where a word leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetRef {
    /// The only record.
    One(u32),
    /// A block of 2 to [`BLOCK_MAX`] records.
    Block(u32),
    /// A large set, by its place.
    Large(u32),
}

/// A set as it was found.
enum SetSnapshot {
    /// So many ids were copied.
    Few(usize),
    Large(Arc<LargeSet>),
}

impl SetRef {
    pub(crate) fn from_word(word: u32) -> Self {
        let low = word & ((1 << TAG_BITS) - 1);
        match word >> TAG_BITS {
            0 | 1 => Self::One(word),
            2 => Self::Block(low),
            _ => Self::Large(low),
        }
    }

    pub(crate) fn to_word(self) -> u32 {
        let (tag, low) = match self {
            Self::One(record) => {
                assert!(record <= ID_MAX, "record id {record} is above {ID_MAX}");
                return record;
            }
            Self::Block(offset) => (2, offset),
            Self::Large(place) => (3, place),
        };
        tag << TAG_BITS | low // below 2^30: the bounds of slabs and large sets
    }
}

impl Postings {
    pub(crate) fn new(limit: u32, seed: u64) -> Self {
        Self {
            key_tables: (0..=usize::from(u8::MAX)).map(|_| OnceLock::new()).collect(),
            small_sets: SmallSets::new(),
            large_sets: ChunkedArray::new(4096),
            limit,
            seed,
        }
    }

    /// The records found by `key`, sorted by id, each once: every one whose entry is there from the
    /// moment of the call to the end of the iteration, and perhaps some that come or go meanwhile.
    ///
    /// Cost: a look-up; a large set is copied in batches of about a thousand.
    pub fn records(&self, key: Key) -> Records {
        self.records_from(key, AddressId(0))
    }

    /// The same, from the id `first` on.
    pub fn records_from(&self, key: Key, first: AddressId) -> Records {
        let mut few = [0; BLOCK_MAX];
        match self.find(key, &mut few) {
            SetSnapshot::Few(len) => {
                let ids = &few[..len];
                let at = ids.partition_point(|id| *id < first.0);
                Records { ids: ids[at..].to_vec(), at: 0, remaining: None }
            }
            SetSnapshot::Large(large) => {
                Records { ids: Vec::new(), at: 0, remaining: Some((large, first.0)) }
            }
        }
    }

    /// How many entries `key` has now, with those that only old snapshots need. Cost: a look-up.
    pub fn len_of(&self, key: Key) -> usize {
        let Some(place) = self.key_entry(key) else { return 0 };
        loop {
            let version = place.version();
            let len = match place.word().map(SetRef::from_word) {
                None => 0,
                Some(SetRef::One(_)) => 1,
                Some(SetRef::Block(offset)) => self.small_sets.block_len(offset),
                Some(SetRef::Large(at)) => self.large_set(at).map_or(0, |large| large.len()),
            };
            if place.is_unchanged_since(version) {
                return len;
            }
        }
    }

    /// Whether `record` is found by `key` now, or an old snapshot needs it to be.
    pub fn contains(&self, key: Key, record: AddressId) -> bool {
        let mut few = [0; BLOCK_MAX];
        match self.find(key, &mut few) {
            SetSnapshot::Few(len) => few[..len].contains(&record.0),
            SetSnapshot::Large(large) => large.contains(record.0),
        }
    }

    /// The heap bytes of all sets, about. Cost: O(bytes / 1,024); for reports.
    pub fn bytes(&self) -> usize {
        let words = self.key_tables.iter().filter_map(OnceLock::get).map(KeyTable::bytes);
        let large = self.large_sets.iter().filter_map(|large| Some(large.load_full()?.bytes()));
        let facets = size_of_val(&*self.key_tables) + words.sum::<usize>();
        facets + self.small_sets.bytes() + self.large_sets.bytes() + large.sum::<usize>()
    }

    /// What the keys of one facet take, and how much is under them. Room between blocks and the books
    /// that all facets share are in [`Self::bytes`] alone. While the writer goes on, about. Cost:
    /// O(keys); for reports.
    pub fn usage_of(&self, facet: KeyKind) -> KeyKindUsage {
        let Some(words) = self.key_tables[usize::from(facet.0)].get() else {
            return KeyKindUsage::default();
        };
        let mut usage = KeyKindUsage { bytes: words.bytes(), ..KeyKindUsage::default() };
        for word in words.words() {
            let (entries, bytes) = match SetRef::from_word(word) {
                SetRef::One(_) => (1, 0),
                SetRef::Block(offset) => {
                    let len = self.small_sets.block_len(offset);
                    (len, len * size_of::<u32>())
                }
                SetRef::Large(place) => {
                    let large = self.large_sets.get(place).and_then(ArcSwapOption::load_full);
                    large.map_or((0, 0), |large| (large.len(), large.bytes()))
                }
            };
            usage.keys += 1;
            usage.entries += entries;
            usage.bytes += bytes;
        }
        usage
    }

    /// The set of a key, copied if it is small. A reader that is overtaken by a change in the key's
    /// shard reads again.
    fn find(&self, key: Key, few: &mut [u32; BLOCK_MAX]) -> SetSnapshot {
        let Some(place) = self.key_entry(key) else { return SetSnapshot::Few(0) };
        loop {
            let version = place.version();
            let found = match place.word().map(SetRef::from_word) {
                None => return SetSnapshot::Few(0),
                Some(SetRef::One(record)) => {
                    few[0] = record;
                    return SetSnapshot::Few(1);
                }
                Some(SetRef::Block(offset)) => SetSnapshot::Few(self.small_sets.read(offset, few)),
                Some(SetRef::Large(at)) => {
                    self.large_set(at).map_or(SetSnapshot::Few(0), SetSnapshot::Large)
                }
            };
            if place.is_unchanged_since(version) {
                return found;
            }
        }
    }

    fn key_entry(&self, key: Key) -> Option<KeyEntry<'_>> {
        self.key_tables[usize::from(key.kind.0)].get()?.entry(key.id.0)
    }

    /// The table of a facet, made if it is not there. Writer only.
    pub(crate) fn key_table(&self, facet: KeyKind) -> &KeyTable {
        self.key_tables[usize::from(facet.0)]
            .get_or_init(|| KeyTable::new(self.limit, self.seed ^ u64::from(facet.0) << 32))
    }

    pub(crate) fn small_sets(&self) -> &SmallSets {
        &self.small_sets
    }

    pub(crate) fn large_set(&self, at: u32) -> Option<Arc<LargeSet>> {
        self.large_sets.get(at)?.load_full()
    }

    /// Sets or clears a large set. Writer only.
    pub(crate) fn set_large_set(&self, at: u32, large: Option<Arc<LargeSet>>) {
        self.large_sets.allocate(at, ArcSwapOption::empty).store(large);
    }
}

/// The records of one key, sorted by id. Made by [`Postings::records`].
pub struct Records {
    ids: Vec<u32>,
    at: usize,
    /// A large set, and from which id on it is still to be read.
    remaining: Option<(Arc<LargeSet>, u32)>,
}

impl Records {
    /// The next of them, about a thousand at a time: for who does the same with each, which is
    /// quicker on many at once.
    pub fn batch(&mut self) -> Option<impl ExactSizeIterator<Item = AddressId> + '_> {
        if self.at == self.ids.len() {
            self.read_more()?;
        }
        let from = std::mem::replace(&mut self.at, self.ids.len());
        Some(self.ids[from..].iter().map(|id| AddressId(*id)))
    }

    /// Copies the next ids of a large set.
    fn read_more(&mut self) -> Option<()> {
        let (large, from) = self.remaining.take()?;
        self.ids.clear();
        self.at = 0;
        let next = large.read(from, BATCH_LEN, &mut self.ids);
        self.remaining = next.map(|from| (large, from));
        Some(())
    }
}

impl Iterator for Records {
    type Item = AddressId;

    fn next(&mut self) -> Option<AddressId> {
        if self.at == self.ids.len() {
            self.read_more()?;
        }
        let id = *self.ids.get(self.at)?;
        self.at += 1;
        Some(AddressId(id))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_set_survives_its_word() {
        let sets = [
            SetRef::One(0),
            SetRef::One(ID_MAX),
            SetRef::Block(0),
            SetRef::Block(5),
            SetRef::Large(7),
        ];
        for set in sets {
            assert_eq!(SetRef::from_word(set.to_word()), set);
        }
    }
}
