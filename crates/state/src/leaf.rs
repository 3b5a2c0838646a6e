//! The versions of the records under 64 ids that follow each other.
//!
//! Shape: rooted versions are packed together; those that do not pack, and all unrooted ones, stand
//! beside them as they are. So an unrooted write packs nothing, and rooting a block packs once each
//! leaf that the block wrote. The copy of a leaf shares what stands at each place: an account that every
//! block writes has a version for each, and its neighbours' writes must not pay for them.
//! Invariant: a place has at most one rooted version.

use std::sync::Arc;

use ledger::{AddressId, BlockId, Key, Record};

use crate::packs::{PLACES, Packs, Repack};
use crate::pages::ARC_BYTES;
use crate::versions::{Seen, Version};

/// The leaf.
pub(crate) struct Leaf<R> {
    packs: Packs,
    /// By place; none without a version.
    loose: Box<[Place<R>]>,
}

/// The versions of one place that are not packed.
struct Place<R> {
    place: u8,
    /// What all of them take.
    bytes: usize,
    /// The rooted one first, then by the order of writing. A block comes after its ancestors: those
    /// were complete when it was opened.
    versions: Arc<Vec<Loose<R>>>,
}

/// A version that is not packed.
struct Loose<R> {
    /// Never of a removal.
    is_rooted: bool,
    bytes: u32,
    /// Who wrote it.
    by: BlockId,
    version: Version<R>,
}

/// A version that no read of the state can see any more.
pub(crate) enum Hidden<R> {
    Loose(Version<R>, BlockId),
    /// In the blob that it was in.
    Packed(Packs),
}

/// Which leaf has the versions of `id`.
pub(crate) fn leaf_of(id: AddressId) -> u32 {
    id.0 / PLACES
}

/// Which place of it.
pub(crate) fn place_of(id: AddressId) -> u8 {
    (id.0 % PLACES) as u8 // below 64
}

/// The id of a place.
pub(crate) fn id_of(leaf: u32, place: u8) -> AddressId {
    AddressId(leaf * PLACES + u32::from(place))
}

/// The places whose bits are set.
pub(crate) fn bits(places: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |place| places & 1 << place != 0)
}

impl<R> Leaf<R> {
    pub(crate) fn new() -> Self {
        Self { packs: Packs::default(), loose: Box::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places() == 0
    }

    /// A bit for every place with a version.
    pub(crate) fn places(&self) -> u64 {
        self.loose.iter().fold(self.packs.places(), |places, loose| places | 1 << loose.place)
    }

    /// Whether there is a version at `place`.
    pub(crate) fn has(&self, place: u8) -> bool {
        self.packs.has(place) || self.has_loose(place)
    }

    /// Whether there is one that is not packed.
    pub(crate) fn has_loose(&self, place: u8) -> bool {
        !self.loose_at(place).is_empty()
    }

    /// How many versions there are.
    pub(crate) fn versions(&self) -> usize {
        let loose: usize = self.loose.iter().map(|at| at.versions.len()).sum();
        self.packs.places().count_ones() as usize + loose
    }

    /// Something of the leaf itself, for who wants it in the cache.
    pub(crate) fn touch(&self) -> usize {
        self.packs.blob_len() + self.loose.len()
    }

    /// Something of what it leads to.
    pub(crate) fn touch_below(&self) -> usize {
        self.packs.first_byte() + self.loose.first().map_or(0, |at| at.versions.len())
    }

    /// What a block with these ancestors (sorted) sees at `place`: the newest version by one of
    /// them, or the rooted one; unless that is a removal.
    pub(crate) fn seen(&self, place: u8, ancestors: &[BlockId]) -> Option<Seen<'_, R>> {
        let is_seen =
            |loose: &&Loose<R>| loose.is_rooted || ancestors.binary_search(&loose.by).is_ok();
        match self.loose_at(place).iter().rev().find(is_seen) {
            Some(loose) => loose.version.seen(loose.by.slot),
            None => self.packs.get(place).map(Seen::packed),
        }
    }

    /// All versions at `place` but removals.
    pub(crate) fn versions_at(&self, place: u8) -> impl Iterator<Item = Seen<'_, R>> {
        let loose = self.loose_at(place).iter().rev();
        let loose = loose.filter_map(|loose| loose.version.seen(loose.by.slot));
        loose.chain(self.packs.get(place).map(Seen::packed))
    }

    /// Whether a version at `place` is found by `key`.
    pub(crate) fn is_found_by(&self, place: u8, key: Key) -> bool {
        self.versions_at(place).any(|seen| seen.has_key(key))
    }

    /// The heap bytes of what is packed, and of what is kept as it is.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let own = if self.is_empty() { 0 } else { ARC_BYTES + size_of::<Self>() };
        (own + self.packs.bytes(), self.loose.iter().map(Place::bytes).sum())
    }

    fn loose_at(&self, place: u8) -> &[Loose<R>] {
        let at = self.place_at(place).ok();
        at.map_or(&[], |at| &self.loose[at].versions)
    }

    /// Where a place stands among those that have something, or would.
    fn place_at(&self, place: u8) -> Result<usize, usize> {
        self.loose.binary_search_by_key(&place, |at| at.place)
    }
}

