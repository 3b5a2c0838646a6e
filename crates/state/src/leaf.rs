//! The versions of the records with 64 consecutive ids.
//!
//! Shape: rooted versions are packed together. Rooted versions that do not pack, and all unrooted ones, are
//! stored unpacked alongside them. So an unrooted write packs nothing, and rooting a block packs each
//! leaf that the block wrote once. An account that every block writes has a version for each. It is stored whole once,
//! and the change of each block as a patch.
//! Invariant: a position has at most one rooted version.

use ledger::{AddressId, BlockId, Key, Record, StoredRecord};

use crate::packed_leaf::{LEAF_LEN, LeafRepacker, PackedLeaf, WrittenRecord};
use crate::persistent_array::ARC_BYTES;
use crate::unpacked_versions::{UnpackedVersion, UnpackedVersions};
use crate::version::{SharedVersion, Version, VisibleVersion};

/// The versions of the records of one leaf.
pub(crate) struct Leaf<R> {
    packed: PackedLeaf,
    unpacked: UnpackedVersions<R>,
}

/// A version that reads of the state no longer see.
pub(crate) enum SupersededVersion<R> {
    Unpacked(SharedVersion<R>, BlockId),
    /// In the blob that contained it.
    Packed(PackedLeaf),
}

/// Returns the leaf that has the versions of `id`.
pub(crate) fn leaf_number(id: AddressId) -> u32 {
    id.0 / LEAF_LEN
}

/// Returns the position of `id` in its leaf.
pub(crate) fn leaf_position(id: AddressId) -> u8 {
    (id.0 % LEAF_LEN) as u8 // below 64
}

/// Returns the id of a position.
pub(crate) fn id_at(leaf: u32, position: u8) -> AddressId {
    AddressId(leaf * LEAF_LEN + u32::from(position))
}

/// Returns the positions of the set bits.
pub(crate) fn bits(occupied: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |position| occupied & 1 << position != 0)
}

impl<R> Leaf<R> {
    pub(crate) fn new() -> Self {
        Self { packed: PackedLeaf::default(), unpacked: UnpackedVersions::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.occupied_bits() == 0
    }

    /// Returns a bit for every position with a version.
    pub(crate) fn occupied_bits(&self) -> u64 {
        self.packed.occupied_bits() | self.unpacked.occupied_bits()
    }

    /// Returns whether there is a version at `position`.
    pub(crate) fn has(&self, position: u8) -> bool {
        self.packed.has(position) || self.has_unpacked(position)
    }

    /// Returns whether there is an unpacked version at `position`.
    pub(crate) fn has_unpacked(&self, position: u8) -> bool {
        !self.unpacked.at(position).is_empty()
    }

    /// Returns the number of versions.
    pub(crate) fn versions(&self) -> usize {
        self.packed.occupied_bits().count_ones() as usize + self.unpacked.len()
    }

    /// Returns some value of the leaf itself, to load it into the CPU cache.
    pub(crate) fn prefetch(&self) -> usize {
        self.packed.blob_len()
    }

    /// Returns some value of the data that it points to.
    pub(crate) fn prefetch_children(&self) -> usize {
        self.packed.first_byte() + self.unpacked.prefetch()
    }

    /// Returns the version of `id` that a block with these (sorted) ancestors sees: the newest version by one of them,
    /// or the rooted one. `None` if that is a removal.
    pub(crate) fn visible_version(
        &self,
        id: AddressId,
        ancestors: &[BlockId],
    ) -> Option<VisibleVersion<'_, R>> {
        let position = leaf_position(id);
        let is_visible = |unpacked: &&UnpackedVersion<R>| {
            unpacked.is_rooted || ancestors.binary_search(&unpacked.written_by).is_ok()
        };
        match self.unpacked.at(position).iter().rev().find(is_visible) {
            Some(unpacked) => unpacked.version.as_visible(unpacked.written_by.slot),
            None => self.packed_version(id),
        }
    }

