//! Which keys the index has entries for: each facet on or off, with lists of keys to keep or to leave
//! out.
//!
//! What is left out costs no entry, and what it would find is found by looking at more: at the entries
//! of another key, or at every record. A record knows all of its keys either way, so answers are the
//! same. Who must not be served at that cost, the caller decides ([`crate::View::index_coverage`]).
//! Bounds: none of its own; a list is as long as whoever configures it makes it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use address::AddressTable;
use ledger::{Address, Key, KeyKind};

/// Which index entries a ledger keeps. By default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexConfig {
    /// A facet that is not here is on, for all keys.
    key_kinds: BTreeMap<KeyKind, IndexKeyFilter>,
    /// Kept whatever is said of their facet.
    always: BTreeSet<(KeyKind, Address)>,
}

/// For which keys of a facet entries are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IndexKeyFilter {
    /// For every key.
    #[default]
    All,
    /// For none: the index is off.
    Off,
    /// For these alone. Memory: about 60 bytes a key, once for all facets that share them.
    Only(Arc<HashSet<Address>>),
    /// For all but these.
    AllBut(Arc<HashSet<Address>>),
}

/// What the index says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexCoverage {
    /// Its records are found by its entries.
    Covered,
    /// There is no index of its facet.
    Off,
    /// There is one, and this key was left out of it.
    Excluded,
}

impl IndexConfig {
    /// The same, with other keys kept of `facet`.
    #[must_use]
    pub fn with(mut self, facet: KeyKind, keys: IndexKeyFilter) -> Self {
        match keys {
            IndexKeyFilter::All => self.key_kinds.remove(&facet),
            keys => self.key_kinds.insert(facet, keys),
        };
        self
    }

    /// The same, with entries for a key that the node itself needs, whatever is said of its facet.
    /// [`Self::coverage`] says what it would say without.
    #[must_use]
    pub fn with_own(mut self, facet: KeyKind, key: Address) -> Self {
        self.always.insert((facet, key));
        self
    }

    /// What others are told of a key.
    pub fn coverage(&self, facet: KeyKind, key: &Address) -> IndexCoverage {
        let is_kept = match self.key_kinds.get(&facet) {
            None | Some(IndexKeyFilter::All) => true,
            Some(IndexKeyFilter::Off) => return IndexCoverage::Off,
            Some(IndexKeyFilter::Only(keys)) => keys.contains(key),
            Some(IndexKeyFilter::AllBut(keys)) => !keys.contains(key),
        };
        if is_kept { IndexCoverage::Covered } else { IndexCoverage::Excluded }
    }

    /// Whether there are entries for a key.
    pub fn has_entries(&self, facet: KeyKind, key: &Address) -> bool {
        self.coverage(facet, key) == IndexCoverage::Covered || self.always.contains(&(facet, *key))
    }

    /// The same of a key in numbers, whose address somebody counts on. Cost: nothing for a facet of
    /// which all is kept.
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
    fn a_key_is_covered_excluded_or_of_a_kind_that_is_off() {
        let (program, owner, other) = (KeyKind(0), KeyKind(1), KeyKind(2));
        let key = |n| Address::from([n; 32]);
        let list = Arc::new(HashSet::from([key(1)]));
        let indices = IndexConfig::default()
            .with(program, IndexKeyFilter::Only(Arc::clone(&list)))
            .with(owner, IndexKeyFilter::AllBut(list))
            .with(other, IndexKeyFilter::Off);
        let says = |facet| [1, 2].map(|n| indices.coverage(facet, &key(n)));
        assert_eq!(says(program), [IndexCoverage::Covered, IndexCoverage::Excluded]);
        assert_eq!(says(owner), [IndexCoverage::Excluded, IndexCoverage::Covered]);
        assert_eq!(says(other), [IndexCoverage::Off; 2]);
        assert_eq!(says(KeyKind(3)), [IndexCoverage::Covered; 2]);
        let with_own = indices.clone().with_own(other, key(2));
        assert_eq!([1, 2].map(|n| with_own.has_entries(other, &key(n))), [false, true]);
        assert_eq!(with_own.coverage(other, &key(2)), IndexCoverage::Off);
        assert_eq!(
            indices.with(other, IndexKeyFilter::All).coverage(other, &key(1)),
            IndexCoverage::Covered
        );
    }
}
