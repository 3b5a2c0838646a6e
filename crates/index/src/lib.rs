//! The secondary indices: from a key to the records that are found by it.
//!
//! Shape: [`Index`] maps a [`Key`] (facet and address id) to a sorted set of record ids. A copy costs
//! a pointer and shares everything: it is the snapshot that readers hold.
//! Bounds: one entry per key of a kept version; the address table bounds both sides.
//! Not here: when an entry comes and goes (`query`, which knows the versions), what a facet means.
#![forbid(unsafe_code)]

use imbl::{OrdMap, OrdSet};
use ledger::{AddressId, Key};

/// The records by key.
#[derive(Clone, Default)]
pub struct Index {
    postings: OrdMap<Key, Posting>,
    entries: usize,
}

/// The records of one key. Most keys have one: it needs no set.
#[derive(Clone)]
enum Posting {
    One(AddressId),
    Many(OrdSet<AddressId>),
}

impl Index {
    /// An index with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes `record` found by `key`; false if it was already.
    pub fn insert(&mut self, key: Key, record: AddressId) -> bool {
        let is_new = match self.postings.get_mut(&key) {
            None => self.postings.insert(key, Posting::One(record)).is_none(),
            Some(Posting::Many(records)) => records.insert(record).is_none(),
            Some(Posting::One(other)) if *other == record => false,
            Some(one @ Posting::One(_)) => {
                let Posting::One(other) = *one else { return false }; // matched above
                *one = Posting::Many(OrdSet::from_iter([other, record]));
                true
            }
        };
        self.entries += usize::from(is_new);
        is_new
    }

    /// Makes `record` no longer found by `key`; false if it was not.
    pub fn remove(&mut self, key: Key, record: AddressId) -> bool {
        let was_there = match self.postings.get_mut(&key) {
            None => false,
            Some(Posting::One(other)) => *other == record && self.postings.remove(&key).is_some(),
            Some(posting @ Posting::Many(_)) => {
                let Posting::Many(records) = posting else { return false }; // matched above
                let was_there = records.remove(&record).is_some();
                if records.len() == 1
                    && let Some(last) = records.get_min()
                {
                    *posting = Posting::One(*last);
                }
                was_there
            }
        };
        self.entries -= usize::from(was_there);
        was_there
    }

    /// The records found by `key`, sorted by id. Nothing is copied.
    pub fn records(&self, key: Key) -> impl Iterator<Item = AddressId> {
        let (one, many) = match self.postings.get(&key) {
            None => (None, None),
            Some(Posting::One(record)) => (Some(*record), None),
            Some(Posting::Many(records)) => (None, Some(records)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }

    /// The same, from the record `first` on. Cost: a look-up.
    pub fn records_from(&self, key: Key, first: AddressId) -> impl Iterator<Item = AddressId> {
        let (one, many) = match self.postings.get(&key) {
            None => (None, None),
            Some(Posting::One(record)) => (Some(*record).filter(|only| *only >= first), None),
            Some(Posting::Many(records)) => (None, Some(records.range(first..).copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// How many records are found by `key`. O(log keys).
    pub fn len_of(&self, key: Key) -> usize {
        match self.postings.get(&key) {
            None => 0,
            Some(Posting::One(_)) => 1,
            Some(Posting::Many(records)) => records.len(),
        }
    }

    /// How many keys find something.
    pub fn keys(&self) -> usize {
        self.postings.len()
    }

    /// How many entries all keys have together.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether no key finds anything.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }
}

#[cfg(test)]
mod tests {
    use ledger::Facet;

    use super::*;

    fn key(id: u32) -> Key {
        Key { facet: Facet(1), id: AddressId(id) }
    }

    fn records(index: &Index, key: Key) -> Vec<u32> {
        index.records(key).map(|id| id.0).collect()
    }

    #[test]
    fn records_come_sorted_whatever_the_order_of_inserts() {
        let mut index = Index::new();
        for record in [7, 3, 200, 5, 3] {
            index.insert(key(1), AddressId(record));
        }
        assert_eq!(records(&index, key(1)), [3, 5, 7, 200]);
        assert_eq!((index.len_of(key(1)), index.len(), index.keys()), (4, 4, 1));
    }

    #[test]
    fn records_may_be_read_from_the_middle() {
        let mut index = Index::new();
        for record in [7, 3, 200, 5] {
            index.insert(key(1), AddressId(record));
        }
        index.insert(key(2), AddressId(9));
        let from = |of, first| -> Vec<u32> {
            index.records_from(key(of), AddressId(first)).map(|id| id.0).collect()
        };
        assert_eq!((from(1, 0), from(1, 5)), (vec![3, 5, 7, 200], vec![5, 7, 200]));
        assert_eq!((from(1, 8), from(1, 201)), (vec![200], vec![]));
        assert_eq!((from(2, 9), from(2, 10), from(3, 0)), (vec![9], vec![], vec![]));
    }

    #[test]
    fn keys_differ_by_facet_and_by_id() {
        let mut index = Index::new();
        let other = Key { facet: Facet(2), id: AddressId(1) };
        assert!(index.insert(key(1), AddressId(10)));
        assert!(index.insert(other, AddressId(11)));
        assert_eq!(records(&index, key(1)), [10]);
        assert_eq!(records(&index, other), [11]);
        assert_eq!(records(&index, key(2)), []);
    }

    #[test]
    fn inserting_and_removing_tell_whether_anything_changed() {
        let mut index = Index::new();
        assert!(!index.remove(key(1), AddressId(10)));
        assert!(index.insert(key(1), AddressId(10)));
        assert!(!index.insert(key(1), AddressId(10)));
        assert!(!index.remove(key(1), AddressId(11)));
        assert!(index.insert(key(1), AddressId(11)));
        assert!(!index.insert(key(1), AddressId(10)));
        assert!(!index.remove(key(1), AddressId(12)));
        assert!(index.remove(key(1), AddressId(10)));
        assert_eq!(records(&index, key(1)), [11]);
        assert!(index.remove(key(1), AddressId(11)));
        assert_eq!((index.is_empty(), index.keys()), (true, 0));
    }

    #[test]
    fn a_copy_keeps_what_it_had() {
        let mut index = Index::new();
        for record in 0..1_000 {
            index.insert(key(record % 3), AddressId(record));
        }
        let copy = index.clone();
        for record in 0..1_000 {
            index.remove(key(record % 3), AddressId(record));
        }
        assert!(index.is_empty());
        assert_eq!(copy.len(), 1_000);
        assert_eq!(records(&copy, key(2)).len(), 333);
        assert_eq!(records(&copy, key(0)).first_chunk(), Some(&[0, 3, 6]));
    }
}
