//! The first half of applying changes: every address is resolved to an id. Nothing is written yet.
//! Only this half can fail.

use std::collections::BTreeSet;
use std::sync::Arc;

use address::{AddressTable, TableFull};
use ledger::{AddressId, Change, Key, Record};
use state::{State, Version};

/// Changes by id. Every id in `writes` and `surplus` was retained once: the code that consumes
/// them stores or releases each.
pub(crate) struct ResolvedChanges<R> {
    /// The id of every change, in their order.
    pub(crate) ids: Vec<AddressId>,
    /// The last change of every address.
    pub(crate) writes: Vec<ResolvedWrite<R>>,
    /// The ids of the changes that a later one replaced.
    pub(crate) surplus: Vec<AddressId>,
}

pub(crate) struct ResolvedWrite<R> {
    pub(crate) id: AddressId,
    pub(crate) version: Version<R>,
    /// The keys that no version of the record has yet, each once.
    pub(crate) new_keys: Vec<Key>,
}

impl<R: Record> ResolvedChanges<R> {
    pub(crate) fn new<M>(
        addresses: &AddressTable,
        state: &State<R, M>,
        changes: Vec<Change<R>>,
    ) -> Result<Self, TableFull> {
        let mut reservations =
            AddressReservations { addresses, ids: Vec::with_capacity(2 * changes.len()) };
        let mut ids = Vec::with_capacity(changes.len());
        for change in &changes {
            ids.push(reservations.reserve(&change.address)?);
        }
        let mut writes = Vec::with_capacity(changes.len());
        let mut surplus = Vec::new();
        let mut seen = BTreeSet::new();
        for (change, id) in changes.into_iter().zip(&ids).rev() {
            if seen.insert(*id) {
                writes.push(ResolvedWrite::new(*id, change.record, state, &mut reservations)?);
            } else {
                surplus.push(*id);
            }
        }
        reservations.ids.clear(); // its ids are in `writes` and `surplus` now
        Ok(Self { ids, writes, surplus })
    }
}

impl<R: Record> ResolvedWrite<R> {
    /// Reuses the ids of keys that a version of the record has already: they are registered.
    /// Registers the others.
    fn new<M>(
        id: AddressId,
        record: Option<Arc<R>>,
        state: &State<R, M>,
        reservations: &mut AddressReservations<'_>,
    ) -> Result<Self, TableFull> {
        let mut keys = Vec::new();
        let mut new_keys: Vec<Key> = Vec::new();
        let mut full = None;
        if let Some(record) = &record {
            record.keys(&mut |kind, address| {
                let addresses = reservations.addresses;
                let is_same =
                    |key: &Key| key.kind == kind && addresses.address(key.id) == Some(address);
                let known = state.find_versions(id).flat_map(|version| version.keys());
                if let Some(same) = known.chain(new_keys.iter().copied()).find(is_same) {
                    keys.push(same);
                    return;
                }
                match reservations.reserve(&address) {
                    Ok(id) => {
                        keys.push(Key { kind, id });
                        new_keys.push(Key { kind, id });
                    }
                    Err(err) => full = Some(err),
                }
            });
        }
        if let Some(err) = full {
            return Err(err);
        }
        Ok(Self { id, version: Version { record, keys: keys.into() }, new_keys })
    }
}

/// Retained ids, released when dropped.
struct AddressReservations<'a> {
    addresses: &'a AddressTable,
    ids: Vec<AddressId>,
}

impl AddressReservations<'_> {
    fn reserve(&mut self, address: &ledger::Address) -> Result<AddressId, TableFull> {
        let id = self.addresses.retain(address)?;
        self.ids.push(id);
        Ok(id)
    }
}

impl Drop for AddressReservations<'_> {
    fn drop(&mut self) {
        self.ids.iter().for_each(|id| self.addresses.release(*id));
    }
}
