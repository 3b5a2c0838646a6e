//! The versions of the records with 64 consecutive ids.
//!
//! Shape: rooted versions are packed together. Rooted versions that do not pack, and all unrooted ones, are
//! stored unpacked alongside them. So an unrooted write packs nothing, and rooting a block packs each
//! leaf that the block wrote once. A copy of a leaf shares the versions of each entry: an account that every
//! block writes has a version for each, and writes to its neighbours must not copy them.
//! Invariant: a position has at most one rooted version.

use std::sync::Arc;

use ledger::{AddressId, BlockId, Key, Record};

use crate::packed_leaf::{LEAF_LEN, LeafRepacker, PackedLeaf, WrittenRecord};
use crate::persistent_array::ARC_BYTES;
use crate::version::{Version, VisibleVersion};

/// The leaf.
pub(crate) struct Leaf<R> {
    packed: PackedLeaf,
    /// By position; without empty entries.
    unpacked: Box<[LeafEntry<R>]>,
}

/// The unpacked versions of one position.
struct LeafEntry<R> {
    position: u8,
    /// The bytes of all of them.
    bytes: usize,
    /// The rooted one first, then in the order of writing. A block comes after its ancestors: they
    /// were complete when it was opened.
    versions: Arc<Vec<UnpackedVersion<R>>>,
}

/// An unpacked version.
struct UnpackedVersion<R> {
    /// Never set for a removal.
    is_rooted: bool,
    bytes: u32,
    /// The block that wrote it.
    written_by: BlockId,
    version: Version<R>,
}

/// A version that no read of the state can see any more.
pub(crate) enum SupersededVersion<R> {
    Unpacked(Version<R>, BlockId),
    /// In the blob that contained it.
    Packed(PackedLeaf),
}

/// The leaf that has the versions of `id`.
pub(crate) fn leaf_of(id: AddressId) -> u32 {
    id.0 / LEAF_LEN
}

/// The position of `id` in its leaf.
pub(crate) fn position_of(id: AddressId) -> u8 {
    (id.0 % LEAF_LEN) as u8 // below 64
}

/// The id of a position.
pub(crate) fn id_of(leaf: u32, position: u8) -> AddressId {
    AddressId(leaf * LEAF_LEN + u32::from(position))
}

/// The positions whose bits are set.
pub(crate) fn bits(occupied: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |position| occupied & 1 << position != 0)
}

impl<R> Leaf<R> {
    pub(crate) fn new() -> Self {
        Self { packed: PackedLeaf::default(), unpacked: Box::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.occupied() == 0
    }

    /// A bit for every position with a version.
    pub(crate) fn occupied(&self) -> u64 {
        self.unpacked
            .iter()
            .fold(self.packed.occupied(), |occupied, unpacked| occupied | 1 << unpacked.position)
    }

    /// Whether there is a version at `position`.
    pub(crate) fn has(&self, position: u8) -> bool {
        self.packed.has(position) || self.has_unpacked(position)
    }

    /// Whether there is an unpacked version at `position`.
    pub(crate) fn has_unpacked(&self, position: u8) -> bool {
        !self.unpacked_at(position).is_empty()
    }

    /// Number of versions.
    pub(crate) fn versions(&self) -> usize {
        let unpacked: usize = self.unpacked.iter().map(|at| at.versions.len()).sum();
        self.packed.occupied().count_ones() as usize + unpacked
    }

    /// Some value of the leaf itself, to load it into the CPU cache.
    pub(crate) fn prefetch(&self) -> usize {
        self.packed.blob_len() + self.unpacked.len()
    }

    /// Some value of the data that it points to.
    pub(crate) fn prefetch_children(&self) -> usize {
        self.packed.first_byte() + self.unpacked.first().map_or(0, |at| at.versions.len())
    }

    /// The version that a block with these (sorted) ancestors sees at `position`: the newest version by one of
    /// them, or the rooted one. `None` if that is a removal.
    pub(crate) fn visible_version(
        &self,
        position: u8,
        ancestors: &[BlockId],
    ) -> Option<VisibleVersion<'_, R>> {
        let is_visible = |unpacked: &&UnpackedVersion<R>| {
            unpacked.is_rooted || ancestors.binary_search(&unpacked.written_by).is_ok()
        };
        match self.unpacked_at(position).iter().rev().find(is_visible) {
            Some(unpacked) => unpacked.version.as_visible(unpacked.written_by.slot),
            None => self.packed.get(position).map(VisibleVersion::from_packed),
        }
    }

    /// All versions at `position` except removals.
    pub(crate) fn versions_at(&self, position: u8) -> impl Iterator<Item = VisibleVersion<'_, R>> {
        let unpacked = self.unpacked_at(position).iter().rev();
        let unpacked =
            unpacked.filter_map(|unpacked| unpacked.version.as_visible(unpacked.written_by.slot));
        unpacked.chain(self.packed.get(position).map(VisibleVersion::from_packed))
    }

    /// Whether a version at `position` has `key`.
    pub(crate) fn is_found_by(&self, position: u8, key: Key) -> bool {
        self.versions_at(position).any(|version| version.has_key(key))
    }

    /// The heap bytes of packed and of unpacked versions.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let own = if self.is_empty() { 0 } else { ARC_BYTES + size_of::<Self>() };
        (own + self.packed.bytes(), self.unpacked.iter().map(LeafEntry::bytes).sum())
    }

    fn unpacked_at(&self, position: u8) -> &[UnpackedVersion<R>] {
        let at = self.entry_index(position).ok();
        at.map_or(&[], |at| &self.unpacked[at].versions)
    }

    /// The index of a position's entry, or where it would be inserted.
    fn entry_index(&self, position: u8) -> Result<usize, usize> {
        self.unpacked.binary_search_by_key(&position, |at| at.position)
    }
}

