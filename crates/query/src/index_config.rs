//! The keys that have index entries: each key kind is on or off, with lists of keys to include or to
//! exclude.
//!
//! An excluded key costs no entries, and its records are found by a larger scan: over the entries
//! of another key, or over every record. A record knows all of its keys either way, so results are the
//! same. The caller decides whether to serve a request at that cost ([`crate::View::index_coverage`]).
//! Bounds: the length of the configured lists.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use address::AddressTable;
use ledger::{Address, Key, KeyKind};

/// Configuration of the index entries of a ledger. Default: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexConfig {
    /// Filters by kind. A kind without a filter is on, for all keys.
    key_kinds: BTreeMap<KeyKind, IndexKeyFilter>,
    /// Keys that have entries whatever the filter of their kind is.
    always: BTreeSet<(KeyKind, Address)>,
}

/// The keys of a kind that have entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IndexKeyFilter {
    /// Every key has entries.
    #[default]
    All,
    /// No key has entries: the index is off.
    Off,
    /// Only these. Memory: about 60 bytes per key, once for all kinds that share the set.
    Only(Arc<HashSet<Address>>),
    /// All keys except these have entries.
    AllBut(Arc<HashSet<Address>>),
}

/// Whether the index covers a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexCoverage {
    /// The index has entries of all its records.
    Covered,
    /// The index of its kind is off.
    Off,
    /// The index of its kind is on, and the key is excluded from it.
    Excluded,
}

impl IndexConfig {
    /// Sets the filter of the keys of `kind`.
    #[must_use]
    pub fn with(mut self, kind: KeyKind, keys: IndexKeyFilter) -> Self {
        match keys {
            IndexKeyFilter::All => self.key_kinds.remove(&kind),
            keys => self.key_kinds.insert(kind, keys),
        };
        self
    }

    /// Adds entries for a key that the node itself needs, whatever the filter of its kind is. [`Self::coverage`] does
    /// not change.
    #[must_use]
    pub fn with_own(mut self, kind: KeyKind, key: Address) -> Self {
        self.always.insert((kind, key));
        self
    }

    /// Returns the coverage of a key, as requests see it.
    pub fn coverage(&self, kind: KeyKind, key: &Address) -> IndexCoverage {
        let is_covered = match self.key_kinds.get(&kind) {
            None | Some(IndexKeyFilter::All) => true,
            Some(IndexKeyFilter::Off) => return IndexCoverage::Off,
            Some(IndexKeyFilter::Only(keys)) => keys.contains(key),
            Some(IndexKeyFilter::AllBut(keys)) => !keys.contains(key),
        };
        if is_covered { IndexCoverage::Covered } else { IndexCoverage::Excluded }
    }

    /// Returns whether the index has entries for a key.
    pub fn has_entries(&self, kind: KeyKind, key: &Address) -> bool {
        self.coverage(kind, key) == IndexCoverage::Covered || self.always.contains(&(kind, *key))
    }

    /// Returns [`Self::has_entries`] for a key by its id. Its address must be referenced. Cost: nothing for a kind that
    /// includes all keys.
    pub(crate) fn has_entries_for_id(&self, key: Key, addresses: &AddressTable) -> bool {
        let is_whole = matches!(self.key_kinds.get(&key.kind), None | Some(IndexKeyFilter::All));
        is_whole
            || addresses.address(key.id).is_some_and(|address| self.has_entries(key.kind, &address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_covered_or_excluded_or_its_kind_is_off() {
        let program = KeyKind(0);
        let owner = KeyKind(1);
        let other = KeyKind(2);
        let key = |n| Address::from([n; 32]);
        let list = Arc::new(HashSet::from([key(1)]));
        let config = IndexConfig::default()
            .with(program, IndexKeyFilter::Only(Arc::clone(&list)))
            .with(owner, IndexKeyFilter::AllBut(list))
            .with(other, IndexKeyFilter::Off);
        let coverage = |kind| [1, 2].map(|n| config.coverage(kind, &key(n)));
        assert_eq!(coverage(program), [IndexCoverage::Covered, IndexCoverage::Excluded]);
        assert_eq!(coverage(owner), [IndexCoverage::Excluded, IndexCoverage::Covered]);
        assert_eq!(coverage(other), [IndexCoverage::Off; 2]);
        assert_eq!(coverage(KeyKind(3)), [IndexCoverage::Covered; 2]);
        let with_own = config.clone().with_own(other, key(2));
        assert_eq!([1, 2].map(|n| with_own.has_entries(other, &key(n))), [false, true]);
        assert_eq!(with_own.coverage(other, &key(2)), IndexCoverage::Off);
        assert_eq!(
            config.with(other, IndexKeyFilter::All).coverage(other, &key(1)),
            IndexCoverage::Covered
        );
    }
}