    /// Returns all versions of `id` except removals.
    pub(crate) fn find_versions(
        &self,
        id: AddressId,
    ) -> impl Iterator<Item = VisibleVersion<'_, R>> {
        let unpacked = self.unpacked.at(leaf_position(id)).iter().rev();
        let unpacked =
            unpacked.filter_map(|unpacked| unpacked.version.as_visible(unpacked.written_by.slot));
        unpacked.chain(self.packed_version(id))
    }

    fn packed_version(&self, id: AddressId) -> Option<VisibleVersion<'_, R>> {
        let packed = self.packed.get(leaf_position(id))?;
        Some(VisibleVersion::from_packed(id, packed))
    }

    /// Returns whether a version of `id` has `key`.
    pub(crate) fn is_found_by(&self, id: AddressId, key: Key) -> bool {
        self.find_versions(id).any(|version| version.has_key(key))
    }

    /// Returns the heap bytes of packed and of unpacked versions.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let own = if self.is_empty() { 0 } else { ARC_BYTES + size_of::<Self>() };
        (own + self.packed.bytes(), self.unpacked.bytes())
    }
}

impl<R: Record> Leaf<R> {
    /// Takes the version that `block`, which is not the root, wrote at `position`.
    pub(crate) fn take_version(
        &mut self,
        position: u8,
        block: BlockId,
    ) -> Option<SharedVersion<R>> {
        self.take_unpacked(position, |unpacked| !unpacked.is_rooted && unpacked.written_by == block)
            .map(|unpacked| unpacked.version)
    }

    /// Inserts the version that `block`, which is not the root, writes at `position`; returns the version that it
    /// replaces.
    pub(crate) fn write(
        &mut self,
        position: u8,
        block: BlockId,
        version: Version<R>,
    ) -> Option<SharedVersion<R>> {
        let before = self.take_version(position, block);
        // A whole record that nothing else needs is not used as a base: it would be stored in addition to the patch.
        let is_patched =
            |held: &&SharedVersion<R>| held.record.as_ref().is_some_and(StoredRecord::is_patched);
        let others = self.unpacked.at(position).iter().rev().map(|other| &other.version);
        let mut others = others.chain(before.as_ref().filter(is_patched));
        let other = others.find(|held| held.record.is_some());
        let held = SharedVersion::new(version, other);
        self.unpacked.insert(position, UnpackedVersion::new(false, block, held));
        before
    }

    /// Makes `version` by `block` the rooted one at `position`, in this leaf or in `repacker`; returns the
    /// one that it supersedes. The leaf is complete once it has been [`Self::repack`]ed.
    pub(crate) fn root_version(
        &mut self,
        position: u8,
        block: BlockId,
        version: SharedVersion<R>,
        repacker: &mut LeafRepacker,
    ) -> Option<SupersededVersion<R>> {
        if repacker.has_change(position) {
            self.repack(repacker);
        }
        let rooted = self.take_unpacked(position, |unpacked| unpacked.is_rooted);
        let was_packed = self.packed.has(position);
        let superseded = match rooted {
            Some(unpacked) => {
                Some(SupersededVersion::Unpacked(unpacked.version, unpacked.written_by))
            }
            None => was_packed.then(|| SupersededVersion::Packed(self.packed.clone())),
        };
        let Some(record) = version.record.as_ref().map(StoredRecord::record) else {
            if was_packed {
                repacker.remove(position);
            }
            return superseded;
        };
        let written = WrittenRecord { record: &*record, keys: version.keys(), slot: block.slot };
        if !repacker.put(&self.packed, position, written) {
            if was_packed {
                repacker.remove(position);
            }
            // The next records have the same base as the newest one.
            let has_others = self.has_unpacked(position);
            let held = if has_others { version } else { version.with_record(record.into()) };
            self.unpacked.insert(position, UnpackedVersion::new(true, block, held));
        }
        superseded
    }

    /// Applies the pending changes of `repacker`.
    pub(crate) fn repack(&mut self, repacker: &mut LeafRepacker) {
        repacker.finish(&mut self.packed);
    }

    fn take_unpacked(
        &mut self,
        position: u8,
        is_it: impl Fn(&UnpackedVersion<R>) -> bool,
    ) -> Option<UnpackedVersion<R>> {
        let number = self.unpacked.at(position).iter().rposition(is_it)?;
        self.unpacked.remove(position, number)
    }
}

impl<R> SupersededVersion<R> {
    /// Returns the version, which is one of `id`, unless it is a removal.
    pub(crate) fn visible_version(&self, id: AddressId) -> Option<VisibleVersion<'_, R>> {
        match self {
            Self::Unpacked(version, written_by) => version.as_visible(written_by.slot),
            Self::Packed(leaf) => {
                let packed = leaf.get(leaf_position(id))?;
                Some(VisibleVersion::from_packed(id, packed))
            }
        }
    }
}

