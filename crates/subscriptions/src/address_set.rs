//! A set of addresses, which retains each of them in the address table while it lives.
//!
//! Invariant: for every id in the set, the table has one reference count of ours. Dropping the set in any way releases
//! them. Memory: as `id_set`.

use std::fmt;
use std::sync::Arc;

use address::{AddressTable, TableFull};
use ledger::{Address, AddressId};

use crate::id_set::{BATCH_IDS, Cursor, IdSet};

/// Addresses that stay registered while this lives.
pub struct AddressSet {
    table: Arc<AddressTable>,
    ids: IdSet,
    /// A hash that is equal for equal sets, in whatever order their addresses were added.
    fingerprint: u64,
}

impl AddressSet {
    /// Creates a set without addresses.
    pub fn empty(table: &Arc<AddressTable>) -> Self {
        Self { table: Arc::clone(table), ids: IdSet::default(), fingerprint: 0 }
    }

    /// Registers addresses; duplicates count once. All or nothing.
    ///
    /// Cost: a short lock of the table for each.
    pub fn register(
        table: &Arc<AddressTable>,
        addresses: impl IntoIterator<Item = Address>,
    ) -> Result<Self, TableFull> {
        let mut set = Self::empty(table);
        set.add(addresses)?;
        Ok(set)
    }

    /// Registers more addresses. If the table gets full, the addresses before that stay in the set.
    ///
    /// Cost: a short lock of the table for each, and the set's chunks that they are in.
    pub fn add(&mut self, addresses: impl IntoIterator<Item = Address>) -> Result<(), TableFull> {
        let mut addresses = addresses.into_iter().peekable();
        let table = Arc::clone(&self.table);
        let mut guard = RetainGuard { table: &table, ids: Vec::new() };
        while addresses.peek().is_some() {
            for address in addresses.by_ref().take(BATCH_IDS) {
                guard.ids.push(table.retain_for_client(&address)?.0);
            }
            guard.ids.sort_unstable();
            self.adopt_counted(&guard.ids);
            guard.ids.clear();
        }
        Ok(())
    }

    /// Adopts reference counts on sorted ids. Ids may be duplicates, or in the set already: such counts are released.
    /// Returns how many ids are new.
    pub(crate) fn adopt_counted(&mut self, counted: &[u32]) -> usize {
        let mut new: Vec<u32> = Vec::with_capacity(counted.len());
        for id in counted {
            if new.last() == Some(id) || self.ids.contains(*id) {
                self.table.release(AddressId(*id));
            } else {
                new.push(*id);
            }
        }
        self.fingerprint = self.fingerprint.wrapping_add(fingerprint(&new));
        self.ids.add(&new);
        new.len()
    }

    /// Returns the number of addresses in the set.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Its bytes in memory. Cost: O(addresses / 65,536).
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.ids.bytes()
    }

    /// Whether the set has no addresses.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an address is in it, by its id.
    pub fn contains(&self, id: AddressId) -> bool {
        self.ids.contains(id.0)
    }

    /// All ids, in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = AddressId> + '_ {
        self.ids.iter().map(AddressId)
    }

    /// All addresses, in the order of their ids.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.ids().filter_map(|id| self.table.address(id))
    }

    pub(crate) fn id_set(&self) -> &IdSet {
        &self.ids
    }

    /// Its ids with their reference counts, which the caller must release.
    pub(crate) fn into_counted_ids(mut self) -> IdSet {
        std::mem::take(&mut self.ids)
    }

    /// An empty set of the same table.
    pub(crate) fn empty_like(&self) -> Self {
        Self::empty(&self.table)
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Another set of the same addresses, with its own reference counts.
    pub(crate) fn copy(&self) -> Self {
        for address in self.addresses() {
            let counted = self.table.retain(&address);
            assert!(counted.is_ok(), "a retained address has its id already");
        }
        Self {
            table: Arc::clone(&self.table),
            ids: self.ids.clone(),
            fingerprint: self.fingerprint,
        }
    }

    /// Removes sorted ids that are in the set, and releases them.
    pub(crate) fn release_ids(&mut self, ids: &[u32]) {
        self.ids.remove(ids);
        self.fingerprint = self.fingerprint.wrapping_sub(fingerprint(ids));
        ids.iter().for_each(|id| self.table.release(AddressId(*id)));
    }
}

