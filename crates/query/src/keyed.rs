//! Records that are found by several keys at once.

use std::sync::Arc;

use ledger::{Address, AddressId, Facet, Key, Record};
use state::Seen;

use crate::View;

/// Several keys, as numbers.
pub(crate) struct Keys {
    /// The one that the fewest records are found by.
    pub(crate) narrowest: Key,
    all: Vec<Key>,
}

impl<R: Record, M> View<R, M> {
    /// The records that are found by each of `keys`, by id; none if there is no key.
    ///
    /// Cost: O(records found by the key of the fewest); one that another key does not find is left
    /// out by its number, without a look at the record.
    pub fn keyed_by_all(
        &self,
        keys: &[(Facet, Address)],
    ) -> impl Iterator<Item = (Address, Arc<R>)> + use<'_, R, M> {
        self.keys(keys).into_iter().flat_map(move |keys| {
            let ids = self.published.postings.records(keys.narrowest);
            ids.filter_map(move |id| {
                let version = self.found(id, &keys)?;
                self.answer(id, &version)
            })
        })
    }

    /// How many records [`Self::keyed_by_all`] looks at, at most. Cost: two look-ups a key.
    pub fn keyed_by_all_len(&self, keys: &[(Facet, Address)]) -> usize {
        self.keys(keys).map_or(0, |keys| self.published.postings.len_of(keys.narrowest))
    }

    /// The keys as numbers; `None` if there is none, or one that nothing is found by.
    pub(crate) fn keys(&self, keys: &[(Facet, Address)]) -> Option<Keys> {
        let all: Option<Vec<Key>> = keys.iter().map(|(facet, key)| self.key(*facet, key)).collect();
        let all = all?;
        let narrowest = *all.iter().min_by_key(|key| self.published.postings.len_of(**key))?;
        Some(Keys { narrowest, all })
    }

    /// What this block sees under `id`, if every key finds it there.
    pub(crate) fn found(&self, id: AddressId, keys: &Keys) -> Option<Seen<'_, R>> {
        let found = self.snapshot().version(id)?;
        keys.all.iter().all(|key| found.has_key(*key)).then_some(found)
    }
}
