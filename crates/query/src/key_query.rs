//! Records that are found by several keys at once.

use std::sync::Arc;

use ledger::{Address, AddressId, Key, KeyKind, Record};
use state::VisibleVersion;

use crate::View;

/// Several keys of a query, by id.
pub(crate) struct ResolvedKeys {
    /// The key with the fewest entries, among those that have entries. If it is `None`, every record
    /// must be scanned.
    pub(crate) narrowest: Option<Key>,
    all: Vec<Key>,
}

impl<R: Record, M> View<R, M> {
    /// Returns the records that are found by each of `keys`, by id; an empty list if `keys` is empty.
    ///
    /// Cost: O(records of the key with the fewest). A record that another key excludes is skipped
    /// by its id, and not read. O(all records) if the index has entries for
    /// none of the keys.
    pub fn records_by_keys(
        &self,
        keys: &[(KeyKind, Address)],
    ) -> impl Iterator<Item = (Address, Arc<R>)> + use<'_, R, M> {
        self.resolve_keys(keys).into_iter().flat_map(move |keys| {
            let ids = self.candidates(keys.narrowest, AddressId(0));
            let versions = self.read_batched(ids, move |version| keys.matches(version));
            versions.filter_map(|(id, version)| self.resolve_record(id, &version?))
        })
    }

    /// Returns the maximum records that [`Self::records_by_keys`] scans. Cost: two lookups per key.
    pub fn records_by_keys_len(&self, keys: &[(KeyKind, Address)]) -> usize {
        self.resolve_keys(keys).map_or(0, |keys| self.candidates_len(keys.narrowest))
    }

    /// Returns the keys by id; `None` if `keys` is empty, or one of them has no id.
    pub(crate) fn resolve_keys(&self, keys: &[(KeyKind, Address)]) -> Option<ResolvedKeys> {
        let all: Option<Vec<Key>> =
            keys.iter().map(|(kind, key)| self.resolve_key(*kind, key)).collect();
        let all = all.filter(|all| !all.is_empty())?;
        let with_entries = all.iter().filter_map(|key| self.entries(*key));
        let narrowest = with_entries.min_by_key(|key| self.published.postings.count_entries(*key));
        Some(ResolvedKeys { narrowest, all })
    }

    /// Returns the key, if the index has entries for it.
    pub(crate) fn entries(&self, key: Key) -> Option<Key> {
        self.published.indices.has_entries_for_id(key, &self.published.addresses).then_some(key)
    }

    /// Returns the ids from `first` on that may have a key: those of its entries, or without a key all.
    pub(crate) fn candidates(
        &self,
        key: Option<Key>,
        first: AddressId,
    ) -> impl Iterator<Item = AddressId> + use<'_, R, M> {
        let entries = key.map(|key| self.published.postings.records_from(key, first));
        let all = key.is_none().then(|| self.snapshot().ids_from(first));
        entries.into_iter().flatten().chain(all.into_iter().flatten())
    }

    /// Returns the maximum number of [`Self::candidates`].
    pub(crate) fn candidates_len(&self, key: Option<Key>) -> usize {
        key.map_or_else(|| self.len(), |key| self.published.postings.count_entries(key))
    }
}

impl ResolvedKeys {
    /// Returns whether a version has all of the keys.
    pub(crate) fn matches<R>(&self, version: &VisibleVersion<'_, R>) -> bool {
        self.all.iter().all(|key| version.has_key(*key))
    }
}
