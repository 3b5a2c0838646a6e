//! The versions of a leaf's records that are stored unpacked, by position.
//!
//! Shape: groups of eight positions. A copy of a leaf shares the groups, and a copy of a group the versions of each
//! position. So a write to one of 64 records changes the reference counts of at most 16 allocations, which are
//! scattered in memory. An account that every block writes has a version for each block, and writes to its neighbours
//! do not copy them.
//! Invariant: no group and no entry is empty.

use std::sync::Arc;

use ledger::{BlockId, Record};

use crate::persistent_array::ARC_BYTES;
use crate::version::SharedVersion;

/// Positions of a group.
const GROUP_LEN: u8 = 8;

/// The unpacked versions of one leaf.
pub(crate) struct UnpackedVersions<R> {
    /// By number.
    groups: Box<[EntryGroup<R>]>,
}

/// The entries of eight positions.
struct EntryGroup<R> {
    number: u8,
    /// A bit for each position that has an entry.
    occupied: u8,
    /// Heap bytes of all entries.
    bytes: usize,
    /// By position.
    entries: Arc<[LeafEntry<R>]>,
}

/// The unpacked versions of one position.
struct LeafEntry<R> {
    /// Heap bytes of all of them, and of the bases of their patches.
    bytes: usize,
    /// The rooted one first, then in the order of writing. A block comes after its ancestors: they
    /// were complete when it was opened.
    versions: Arc<Vec<UnpackedVersion<R>>>,
}

/// A version that is stored unpacked.
pub(crate) struct UnpackedVersion<R> {
    /// Whether the version is rooted. Never set for a removal.
    pub(crate) is_rooted: bool,
    /// Heap bytes of its record, without the base of a patch.
    bytes: u32,
    pub(crate) written_by: BlockId,
    pub(crate) version: SharedVersion<R>,
}

impl<R> UnpackedVersions<R> {
    /// Returns a bit for every position with a version.
    pub(crate) fn occupied_bits(&self) -> u64 {
        let of_group = |group: &EntryGroup<R>| u64::from(group.occupied) << group.first_position();
        self.groups.iter().map(of_group).sum()
    }

    /// Returns the heap bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.groups.iter().map(EntryGroup::bytes).sum()
    }

    /// Returns the number of versions.
    pub(crate) fn len(&self) -> usize {
        let entries = self.groups.iter().flat_map(|group| group.entries.iter());
        entries.map(|entry| entry.versions.len()).sum()
    }

    /// Returns the versions at `position`.
    pub(crate) fn at(&self, position: u8) -> &[UnpackedVersion<R>] {
        let group = self.group_index(position).ok().map(|at| &self.groups[at]);
        let entry = group.and_then(|group| group.entries.get(group.entry_index(position).ok()?));
        entry.map_or(&[], |entry| &entry.versions)
    }

    /// Returns some value of the data, to load it into the CPU cache.
    pub(crate) fn prefetch(&self) -> usize {
        self.groups.first().map_or(0, |group| group.entries.len())
    }

    /// Returns the index of a position's group, or where it would be inserted.
    fn group_index(&self, position: u8) -> Result<usize, usize> {
        self.groups.binary_search_by_key(&(position / GROUP_LEN), |group| group.number)
    }
}

impl<R: Record> UnpackedVersions<R> {
    /// Changes the versions at `position`, of which there may be none before and after.
    pub(crate) fn change<T>(
        &mut self,
        position: u8,
        how: impl FnOnce(&mut Vec<UnpackedVersion<R>>) -> T,
    ) -> T {
        let at = self.group_index(position);
        let at = at.unwrap_or_else(|at| {
            let entries = Arc::new([]);
            let number = position / GROUP_LEN;
            let group = EntryGroup { number, occupied: 0, bytes: 0, entries };
            insert_into(&mut self.groups, at, group);
            at
        });
        let result = self.groups[at].change(position, how);
        if self.groups[at].occupied == 0 {
            remove_from(&mut self.groups, at);
        }
        result
    }
}

impl<R> EntryGroup<R> {
    fn first_position(&self) -> u8 {
        self.number * GROUP_LEN
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + ARC_BYTES + self.bytes
    }

