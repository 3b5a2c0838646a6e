//! The versions of the records under 64 ids that follow each other.
//!
//! Shape: rooted versions are packed together; those that do not pack, and all unrooted ones, stand
//! beside them as they are. So an unrooted write packs nothing, and rooting a block packs once each
//! leaf that the block wrote. The copy of a leaf shares what stands at each place: an account that every
//! block writes has a version for each, and its neighbours' writes must not pay for them.
//! Invariant: a place has at most one rooted version.

use std::sync::Arc;

use ledger::{AddressId, BlockId, Key, Record};

use crate::packed_leaf::{LEAF_LEN, LeafRepacker, PackedLeaf};
use crate::persistent_array::ARC_BYTES;
use crate::version::{Version, VisibleVersion};

/// The leaf.
pub(crate) struct Leaf<R> {
    packed: PackedLeaf,
    /// By place; none without a version.
    unpacked: Box<[LeafEntry<R>]>,
}

/// The versions of one place that are not packed.
struct LeafEntry<R> {
    position: u8,
    /// What all of them take.
    bytes: usize,
    /// The rooted one first, then by the order of writing. A block comes after its ancestors: those
    /// were complete when it was opened.
    versions: Arc<Vec<UnpackedVersion<R>>>,
}

/// A version that is not packed.
struct UnpackedVersion<R> {
    /// Never of a removal.
    is_rooted: bool,
    bytes: u32,
    /// Who wrote it.
    written_by: BlockId,
    version: Version<R>,
}

/// A version that no read of the state can see any more.
pub(crate) enum SupersededVersion<R> {
    Unpacked(Version<R>, BlockId),
    /// In the blob that it was in.
    Packed(PackedLeaf),
}

/// Which leaf has the versions of `id`.
pub(crate) fn leaf_of(id: AddressId) -> u32 {
    id.0 / LEAF_LEN
}

/// Which place of it.
pub(crate) fn position_of(id: AddressId) -> u8 {
    (id.0 % LEAF_LEN) as u8 // below 64
}

/// The id of a place.
pub(crate) fn id_of(leaf: u32, place: u8) -> AddressId {
    AddressId(leaf * LEAF_LEN + u32::from(place))
}

/// The places whose bits are set.
pub(crate) fn bits(places: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |place| places & 1 << place != 0)
}

impl<R> Leaf<R> {
    pub(crate) fn new() -> Self {
        Self { packed: PackedLeaf::default(), unpacked: Box::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.occupied() == 0
    }

    /// A bit for every place with a version.
    pub(crate) fn occupied(&self) -> u64 {
        self.unpacked
            .iter()
            .fold(self.packed.occupied(), |places, loose| places | 1 << loose.position)
    }

    /// Whether there is a version at `place`.
    pub(crate) fn has(&self, place: u8) -> bool {
        self.packed.has(place) || self.has_unpacked(place)
    }

    /// Whether there is one that is not packed.
    pub(crate) fn has_unpacked(&self, place: u8) -> bool {
        !self.unpacked_at(place).is_empty()
    }

    /// How many versions there are.
    pub(crate) fn versions(&self) -> usize {
        let loose: usize = self.unpacked.iter().map(|at| at.versions.len()).sum();
        self.packed.occupied().count_ones() as usize + loose
    }

    /// Something of the leaf itself, for who wants it in the cache.
    pub(crate) fn prefetch(&self) -> usize {
        self.packed.blob_len() + self.unpacked.len()
    }

    /// Something of what it leads to.
    pub(crate) fn prefetch_children(&self) -> usize {
        self.packed.first_byte() + self.unpacked.first().map_or(0, |at| at.versions.len())
    }

    /// What a block with these ancestors (sorted) sees at `place`: the newest version by one of
    /// them, or the rooted one; unless that is a removal.
    pub(crate) fn visible_version(
        &self,
        place: u8,
        ancestors: &[BlockId],
    ) -> Option<VisibleVersion<'_, R>> {
        let is_seen = |loose: &&UnpackedVersion<R>| {
            loose.is_rooted || ancestors.binary_search(&loose.written_by).is_ok()
        };
        match self.unpacked_at(place).iter().rev().find(is_seen) {
            Some(loose) => loose.version.as_visible(loose.written_by.slot),
            None => self.packed.get(place).map(VisibleVersion::from_packed),
        }
    }

