//! Lists step by step, for whoever gives way to others in between: ids first, each record when it is
//! its turn.
//!
//! An id means the same record for as long as one [`View`] is held, and only there.

use std::sync::Arc;

use ledger::{Address, AddressId, Facet, Record};

use crate::View;

impl<R: Record, M> View<R, M> {
    /// Looks at the next `visits_max` records of those that each of `keys` finds, by id, from `first` on.
    /// A record is made of what the state keeps only when `visit` asks for it. Gives the id to go on
    /// with; `None` if there are no more.
    pub fn visit(
        &self,
        keys: &[(Facet, Address)],
        first: AddressId,
        visits_max: usize,
        mut visit: impl FnMut(AddressId, &dyn Fn() -> Arc<R>),
    ) -> Option<AddressId> {
        let keys = self.keys(keys)?;
        let mut ids = self.candidates(keys.narrowest, first);
        let looked_at = ids.by_ref().take(visits_max);
        for (id, version) in self.read_each(looked_at, |version| keys.find(version)) {
            if let Some(version) = version {
                visit(id, &|| version.record(self.resolve()));
            }
        }
        ids.next()
    }

    /// The address of an id that [`Self::visit`] gave of this view.
    pub fn address_of(&self, id: AddressId) -> Option<Address> {
        self.published.addresses.address(id)
    }

    /// What stands under an id that [`Self::visit`] gave of this view.
    pub fn record_of(&self, id: AddressId) -> Option<(Address, Arc<R>)> {
        self.answer(id, &self.snapshot().version(id)?)
    }
}

#[cfg(test)]
mod tests {
    use ledger::{BlockId, Change, Commitment};

    use super::*;
    use crate::{Ledger, LedgerConfig, LedgerError};

    const ROOT: BlockId = BlockId { slot: 0, bank: 0 };
    const FACET: Facet = Facet(0);

    struct Owned;

    impl Record for Owned {
        fn keys(&self, key: &mut dyn FnMut(Facet, Address)) {
            key(FACET, Address::from([255; 32]));
        }
    }

    #[test]
    fn steps_of_any_length_find_what_one_step_finds() -> Result<(), LedgerError> {
        for count in [0_u8, 1, 3, 200] {
            let (mut ledger, reader) = Ledger::new(LedgerConfig::new(1_000), ROOT, Arc::new(()));
            let address = |n| Address::from([n; 32]);
            let change = |n| Change { address: address(n), record: Some(Arc::new(Owned)) };
            ledger.apply(ROOT, (0..count).map(change).collect(), Arc::new(()))?;
            ledger.publish();
            let view = reader.view(Commitment::Finalized);
            let keys = [(FACET, address(255))];
            for visits_max in [1, 2, 199, 200, 1_000] {
                let mut found = Vec::new();
                let mut next = Some(AddressId(0));
                while let Some(first) = next {
                    next = view.visit(&keys, first, visits_max, |id, _| found.push(id));
                }
                let found: Vec<_> =
                    found.into_iter().filter_map(|id| view.record_of(id)).map(|it| it.0).collect();
                let all: Vec<_> = view.keyed(FACET, &address(255)).map(|it| it.0).collect();
                assert_eq!(found, all);
                assert_eq!(found.len(), usize::from(count));
            }
        }
        Ok(())
    }
}