    /// Returns the index of a position's entry, or where it would be inserted.
    fn entry_index(&self, position: u8) -> Result<usize, usize> {
        let bit = 1 << (position % GROUP_LEN);
        let at = (self.occupied & (bit - 1)).count_ones() as usize;
        if self.occupied & bit == 0 { Err(at) } else { Ok(at) }
    }
}

impl<R: Record> EntryGroup<R> {
    fn change<T>(
        &mut self,
        position: u8,
        how: impl FnOnce(&mut Vec<UnpackedVersion<R>>) -> T,
    ) -> T {
        let bit = 1 << (position % GROUP_LEN);
        let at = match self.entry_index(position) {
            Ok(at) => at,
            Err(at) => {
                let mut versions = Vec::new();
                let result = how(&mut versions);
                if !versions.is_empty() {
                    let entry = LeafEntry::new(versions);
                    self.bytes += entry.bytes();
                    self.occupied |= bit;
                    let mut entries = self.entries.to_vec();
                    entries.reserve_exact(1);
                    entries.insert(at, entry);
                    self.entries = entries.into();
                }
                return result;
            }
        };
        let entry = &mut Arc::make_mut(&mut self.entries)[at];
        self.bytes -= entry.bytes();
        let versions = Arc::make_mut(&mut entry.versions);
        let result = how(versions);
        entry.bytes = versions_bytes(versions);
        if versions.is_empty() {
            self.occupied &= !bit;
            let mut entries = self.entries.to_vec();
            entries.remove(at);
            self.entries = entries.into();
        } else {
            self.bytes += entry.bytes();
        }
        result
    }
}

impl<R> LeafEntry<R> {
    fn bytes(&self) -> usize {
        self.bytes + size_of::<Self>() + ARC_BYTES + size_of::<Vec<UnpackedVersion<R>>>()
    }
}

impl<R: Record> LeafEntry<R> {
    fn new(versions: Vec<UnpackedVersion<R>>) -> Self {
        Self { bytes: versions_bytes(&versions), versions: Arc::new(versions) }
    }
}

impl<R: Record> UnpackedVersion<R> {
    pub(crate) fn new(is_rooted: bool, written_by: BlockId, version: SharedVersion<R>) -> Self {
        let bytes = version.record_weight();
        Self { is_rooted, bytes: u32::try_from(bytes).unwrap_or(u32::MAX), written_by, version }
    }
}

/// Returns the bytes of the versions of a position. Each record counts; shared keys and bases count
/// once.
///
/// Cost: a pass over the versions, and over those with other bases again.
fn versions_bytes<R: Record>(versions: &[UnpackedVersion<R>]) -> usize {
    let mut bytes = size_of_val(versions);
    let record = |at: usize| versions[at].version.record.as_ref();
    for (at, unpacked) in versions.iter().enumerate() {
        let SharedVersion { record: own, keys } = &unpacked.version;
        bytes += unpacked.bytes as usize;
        let is_known = |known: usize| Arc::ptr_eq(&versions[known].version.keys, keys);
        if !at.checked_sub(1).is_some_and(is_known) {
            bytes += unpacked.version.keys_weight();
        }
        let Some(own) = own.as_ref().filter(|own| own.is_patched()) else { continue };
        let is_same =
            |other: usize| record(other).is_some_and(|other| Arc::ptr_eq(other.base(), own.base()));
        // The base counts once: with the version that is it as a whole, otherwise with the first of its patches.
        let is_whole = |other: usize| record(other).is_some_and(|other| !other.is_patched());
        let is_counted = at.checked_sub(1).is_some_and(is_same)
            || (0..versions.len()).any(|other| (other < at || is_whole(other)) && is_same(other));
        if !is_counted {
            bytes += own.base_weight();
        }
    }
    bytes
}

fn insert_into<T>(boxed: &mut Box<[T]>, at: usize, new: T) {
    let mut items = std::mem::take(boxed).into_vec();
    items.reserve_exact(1);
    items.insert(at, new);
    *boxed = items.into_boxed_slice();
}

fn remove_from<T>(boxed: &mut Box<[T]>, at: usize) {
    let mut items = std::mem::take(boxed).into_vec();
    items.remove(at);
    *boxed = items.into_boxed_slice();
}

impl<R> Default for UnpackedVersions<R> {
    fn default() -> Self {
        Self { groups: Box::default() }
    }
}