impl<R> Clone for Leaf<R> {
    fn clone(&self) -> Self {
        Self { packed: self.packed.clone(), unpacked: self.unpacked.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ledger::{Address, KeyKind};

    use super::*;

    struct Nothing;

    impl Record for Nothing {
        fn keys(&self, _: &mut dyn FnMut(KeyKind, Address)) {}
    }

    fn version() -> Version<Nothing> {
        Version { record: Some(Arc::new(Nothing)), keys: Arc::default() }
    }

    #[test]
    fn a_write_to_a_copy_counts_its_own_version_only() {
        let block = |slot| BlockId { slot, version: slot };
        let mut leaf = Leaf::new();
        for slot in 1..=32 {
            for position in (0..64).rev() {
                assert!(leaf.write(position, block(slot), version()).is_none());
            }
        }
        let before = leaf.clone();
        assert!(leaf.write(7, block(32), version()).is_some());
        assert!(leaf.write(8, block(33), version()).is_none());
        assert_eq!((leaf.versions(), before.versions()), (64 * 32 + 1, 64 * 32));
        // The new version shares the keys of the one before.
        let bytes = leaf.bytes().1 - before.bytes().1;
        let held = SharedVersion::new(version(), None);
        assert_eq!(bytes, held.record_weight() + size_of::<UnpackedVersion<Nothing>>());
    }

    /// A large record. Only its first byte changes.
    #[derive(Debug, PartialEq)]
    struct Large(u8, bool);

    const LARGE_BYTES: usize = 1_000;

    impl Record for Large {
        fn keys(&self, _: &mut dyn FnMut(KeyKind, Address)) {}

        fn patch(&self, base: &Self, patch: &mut Vec<u8>) -> bool {
            patch.push(self.0);
            self.1 == base.1
        }

        fn apply_patch(base: &Self, patch: &[u8]) -> Option<Self> {
            Some(Self(*patch.first()?, base.1))
        }

        fn weight(&self) -> usize {
            LARGE_BYTES
        }
    }

    fn block(slot: u64) -> BlockId {
        BlockId { slot, version: slot }
    }

    fn large(leaf: &Leaf<Large>, ancestors: &[BlockId]) -> Option<Large> {
        let found = leaf.visible_version(AddressId(5), ancestors)?;
        let record = found.record(|_| unreachable!("it has no keys"));
        Some(Large(record.0, record.1))
    }

    fn write(leaf: &mut Leaf<Large>, slot: u64, record: Large) {
        let version = Version { record: Some(Arc::new(record)), keys: Arc::default() };
        leaf.write(5, block(slot), version);
    }

    #[test]
    fn a_record_that_many_blocks_write_is_held_once() {
        let mut leaf = Leaf::new();
        // The last write of a block replaces its earlier ones.
        for n in [77, 88, 1] {
            write(&mut leaf, 1, Large(n, true));
        }
        let one = leaf.bytes().1;
        assert!(one < 1_250, "{one}");
        for slot in 2..=30 {
            write(&mut leaf, slot, Large(99, true));
            write(&mut leaf, slot, Large(slot as u8, true));
        }
        assert!(leaf.bytes().1 < one + 29 * 150, "{}", leaf.bytes().1);
        for slot in 1..=30 {
            let ancestors: Vec<_> = (1..=slot).map(block).collect();
            assert_eq!(large(&leaf, &ancestors), Some(Large(slot as u8, true)));
        }
        // Another kind of record starts with a new base.
        write(&mut leaf, 31, Large(31, false));
        write(&mut leaf, 32, Large(32, false));
        assert_eq!(large(&leaf, &[block(32)]), Some(Large(32, false)));
        // The base is counted as long as a patch needs it.
        let mut repacker = LeafRepacker::default();
        for slot in 1..=32 {
            let version = leaf.take_version(5, block(slot)).expect("it was written");
            leaf.root_version(5, block(slot), version, &mut repacker);
            assert_eq!(large(&leaf, &[]), Some(Large(slot as u8, slot < 31)));
            let bases = if slot < 31 { 2 } else { 1 };
            let least = bases * LARGE_BYTES;
            let most = bases * LARGE_BYTES + 33 * 150;
            assert!((least..most).contains(&leaf.bytes().1), "{slot}: {}", leaf.bytes().1);
        }
        assert!(leaf.bytes().1 < one + 50, "alone it is whole: {}", leaf.bytes().1);
        let ended = leaf.take_unpacked(5, |unpacked| unpacked.is_rooted);
        assert!(
            ended.is_some_and(|ended| !ended.version.record.expect("it is there").is_patched())
        );
        assert_eq!(leaf.bytes().1, 0);
    }
}
