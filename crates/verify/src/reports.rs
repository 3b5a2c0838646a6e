//! What independent sources list as bank hashes.
//!
//! Bounds: the last report of each source for a slot, for [`SLOTS_AHEAD_MAX`](crate::SLOTS_AHEAD_MAX) slots.

use std::collections::BTreeMap;

use ledger::Slot;
use solana_hash::Hash;

/// The number of an independent source, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u16);

/// The reports of all slots above the root.
#[derive(Default)]
pub(crate) struct SourceReports(BTreeMap<Slot, Vec<(SourceId, Hash)>>);

impl SourceReports {
    /// Records a report. It replaces an older one of the same source and slot.
    pub(crate) fn insert(&mut self, source: SourceId, slot: Slot, hash: Hash) {
        let reports = self.0.entry(slot).or_default();
        match reports.iter_mut().find(|(known, _)| *known == source) {
            Some((_, known)) => *known = hash,
            None => reports.push((source, hash)),
        }
    }

    /// The hash that at least `required` sources list for a slot. `None` if there are several such hashes.
    pub(crate) fn agreed_hash(&self, slot: Slot, required: usize) -> Option<Hash> {
        if required == 0 {
            return None;
        }
        let reports = self.0.get(&slot)?;
        let count = |hash: &Hash| reports.iter().filter(|(_, other)| other == hash).count();
        let mut agreed =
            reports.iter().map(|(_, hash)| hash).filter(|hash| count(hash) >= required);
        let first = agreed.next()?;
        agreed.all(|hash| hash == first).then_some(*first)
    }

    /// What each source lists for a slot.
    pub(crate) fn of_slot(&self, slot: Slot) -> &[(SourceId, Hash)] {
        self.0.get(&slot).map_or(&[], Vec::as_slice)
    }

    /// Removes the reports up to a slot.
    pub(crate) fn remove_to(&mut self, slot: Slot) {
        self.0 = self.0.split_off(&(slot + 1));
    }

    /// Bytes that the reports occupy.
    pub(crate) fn bytes(&self) -> usize {
        let reports = self.0.values().map(Vec::capacity).sum::<usize>();
        self.0.len() * (size_of::<Slot>() + size_of::<Vec<()>>())
            + reports * size_of::<(SourceId, Hash)>()
    }
}
