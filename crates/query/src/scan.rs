//! Scans in parts, for callers that yield in between: ids first, each record when it is
//! needed.
//!
//! An id means the same record as long as one [`View`] lives, and only there.

use std::sync::Arc;

use ledger::{Address, AddressId, KeyKind, Record};

use crate::View;

impl<R: Record, M> View<R, M> {
    /// Visits the next `visits_max` records that have all of `keys`, by id, from `first` on.
    /// A record is unpacked only when `visit` calls its argument. Returns the id to continue
    /// with; `None` if there are no more.
    pub fn scan(
        &self,
        keys: &[(KeyKind, Address)],
        first: AddressId,
        visits_max: usize,
        mut visit: impl FnMut(AddressId, &dyn Fn() -> Arc<R>),
    ) -> Option<AddressId> {
        let keys = self.resolve_keys(keys)?;
        let mut ids = self.candidates(keys.narrowest, first);
        let visited = ids.by_ref().take(visits_max);
        for (id, version) in self.read_batched(visited, |version| keys.matches(version)) {
            if let Some(version) = version {
                visit(id, &|| version.record(self.address_resolver()));
            }
        }
        ids.next()
    }

    /// Returns the address of an id that [`Self::scan`] returned on this view.
    pub fn address(&self, id: AddressId) -> Option<Address> {
        self.published.addresses.address(id)
    }

    /// Returns the records of `ids`, which [`Self::scan`] returned on this view, in their order. They are read
    /// in batches, so that their loads from memory overlap.
    pub fn records<'a>(
        &'a self,
        ids: impl Iterator<Item = AddressId> + 'a,
    ) -> impl Iterator<Item = (Address, Arc<R>)> + 'a {
        let found = self.read_batched(ids, |_| true);
        found.filter_map(|(id, version)| self.resolve_record(id, &version?))
    }
}

#[cfg(test)]
mod tests {
    use ledger::{BlockId, Change, Commitment};

    use super::*;
    use crate::{Ledger, LedgerConfig, LedgerError};

    const ROOT: BlockId = BlockId { slot: 0, version: 0 };
    const KEY_KIND: KeyKind = KeyKind(0);

    struct Owned;

    impl Record for Owned {
        fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
            key(KEY_KIND, Address::from([255; 32]));
        }
    }

    #[test]
    fn scans_with_any_length_find_the_same_records() -> Result<(), LedgerError> {
        for count in [0_u8, 1, 3, 200] {
            let (mut ledger, reader) = Ledger::new(LedgerConfig::new(1_000), ROOT, Arc::new(()));
            let address = |n| Address::from([n; 32]);
            let change = |n| Change { address: address(n), record: Some(Arc::new(Owned)) };
            ledger.apply(ROOT, (0..count).map(change).collect(), Arc::new(()))?;
            ledger.publish();
            let view = reader.view(Commitment::Finalized);
            let keys = [(KEY_KIND, address(255))];
            for visits_max in [1, 2, 199, 200, 1_000] {
                let mut found = Vec::new();
                let mut next = Some(AddressId(0));
                while let Some(first) = next {
                    next = view.scan(&keys, first, visits_max, |id, _| found.push(id));
                }
                let found: Vec<_> = view.records(found.into_iter()).map(|it| it.0).collect();
                let all: Vec<_> =
                    view.records_by_key(KEY_KIND, &address(255)).map(|it| it.0).collect();
                assert_eq!(found, all);
                assert_eq!(found.len(), usize::from(count));
            }
        }
        Ok(())
    }
}
