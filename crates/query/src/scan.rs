//! Scans in parts, for callers that yield in between: ids first, each record when it is
//! needed.
//!
//! An id means the same record as long as one [`View`] lives, and only there.

use std::sync::Arc;

use ledger::{Address, AddressId, KeyKind, Record, Slot};

use crate::View;

/// A record and the slot of the block that wrote it.
#[derive(Clone, Debug)]
pub struct WrittenRecord<R> {
    /// The address of the record.
    pub address: Address,
    /// The slot of its last write. A ledger that was loaded in bulk has the slot of its root.
    pub slot: Slot,
    /// The record.
    pub record: Arc<R>,
}

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

    /// Returns the ids from `first` on that may have a record in this block, in order.
    pub fn ids_from(&self, first: AddressId) -> impl Iterator<Item = AddressId> + use<'_, R, M> {
        self.snapshot().ids_from(first)
    }

    /// Returns the records of `ids`, which this view returned, in their order, each with the slot of its last write. An id
    /// without a record in this block is skipped. They are read in batches, as in [`Self::records`].
    pub fn written_records<'a>(
        &'a self,
        ids: impl Iterator<Item = AddressId> + 'a,
    ) -> impl Iterator<Item = WrittenRecord<R>> + 'a {
        let found = self.read_batched(ids, |_| true);
        found.filter_map(|(id, version)| {
            let version = version?;
            let slot = version.slot();
            let (address, record) = self.resolve_record(id, &version)?;
            Some(WrittenRecord { address, slot, record })
        })
    }

    /// Returns the address of an id that [`Self::scan`] or [`Self::ids_from`] returned on this view.
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

    #[test]
    fn a_written_record_has_the_slot_of_its_last_write() -> Result<(), LedgerError> {
        let (mut ledger, reader) = Ledger::new(LedgerConfig::new(1_000), ROOT, Arc::new(()));
        let change = |n, record| Change { address: Address::from([n; 32]), record };
        let write = |n| change(n, Some(Arc::new(Owned)));
        ledger.apply(ROOT, (0..100).map(write).collect(), Arc::new(()))?;
        let block = BlockId { slot: 7, version: 1 };
        ledger.open(block, ROOT, Arc::new(()))?;
        ledger.apply(block, vec![write(5), change(6, None), write(200)], Arc::new(()))?;
        ledger.complete(block, Arc::new(()))?;
        ledger.set_tip(block)?;
        ledger.confirm(block)?;
        ledger.finalize(block)?;
        ledger.publish();
        let view = reader.view(Commitment::Finalized);
        let found: Vec<_> = view.written_records(view.ids_from(AddressId(0))).collect();
        assert_eq!(found.len(), 100);
        for written in found {
            let is_late = [5, 200].map(|n| Address::from([n; 32])).contains(&written.address);
            assert_eq!(written.slot, if is_late { 7 } else { 0 }, "{:?}", written.address);
        }
        Ok(())
    }
}