/// Releases a set, batch by batch. Dropping it releases the rest.
pub(crate) struct ReleaseTask {
    table: Arc<AddressTable>,
    ids: IdSet,
    cursor: Cursor,
}

impl ReleaseTask {
    pub(crate) fn new(mut set: AddressSet) -> Self {
        let table = Arc::clone(&set.table);
        Self { table, ids: std::mem::take(&mut set.ids), cursor: Cursor::default() }
    }

    /// Releases the next batch. False if there is none.
    pub(crate) fn step(&mut self) -> bool {
        let Some(batch) = self.cursor.next(&self.ids) else { return false };
        batch.iter().for_each(|id| self.table.release(AddressId(*id)));
        true
    }
}

impl Drop for ReleaseTask {
    fn drop(&mut self) {
        while self.step() {}
    }
}

impl PartialEq for AddressSet {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
            && self.len() == other.len()
            && Arc::ptr_eq(&self.table, &other.table)
            && self.ids.iter().eq(other.ids.iter())
    }
}

impl Drop for AddressSet {
    fn drop(&mut self) {
        self.ids.iter().for_each(|id| self.table.release(AddressId(id)));
    }
}

impl fmt::Debug for AddressSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Releases the ids that were retained if the table gets full.
struct RetainGuard<'a> {
    table: &'a AddressTable,
    ids: Vec<u32>,
}

impl Drop for RetainGuard<'_> {
    fn drop(&mut self) {
        self.ids.iter().for_each(|id| self.table.release(AddressId(*id)));
    }
}

/// A sum over the ids: the order does not matter, and a change costs only itself.
fn fingerprint(ids: &[u32]) -> u64 {
    ids.iter().fold(0, |sum: u64, id| sum.wrapping_add(mix_bits(*id)))
}

fn mix_bits(id: u32) -> u64 {
    // Steele's SplitMix64: each bit of the id reaches each bit of the sum.
    let mut word = u64::from(id).wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(range: std::ops::Range<u32>) -> impl Iterator<Item = Address> {
        range.map(|n| {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&n.to_le_bytes());
            Address::from(bytes)
        })
    }

    #[test]
    fn reference_counts_follow_the_set() -> Result<(), TableFull> {
        let table = Arc::new(AddressTable::new(1_000, 1));
        let mut a = AddressSet::register(&table, addresses(0..100).chain(addresses(50..60)))?;
        assert_eq!((a.len(), table.len()), (100, 100));
        let b = AddressSet::register(&table, addresses(90..150))?;
        let counted: Vec<u32> = b.into_counted_ids().iter().collect();
        assert_eq!(a.adopt_counted(&counted), 50);
        a.add(addresses(100..110))?;
        assert_eq!((a.len(), table.len()), (150, 150));
        let same = AddressSet::register(&table, addresses(0..150))?;
        assert_eq!(a, same);
        assert_eq!(a.copy(), same);
        let some: Vec<u32> = a.ids().take(100).map(|id| id.0).collect();
        a.release_ids(&some);
        assert_ne!(a, same);
        drop(same);
        assert_eq!((a.len(), table.len()), (50, 50));
        let mut release = ReleaseTask::new(a);
        assert!(release.step());
        drop(release);
        assert!(table.is_empty());
        let many = AddressSet::register(&table, addresses(0..900))?;
        drop(ReleaseTask::new(many));
        assert!(table.is_empty());
        Ok(())
    }

    #[test]
    fn a_full_table_registers_all_or_nothing() {
        let table = Arc::new(AddressTable::new(10, 1));
        let refused = AddressSet::register(&table, addresses(0..11));
        assert_eq!(refused.err(), Some(TableFull { limit: 10 }));
        assert!(table.is_empty());
    }
}
