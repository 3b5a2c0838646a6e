//! The versions of a leaf's records that are stored unpacked, by position.
//!
//! Shape: groups of eight positions. A copy of a leaf shares the groups, and a copy of a group the versions of each
//! position. So a write to one of 64 records changes the reference counts of at most 16 allocations, which are
//! scattered in memory. An account that every block writes has a version for each block, and writes to its neighbours
//! do not copy them. A version that is alone at its position is in an allocation of its own, others of one position are
//! in one vector.
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

/// The unpacked versions of one position. Most positions that have any have one, which is one allocation.
enum LeafEntry<R> {
    One {
        /// Heap bytes of the version, and of the base of its patch. At most [`u32::MAX`] counts.
        bytes: u32,
        version: Arc<UnpackedVersion<R>>,
    },
    /// The versions of a position that has at least two.
    Many {
        /// Heap bytes of all of them, and of the bases of their patches. At most [`u32::MAX`] counts.
        bytes: u32,
        /// The rooted one first, then in the order of writing. A block comes after its ancestors: they
        /// were complete when it was opened.
        versions: Arc<Vec<UnpackedVersion<R>>>,
    },
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
        entries.map(|entry| entry.versions().len()).sum()
    }

    /// Returns the versions at `position`.
    pub(crate) fn at(&self, position: u8) -> &[UnpackedVersion<R>] {
        let group = self.group_index(position).ok().map(|at| &self.groups[at]);
        let entry = group.and_then(|group| group.entries.get(group.entry_index(position).ok()?));
        entry.map_or(&[], LeafEntry::versions)
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
    /// Inserts a version at `position`: a rooted one before the others, one that is not rooted after them.
    pub(crate) fn insert(&mut self, position: u8, new: UnpackedVersion<R>) {
        let at = self.group_index(position).unwrap_or_else(|at| {
            let entries = Arc::new([]);
            let number = position / GROUP_LEN;
            let group = EntryGroup { number, occupied: 0, bytes: 0, entries };
            insert_into(&mut self.groups, at, group);
            at
        });
        self.groups[at].insert(position, new);
    }

    /// Removes the version with index `number` among those at `position`.
    pub(crate) fn remove(&mut self, position: u8, number: usize) -> Option<UnpackedVersion<R>> {
        let at = self.group_index(position).ok()?;
        let removed = self.groups[at].remove(position, number);
        if self.groups[at].occupied == 0 {
            remove_from(&mut self.groups, at);
        }
        removed
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
    fn insert(&mut self, position: u8, new: UnpackedVersion<R>) {
        match self.entry_index(position) {
            Ok(at) => {
                let entry = &mut Arc::make_mut(&mut self.entries)[at];
                self.bytes -= entry.bytes();
                entry.insert(new);
                self.bytes += entry.bytes();
            }
            Err(at) => {
                let entry = LeafEntry::one(new);
                self.bytes += entry.bytes();
                self.occupied |= 1 << (position % GROUP_LEN);
                let (before, after) = self.entries.split_at(at);
                let before = before.iter().cloned().chain([entry]);
                self.entries = before.chain(after.iter().cloned()).collect();
            }
        }
    }

    fn remove(&mut self, position: u8, number: usize) -> Option<UnpackedVersion<R>> {
        let at = self.entry_index(position).ok()?;
        if let LeafEntry::One { version, .. } = &self.entries[at] {
            debug_assert_eq!(number, 0, "the position has one version");
            let version = Arc::clone(version);
            self.bytes -= self.entries[at].bytes();
            self.occupied &= !(1 << (position % GROUP_LEN));
            let left = self.entries[..at].iter().chain(&self.entries[at + 1..]);
            self.entries = left.cloned().collect();
            return Some(Arc::unwrap_or_clone(version));
        }
        let entry = &mut Arc::make_mut(&mut self.entries)[at];
        self.bytes -= entry.bytes();
        let removed = entry.remove(number);
        self.bytes += entry.bytes();
        removed
    }
}

impl<R> LeafEntry<R> {
    fn versions(&self) -> &[UnpackedVersion<R>] {
        match self {
            Self::One { version, .. } => std::slice::from_ref(version.as_ref()),
            Self::Many { versions, .. } => versions,
        }
    }

    fn bytes(&self) -> usize {
        let (versions, own) = match self {
            Self::One { bytes, .. } => (*bytes, ARC_BYTES),
            Self::Many { bytes, .. } => (*bytes, ARC_BYTES + size_of::<Vec<UnpackedVersion<R>>>()),
        };
        size_of::<Self>() + own + versions as usize
    }
}

impl<R: Record> LeafEntry<R> {
    fn one(version: UnpackedVersion<R>) -> Self {
        let bytes = versions_bytes(std::slice::from_ref(&version));
        Self::One { bytes, version: Arc::new(version) }
    }

    fn insert(&mut self, new: UnpackedVersion<R>) {
        match self {
            Self::One { version, .. } => {
                let known = UnpackedVersion::clone(version);
                let versions = if new.is_rooted { vec![new, known] } else { vec![known, new] };
                let bytes = versions_bytes(&versions);
                *self = Self::Many { bytes, versions: Arc::new(versions) };
            }
            Self::Many { bytes, versions } => {
                let versions = Arc::make_mut(versions);
                let at = if new.is_rooted { 0 } else { versions.len() };
                versions.reserve_exact(1);
                versions.insert(at, new);
                *bytes = versions_bytes(versions);
            }
        }
    }

    /// Removes one of several versions. `None` if there is only one: then its entry is to be removed.
    fn remove(&mut self, number: usize) -> Option<UnpackedVersion<R>> {
        let Self::Many { bytes, versions } = self else { return None };
        if versions.len() == 2 {
            let removed = versions[number].clone();
            let left = versions[1 - number].clone();
            *self = Self::one(left);
            return Some(removed);
        }
        let versions = Arc::make_mut(versions);
        let removed = versions.remove(number);
        *bytes = versions_bytes(versions);
        Some(removed)
    }
}

impl<R: Record> UnpackedVersion<R> {
    pub(crate) fn new(is_rooted: bool, written_by: BlockId, version: SharedVersion<R>) -> Self {
        let bytes = version.record_weight();
        Self { is_rooted, bytes: u32::try_from(bytes).unwrap_or(u32::MAX), written_by, version }
    }
}

/// Returns the bytes of the versions of a position, at most [`u32::MAX`]. Each record counts; shared keys and bases
/// count once.
///
/// Cost: a pass over the versions, and over those with other bases again.
fn versions_bytes<R: Record>(versions: &[UnpackedVersion<R>]) -> u32 {
    let mut bytes = size_of_val(versions);
    let record = |at: usize| versions[at].version.record.as_ref();
    for (at, unpacked) in versions.iter().enumerate() {
        bytes += unpacked.bytes as usize;
        let is_known = |known: usize| unpacked.version.shares_keys(&versions[known].version);
        if !at.checked_sub(1).is_some_and(is_known) {
            bytes += unpacked.version.keys_weight();
        }
        let Some(own) = record(at).filter(|own| own.is_patched()) else { continue };
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
    u32::try_from(bytes).unwrap_or(u32::MAX)
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
        match self {
            Self::One { bytes, version } => {
                Self::One { bytes: *bytes, version: Arc::clone(version) }
            }
            Self::Many { bytes, versions } => {
                Self::Many { bytes: *bytes, versions: Arc::clone(versions) }
            }
        }
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

    /// Each record that a block above the root wrote has these, and three reference counts.
    #[test]
    fn a_version_takes_few_bytes_in_addition_to_its_record() {
        assert_eq!(size_of::<UnpackedVersion<Nothing>>(), 64);
        assert_eq!(size_of::<LeafEntry<Nothing>>(), 16);
        assert_eq!(size_of::<EntryGroup<Nothing>>(), 32);
        let mut versions = UnpackedVersions::default();
        versions.insert(3, unpacked_version(1));
        let record = ARC_BYTES;
        let group = size_of::<EntryGroup<Nothing>>() + ARC_BYTES;
        let entry = size_of::<LeafEntry<Nothing>>() + ARC_BYTES;
        let version = size_of::<UnpackedVersion<Nothing>>();
        assert_eq!(versions.bytes(), group + entry + version + record);
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
                versions.insert(position, unpacked_version(slot));
            }
        }
        let copy = versions.clone();
        versions.insert(7, unpacked_version(33));
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
                let mut new = unpacked_version(slot);
                new.is_rooted = rng.u8(..10) == 0;
                of_model.insert(if new.is_rooted { 0 } else { of_model.len() }, slot);
                versions.insert(position, new);
            } else {
                let at = rng.usize(..of_model.len());
                let removed = versions.remove(position, at).map(|removed| removed.written_by.slot);
                assert_eq!(removed, Some(of_model.remove(at)));
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
            while !versions.at(position).is_empty() {
                assert!(versions.remove(position, 0).is_some());
            }
            assert!(versions.remove(position, 0).is_none());
        }
        assert_eq!((versions.bytes(), versions.len(), versions.occupied_bits()), (0, 0, 0));
    }
}