impl<R: Record> Leaf<R> {
    /// Takes the version that `block`, which is not the root, wrote at `position`.
    pub(crate) fn take_version(&mut self, position: u8, block: BlockId) -> Option<Version<R>> {
        self.take_unpacked(position, |unpacked| !unpacked.is_rooted && unpacked.written_by == block)
            .map(|unpacked| unpacked.version)
    }

    /// Inserts what `block`, which is not the root, writes at `position`; returns what it wrote there
    /// before.
    pub(crate) fn write(
        &mut self,
        position: u8,
        block: BlockId,
        version: Version<R>,
    ) -> Option<Version<R>> {
        let before = self.take_version(position, block);
        self.insert_unpacked(position, UnpackedVersion::new(false, block, version));
        before
    }

    /// Makes `version` by `block` the rooted one at `position`, in this leaf or in `repacker`; returns the
    /// one that it supersedes. The leaf is complete once it has been [`Self::repack`]ed.
    pub(crate) fn root_version(
        &mut self,
        position: u8,
        block: BlockId,
        version: Version<R>,
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
        let Some(record) = &version.record else {
            if was_packed {
                repacker.remove(position);
            }
            return superseded;
        };
        let written = WrittenRecord { record: &**record, keys: &version.keys, slot: block.slot };
        if !repacker.put(&self.packed, position, written) {
            if was_packed {
                repacker.remove(position);
            }
            self.insert_unpacked(position, UnpackedVersion::new(true, block, version));
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
        let at = self.entry_index(position).ok()?;
        let found = &mut self.unpacked[at];
        let number = found.versions.iter().rposition(is_it)?;
        let taken = Arc::make_mut(&mut found.versions).remove(number);
        found.bytes -= taken.bytes as usize;
        if found.versions.is_empty() {
            let mut unpacked = std::mem::take(&mut self.unpacked).into_vec();
            unpacked.remove(at);
            self.unpacked = unpacked.into_boxed_slice();
        }
        Some(taken)
    }

    fn insert_unpacked(&mut self, position: u8, new: UnpackedVersion<R>) {
        match self.entry_index(position) {
            Ok(at) => {
                let found = &mut self.unpacked[at];
                found.bytes += new.bytes as usize;
                let versions = Arc::make_mut(&mut found.versions);
                let at = if new.is_rooted { 0 } else { versions.len() };
                versions.reserve_exact(1);
                versions.insert(at, new);
            }
            Err(at) => {
                let bytes = new.bytes as usize;
                let mut unpacked = std::mem::take(&mut self.unpacked).into_vec();
                unpacked.reserve_exact(1);
                unpacked.insert(at, LeafEntry { position, bytes, versions: Arc::new(vec![new]) });
                self.unpacked = unpacked.into_boxed_slice();
            }
        }
    }
}

impl<R: Record> UnpackedVersion<R> {
    fn new(is_rooted: bool, written_by: BlockId, version: Version<R>) -> Self {
        let bytes = version.weight() + size_of::<Self>();
        Self { is_rooted, bytes: u32::try_from(bytes).unwrap_or(u32::MAX), written_by, version }
    }
}

impl<R> LeafEntry<R> {
    fn bytes(&self) -> usize {
        self.bytes + size_of::<Self>() + ARC_BYTES + size_of::<Vec<UnpackedVersion<R>>>()
    }
}

impl<R> SupersededVersion<R> {
    /// The version, which was at `position`, unless it is a removal.
    pub(crate) fn visible_version(&self, position: u8) -> Option<VisibleVersion<'_, R>> {
        match self {
            Self::Unpacked(version, written_by) => version.as_visible(written_by.slot),
            Self::Packed(packed) => packed.get(position).map(VisibleVersion::from_packed),
        }
    }
}

impl<R> Clone for Leaf<R> {
    fn clone(&self) -> Self {
        Self { packed: self.packed.clone(), unpacked: self.unpacked.clone() }
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

    struct Nothing;

    impl Record for Nothing {
        fn keys(&self, _: &mut dyn FnMut(KeyKind, Address)) {}
    }

    fn version() -> Version<Nothing> {
        Version { record: Some(Arc::new(Nothing)), keys: Arc::default() }
    }

    #[test]
    fn a_write_to_a_copy_copies_the_versions_of_its_own_entry_alone() {
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
        let pairs = leaf.unpacked.iter().zip(&before.unpacked);
        let copied = pairs.filter(|(now, then)| !Arc::ptr_eq(&now.versions, &then.versions));
        assert_eq!(copied.map(|(now, _)| now.position).collect::<Vec<_>>(), [7, 8]);
        assert_eq!((leaf.versions(), before.versions()), (64 * 32 + 1, 64 * 32));
        let bytes = leaf.bytes().1 - before.bytes().1;
        assert_eq!(bytes, version().weight() + size_of::<UnpackedVersion<Nothing>>());
    }
}