    /// All versions at `place` but removals.
    pub(crate) fn versions_at(&self, place: u8) -> impl Iterator<Item = VisibleVersion<'_, R>> {
        let loose = self.unpacked_at(place).iter().rev();
        let loose = loose.filter_map(|loose| loose.version.as_visible(loose.written_by.slot));
        loose.chain(self.packed.get(place).map(VisibleVersion::from_packed))
    }

    /// Whether a version at `place` is found by `key`.
    pub(crate) fn is_found_by(&self, place: u8, key: Key) -> bool {
        self.versions_at(place).any(|seen| seen.has_key(key))
    }

    /// The heap bytes of what is packed, and of what is kept as it is.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let own = if self.is_empty() { 0 } else { ARC_BYTES + size_of::<Self>() };
        (own + self.packed.bytes(), self.unpacked.iter().map(LeafEntry::bytes).sum())
    }

    fn unpacked_at(&self, place: u8) -> &[UnpackedVersion<R>] {
        let at = self.entry_index(place).ok();
        at.map_or(&[], |at| &self.unpacked[at].versions)
    }

    /// Where a place stands among those that have something, or would.
    fn entry_index(&self, place: u8) -> Result<usize, usize> {
        self.unpacked.binary_search_by_key(&place, |at| at.position)
    }
}

impl<R: Record> Leaf<R> {
    /// The version that `block`, which is not the root, wrote at `place`.
    pub(crate) fn take_version(&mut self, place: u8, block: BlockId) -> Option<Version<R>> {
        self.take_unpacked(place, |loose| !loose.is_rooted && loose.written_by == block)
            .map(|loose| loose.version)
    }

    /// Puts in what `block`, which is not the root, writes at `place`; gives what it wrote there
    /// before.
    pub(crate) fn write(
        &mut self,
        place: u8,
        block: BlockId,
        version: Version<R>,
    ) -> Option<Version<R>> {
        let before = self.take_version(place, block);
        self.insert_unpacked(place, UnpackedVersion::new(false, block, version));
        before
    }

    /// Makes `version` by `block` the rooted one at `place`, in this leaf or in `repack`; gives the
    /// one that it hides. It is all there once the leaf has been [`Self::repack`]ed.
    pub(crate) fn root_version(
        &mut self,
        place: u8,
        block: BlockId,
        version: Version<R>,
        repack: &mut LeafRepacker,
    ) -> Option<SupersededVersion<R>> {
        if repack.has_change(place) {
            self.repack(repack);
        }
        let kept = self.take_unpacked(place, |loose| loose.is_rooted);
        let was_packed = self.packed.has(place);
        let hidden = match kept {
            Some(loose) => Some(SupersededVersion::Unpacked(loose.version, loose.written_by)),
            None => was_packed.then(|| SupersededVersion::Packed(self.packed.clone())),
        };
        let Some(record) = &version.record else {
            if was_packed {
                repack.remove(place);
            }
            return hidden;
        };
        if !repack.put(&self.packed, place, (&**record, &version.keys, block.slot)) {
            if was_packed {
                repack.remove(place);
            }
            self.insert_unpacked(place, UnpackedVersion::new(true, block, version));
        }
        hidden
    }

    /// Does what is left of rooting.
    pub(crate) fn repack(&mut self, repack: &mut LeafRepacker) {
        repack.finish(&mut self.packed);
    }

    fn take_unpacked(
        &mut self,
        place: u8,
        is_it: impl Fn(&UnpackedVersion<R>) -> bool,
    ) -> Option<UnpackedVersion<R>> {
        let at = self.entry_index(place).ok()?;
        let found = &mut self.unpacked[at];
        let number = found.versions.iter().rposition(is_it)?;
        let taken = Arc::make_mut(&mut found.versions).remove(number);
        found.bytes -= taken.bytes as usize;
        if found.versions.is_empty() {
            let mut loose = std::mem::take(&mut self.unpacked).into_vec();
            loose.remove(at);
            self.unpacked = loose.into_boxed_slice();
        }
        Some(taken)
    }

    fn insert_unpacked(&mut self, place: u8, new: UnpackedVersion<R>) {
        match self.entry_index(place) {
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
                let mut loose = std::mem::take(&mut self.unpacked).into_vec();
                loose.reserve_exact(1);
                loose.insert(
                    at,
                    LeafEntry { position: place, bytes, versions: Arc::new(vec![new]) },
                );
                self.unpacked = loose.into_boxed_slice();
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
    /// The version, which was at `place`, unless it is a removal.
    pub(crate) fn visible_version(&self, place: u8) -> Option<VisibleVersion<'_, R>> {
        match self {
            Self::Unpacked(version, by) => version.as_visible(by.slot),
            Self::Packed(packs) => packs.get(place).map(VisibleVersion::from_packed),
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
        let block = |slot| BlockId { slot, bank: slot };
        let mut leaf = Leaf::new();
        for slot in 1..=32 {
            for place in (0..64).rev() {
                assert!(leaf.write(place, block(slot), version()).is_none());
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