impl<R: Record> Leaf<R> {
    /// The version that `block`, which is not the root, wrote at `place`.
    pub(crate) fn take(&mut self, place: u8, block: BlockId) -> Option<Version<R>> {
        self.take_loose(place, |loose| !loose.is_rooted && loose.by == block)
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
        let before = self.take(place, block);
        self.put_loose(place, Loose::new(false, block, version));
        before
    }

    /// Makes `version` by `block` the rooted one at `place`, in this leaf or in `repack`; gives the
    /// one that it hides. It is all there once the leaf has been [`Self::repack`]ed.
    pub(crate) fn root(
        &mut self,
        place: u8,
        block: BlockId,
        version: Version<R>,
        repack: &mut Repack,
    ) -> Option<Hidden<R>> {
        if repack.changes(place) {
            self.repack(repack);
        }
        let kept = self.take_loose(place, |loose| loose.is_rooted);
        let was_packed = self.packs.has(place);
        let hidden = match kept {
            Some(loose) => Some(Hidden::Loose(loose.version, loose.by)),
            None => was_packed.then(|| Hidden::Packed(self.packs.clone())),
        };
        let Some(record) = &version.record else {
            if was_packed {
                repack.remove(place);
            }
            return hidden;
        };
        if !repack.put(&self.packs, place, (&**record, &version.keys, block.slot)) {
            if was_packed {
                repack.remove(place);
            }
            self.put_loose(place, Loose::new(true, block, version));
        }
        hidden
    }

    /// Does what is left of rooting.
    pub(crate) fn repack(&mut self, repack: &mut Repack) {
        repack.finish(&mut self.packs);
    }

    fn take_loose(&mut self, place: u8, is_it: impl Fn(&Loose<R>) -> bool) -> Option<Loose<R>> {
        let at = self.place_at(place).ok()?;
        let found = &mut self.loose[at];
        let number = found.versions.iter().rposition(is_it)?;
        let taken = Arc::make_mut(&mut found.versions).remove(number);
        found.bytes -= taken.bytes as usize;
        if found.versions.is_empty() {
            let mut loose = std::mem::take(&mut self.loose).into_vec();
            loose.remove(at);
            self.loose = loose.into_boxed_slice();
        }
        Some(taken)
    }

    fn put_loose(&mut self, place: u8, new: Loose<R>) {
        match self.place_at(place) {
            Ok(at) => {
                let found = &mut self.loose[at];
                found.bytes += new.bytes as usize;
                let versions = Arc::make_mut(&mut found.versions);
                let at = if new.is_rooted { 0 } else { versions.len() };
                versions.reserve_exact(1);
                versions.insert(at, new);
            }
            Err(at) => {
                let bytes = new.bytes as usize;
                let mut loose = std::mem::take(&mut self.loose).into_vec();
                loose.reserve_exact(1);
                loose.insert(at, Place { place, bytes, versions: Arc::new(vec![new]) });
                self.loose = loose.into_boxed_slice();
            }
        }
    }
}

impl<R: Record> Loose<R> {
    fn new(is_rooted: bool, by: BlockId, version: Version<R>) -> Self {
        let bytes = version.weight() + size_of::<Self>();
        Self { is_rooted, bytes: u32::try_from(bytes).unwrap_or(u32::MAX), by, version }
    }
}

impl<R> Place<R> {
    fn bytes(&self) -> usize {
        self.bytes + size_of::<Self>() + ARC_BYTES + size_of::<Vec<Loose<R>>>()
    }
}

impl<R> Hidden<R> {
    /// The version, which was at `place`, unless it is a removal.
    pub(crate) fn seen(&self, place: u8) -> Option<Seen<'_, R>> {
        match self {
            Self::Loose(version, by) => version.seen(by.slot),
            Self::Packed(packs) => packs.get(place).map(Seen::packed),
        }
    }
}

impl<R> Clone for Leaf<R> {
    fn clone(&self) -> Self {
        Self { packs: self.packs.clone(), loose: self.loose.clone() }
    }
}

impl<R> Clone for Place<R> {
    fn clone(&self) -> Self {
        Self { versions: Arc::clone(&self.versions), ..*self }
    }
}

impl<R> Clone for Loose<R> {
    fn clone(&self) -> Self {
        Self { version: self.version.clone(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use ledger::{Address, Facet};

    use super::*;

    struct Nothing;

    impl Record for Nothing {
        fn keys(&self, _: &mut dyn FnMut(Facet, Address)) {}
    }

    fn version() -> Version<Nothing> {
        Version { record: Some(Arc::new(Nothing)), keys: Arc::default() }
    }

    #[test]
    fn a_write_to_a_copy_copies_the_versions_of_its_own_place_alone() {
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
        let pairs = leaf.loose.iter().zip(&before.loose);
        let copied = pairs.filter(|(now, then)| !Arc::ptr_eq(&now.versions, &then.versions));
        assert_eq!(copied.map(|(now, _)| now.place).collect::<Vec<_>>(), [7, 8]);
        assert_eq!((leaf.versions(), before.versions()), (64 * 32 + 1, 64 * 32));
        let bytes = leaf.bytes().1 - before.bytes().1;
        assert_eq!(bytes, version().weight() + size_of::<Loose<Nothing>>());
    }
}