impl<R> Clone for UnpackedVersions<R> {
    fn clone(&self) -> Self {
        Self { groups: self.groups.clone() }
    }
}

impl<R> Clone for EntryGroup<R> {
    fn clone(&self) -> Self {
        Self { entries: Arc::clone(&self.entries), ..*self }
    }
}

impl<R> Clone for LeafEntry<R> {
    fn clone(&self) -> Self {
        Self { versions: Arc::clone(&self.versions), ..*self }
    }
}

impl<R> Clone for UnpackedVersion<R> {
    fn clone(&self) -> Self {
        Self { version: self.version.clone(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use ledger::{Address, KeyKind};

    use super::*;
    use crate::Version;

    struct Nothing;

    impl Record for Nothing {
        fn keys(&self, _: &mut dyn FnMut(KeyKind, Address)) {}
    }

    fn unpacked_version(slot: u64) -> UnpackedVersion<Nothing> {
        let version = Version { record: Some(Arc::new(Nothing)), keys: Arc::default() };
        let written_by = BlockId { slot, version: slot };
        UnpackedVersion::new(false, written_by, SharedVersion::new(version, None))
    }

    /// The addresses of all allocations of versions, by position.
    fn allocations(versions: &UnpackedVersions<Nothing>) -> Vec<*const UnpackedVersion<Nothing>> {
        (0..64).map(|position| versions.at(position).as_ptr()).collect()
    }

    #[test]
    fn a_change_of_a_copy_copies_its_group_and_its_versions_only() {
        let mut versions = UnpackedVersions::default();
        for slot in 1..=32 {
            for position in (0..64).rev() {
                versions.change(position, |versions| versions.push(unpacked_version(slot)));
            }
        }
        let copy = versions.clone();
        versions.change(7, |versions| versions.push(unpacked_version(33)));
        let changed = allocations(&versions);
        let before = allocations(&copy);
        assert_eq!((0..64).filter(|at| changed[*at] != before[*at]).collect::<Vec<_>>(), [7]);
        let is_copied =
            |at: &usize| !Arc::ptr_eq(&versions.groups[*at].entries, &copy.groups[*at].entries);
        assert_eq!((0..8).filter(is_copied).collect::<Vec<_>>(), [0]);
        assert_eq!((versions.len(), copy.len()), (64 * 32 + 1, 64 * 32));
    }

    #[test]
    fn random_changes_leave_what_a_map_has_and_no_bytes_at_the_end() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut versions = UnpackedVersions::default();
        let mut model: Vec<Vec<u64>> = vec![Vec::new(); 64];
        let mut copies = Vec::new();
        for slot in 1..3_000 {
            let position = rng.u8(..64);
            let of_model = &mut model[usize::from(position)];
            if of_model.is_empty() || rng.u8(..100) < 45 {
                versions.change(position, |versions| versions.push(unpacked_version(slot)));
                of_model.push(slot);
            } else {
                let at = rng.usize(..of_model.len());
                let removed = versions.change(position, |versions| versions.remove(at));
                assert_eq!(removed.written_by.slot, of_model.remove(at));
            }
            let slots = |versions: &UnpackedVersions<Nothing>| -> Vec<Vec<u64>> {
                let slots = |position| {
                    versions.at(position).iter().map(|version| version.written_by.slot).collect()
                };
                (0..64).map(slots).collect()
            };
            assert_eq!(slots(&versions), model);
            let occupied = |bits, at: usize| bits | u64::from(!model[at].is_empty()) << at;
            assert_eq!(versions.occupied_bits(), (0..64).fold(0, occupied));
            let groups = versions.groups.iter();
            assert!(groups.clone().all(|group| group.occupied > 0));
            let entries = |group: &EntryGroup<Nothing>| {
                group.entries.iter().map(LeafEntry::bytes).sum::<usize>()
            };
            assert!(groups.clone().all(|group| group.bytes == entries(group)));
            if slot % 50 == 0 {
                copies.push((versions.clone(), model.clone()));
            }
            if slot % 500 == 0 {
                for (copy, model) in copies.drain(..) {
                    assert_eq!(slots(&copy), model);
                }
            }
        }
        for position in 0..64 {
            versions.change(position, Vec::clear);
        }
        assert_eq!((versions.bytes(), versions.len(), versions.occupied_bits()), (0, 0, 0));
    }
}
