//! Which keys the index has entries for: each facet on or off, with lists of keys to keep or to leave
//! out.
//!
//! What is left out costs no entry, and what it would find is found by looking at more: at the entries
//! of another key, or at every record. A record knows all of its keys either way, so answers are the
//! same. Who must not be served at that cost, the caller decides ([`crate::View::indexed`]).
//! Bounds: none of its own; a list is as long as whoever configures it makes it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use address::AddressTable;
use ledger::{Address, Facet, Key};

/// Which index entries a ledger keeps. By default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indices {
    /// A facet that is not here is on, for all keys.
    facets: BTreeMap<Facet, IndexKeys>,
    /// Kept whatever is said of their facet.
    always: BTreeSet<(Facet, Address)>,
}

/// For which keys of a facet entries are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IndexKeys {
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
pub enum Indexed {
    /// Its records are found by its entries.
    Kept,
    /// There is no index of its facet.
    Off,
    /// There is one, and this key was left out of it.
    Excluded,
}

impl Indices {
    /// The same, with other keys kept of `facet`.
    #[must_use]
    pub fn with(mut self, facet: Facet, keys: IndexKeys) -> Self {
        match keys {
            IndexKeys::All => self.facets.remove(&facet),
            keys => self.facets.insert(facet, keys),
        };
        self
    }

    /// The same, with entries for a key that the node itself needs, whatever is said of its facet.
    /// [`Self::indexed`] says what it would say without.
    #[must_use]
    pub fn with_own(mut self, facet: Facet, key: Address) -> Self {
        self.always.insert((facet, key));
        self
    }

    /// What others are told of a key.
    pub fn indexed(&self, facet: Facet, key: &Address) -> Indexed {
        let is_kept = match self.facets.get(&facet) {
            None | Some(IndexKeys::All) => true,
            Some(IndexKeys::Off) => return Indexed::Off,
            Some(IndexKeys::Only(keys)) => keys.contains(key),
            Some(IndexKeys::AllBut(keys)) => !keys.contains(key),
        };
        if is_kept { Indexed::Kept } else { Indexed::Excluded }
    }

    /// Whether there are entries for a key.
    pub fn keeps(&self, facet: Facet, key: &Address) -> bool {
        self.indexed(facet, key) == Indexed::Kept || self.always.contains(&(facet, *key))
    }

    /// The same of a key in numbers, whose address somebody counts on. Cost: nothing for a facet of
    /// which all is kept.
    pub(crate) fn keeps_id(&self, key: Key, addresses: &AddressTable) -> bool {
        let is_whole = matches!(self.facets.get(&key.facet), None | Some(IndexKeys::All));
        is_whole || addresses.address(key.id).is_some_and(|address| self.keeps(key.facet, &address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_left_out_or_of_a_facet_that_is_off() {
        let (program, owner, other) = (Facet(0), Facet(1), Facet(2));
        let key = |n| Address::from([n; 32]);
        let list = Arc::new(HashSet::from([key(1)]));
        let indices = Indices::default()
            .with(program, IndexKeys::Only(Arc::clone(&list)))
            .with(owner, IndexKeys::AllBut(list))
            .with(other, IndexKeys::Off);
        let says = |facet| [1, 2].map(|n| indices.indexed(facet, &key(n)));
        assert_eq!(says(program), [Indexed::Kept, Indexed::Excluded]);
        assert_eq!(says(owner), [Indexed::Excluded, Indexed::Kept]);
        assert_eq!(says(other), [Indexed::Off; 2]);
        assert_eq!(says(Facet(3)), [Indexed::Kept; 2]);
        let with_own = indices.clone().with_own(other, key(2));
        assert_eq!([1, 2].map(|n| with_own.keeps(other, &key(n))), [false, true]);
        assert_eq!(with_own.indexed(other, &key(2)), Indexed::Off);
        assert_eq!(indices.with(other, IndexKeys::All).indexed(other, &key(1)), Indexed::Kept);
    }
}
