//! The readers' side of the index, and the references from words to sets.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use ledger::{AddressId, Key, KeyKind};

use crate::chunked_array::ChunkedArray;
use crate::key_table::{KeyEntry, KeyTable};
use crate::large_set::LargeSet;
use crate::small_sets::{BLOCK_MAX, SmallSets};

/// The largest id of a key or a record: a word needs one bit for its tag.
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

/// The usage of the keys of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyKindUsage {
    /// Number of keys that have a record.
    pub keys: usize,
    /// Number of their entries, including those that only old readers need.
    pub entries: usize,
    /// The heap bytes of keys and entries.
    pub bytes: usize,
}

/// The set that a word refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetRef {
    One(u32),
    /// A block of 2 to [`BLOCK_MAX`] records.
    Block(u32),
    /// Index of a large set.
    Large(u32),
}

/// A copy of a set, or a handle on it.
enum SetSnapshot {
    /// Number of ids that were copied.
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
            Self::Large(index) => (3, index),
        };
        tag << TAG_BITS | low // below 2^30: the bounds of small and large sets
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

    /// Returns the records under `key`, sorted by id, each once: every record that has an entry from
    /// the call to the end of the iteration, and possibly some that are inserted or removed meanwhile.
    ///
    /// Cost: a lookup; a large set is copied in batches of about a thousand.
    pub fn records(&self, key: Key) -> Records {
        self.records_from(key, AddressId(0))
    }

    /// Returns the [`Self::records`] from the id `first` on.
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

    /// Returns the number of entries of `key` now, including those that only old snapshots need. Cost: a lookup.
    pub fn count_entries(&self, key: Key) -> usize {
        let Some(entry) = self.key_entry(key) else { return 0 };
        loop {
            let version = entry.version();
            let len = match entry.word().map(SetRef::from_word) {
                None => 0,
                Some(SetRef::One(_)) => 1,
                Some(SetRef::Block(offset)) => self.small_sets.block_len(offset),
                Some(SetRef::Large(at)) => self.large_set(at).map_or(0, |large| large.len()),
            };
            if entry.is_unchanged_since(version) {
                return len;
            }
        }
    }

    /// Returns whether `record` is under `key` now, or an old snapshot needs it to be.
    pub fn contains(&self, key: Key, record: AddressId) -> bool {
        let mut few = [0; BLOCK_MAX];
        match self.find(key, &mut few) {
            SetSnapshot::Few(len) => few[..len].contains(&record.0),
            SetSnapshot::Large(large) => large.contains(record.0),
        }
    }

    /// Returns the heap bytes of all sets, approximately. Cost: O(bytes / 1,024); for reports.
    pub fn bytes(&self) -> usize {
        let tables = self.key_tables.iter().filter_map(OnceLock::get).map(KeyTable::bytes);
        let large = self.large_sets.iter().filter_map(|large| Some(large.load_full()?.bytes()));
        let key_tables = size_of_val(&*self.key_tables) + tables.sum::<usize>();
        key_tables + self.small_sets.bytes() + self.large_sets.bytes() + large.sum::<usize>()
    }

    /// Returns the usage of the keys of one kind. Gaps between blocks and the memory
    /// that all kinds share are only in [`Self::bytes`]. Approximate while the writer runs. Cost:
    /// O(keys); for reports.
    pub fn key_kind_usage(&self, kind: KeyKind) -> KeyKindUsage {
        let Some(table) = self.key_tables[usize::from(kind.0)].get() else {
            return KeyKindUsage::default();
        };
        let mut usage = KeyKindUsage { bytes: table.bytes(), ..KeyKindUsage::default() };
        for word in table.words() {
            let (entries, bytes) = match SetRef::from_word(word) {
                SetRef::One(_) => (1, 0),
                SetRef::Block(offset) => {
                    let len = self.small_sets.block_len(offset);
                    (len, len * size_of::<u32>())
                }
                SetRef::Large(index) => {
                    let large = self.large_sets.get(index).and_then(ArcSwapOption::load_full);
                    large.map_or((0, 0), |large| (large.len(), large.bytes()))
                }
            };
            usage.keys += 1;
            usage.entries += entries;
            usage.bytes += bytes;
        }
        usage
    }

    /// Returns the set of a key, copied if it is small. If the key's shard changes meanwhile,
    /// it is read again.
    fn find(&self, key: Key, few: &mut [u32; BLOCK_MAX]) -> SetSnapshot {
        let Some(entry) = self.key_entry(key) else { return SetSnapshot::Few(0) };
        loop {
            let version = entry.version();
            let found = match entry.word().map(SetRef::from_word) {
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
            if entry.is_unchanged_since(version) {
                return found;
            }
        }
    }

    fn key_entry(&self, key: Key) -> Option<KeyEntry<'_>> {
        self.key_tables[usize::from(key.kind.0)].get()?.entry(key.id.0)
    }

    /// Returns the table of a key kind, created if necessary. Writer only.
    pub(crate) fn key_table(&self, kind: KeyKind) -> &KeyTable {
        self.key_tables[usize::from(kind.0)]
            .get_or_init(|| KeyTable::new(self.limit, self.seed ^ u64::from(kind.0) << 32))
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
    /// A large set, and the first id that has not been read yet.
    remaining: Option<(Arc<LargeSet>, u32)>,
}

impl Records {
    /// Returns the next records, about a thousand at a time: for callers that process many
    /// at once faster.
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
