//! All leaves, and the books of what they hold.

use ledger::{AddressId, Record};

use crate::leaf::{Leaf, bits, id_of, leaf_of};
use crate::packs::Repack;
use crate::pages::Pages;

/// The heap bytes of a state, from what it holds now. Old snapshots may hold more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateBytes {
    /// Of packed records, and of the leaves that lead to them.
    pub packed: usize,
    /// Of records that are kept as they are, and of unrooted versions. What they share with others
    /// is counted.
    pub kept: usize,
    /// Of the pages that lead to leaves.
    pub pages: usize,
}

/// The leaves, for the writer.
pub(crate) struct Leaves<R> {
    pages: Pages<Leaf<R>>,
    /// Ids with a version.
    len: usize,
    packed_bytes: usize,
    kept_bytes: usize,
    repack: Repack,
}

impl<R> Leaves<R> {
    pub(crate) fn new() -> Self {
        Self {
            pages: Pages::new(),
            len: 0,
            packed_bytes: 0,
            kept_bytes: 0,
            repack: Repack::default(),
        }
    }

    /// What snapshots share.
    pub(crate) fn pages(&self) -> &Pages<Leaf<R>> {
        &self.pages
    }

    /// How many ids have a version.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> StateBytes {
        StateBytes { packed: self.packed_bytes, kept: self.kept_bytes, pages: self.pages.bytes() }
    }
}

#[cfg(test)]
impl<R> Leaves<R> {
    /// What [`Self::len`] and [`Self::bytes`] must be.
    pub(crate) fn counted(&self) -> (usize, StateBytes) {
        let mut bytes = StateBytes { pages: self.pages.bytes(), ..StateBytes::default() };
        let mut len = 0;
        for (_, leaf) in self.pages.iter() {
            len += leaf.places().count_ones() as usize;
            bytes.packed += leaf.bytes().0;
            bytes.kept += leaf.bytes().1;
        }
        (len, bytes)
    }
}

impl<R: Record> Leaves<R> {
    /// Changes the leaf of that number, which is made if it is not there and goes if it is empty
    /// afterwards. It is repacked once.
    pub(crate) fn change(&mut self, number: u32, how: impl FnOnce(&mut Leaf<R>, &mut Repack)) {
        let leaf = self.pages.entry(number, Leaf::new);
        let (packed, kept) = leaf.bytes();
        let len = leaf.places().count_ones() as usize;
        how(leaf, &mut self.repack);
        leaf.repack(&mut self.repack);
        let (packed_now, kept_now) = leaf.bytes();
        self.packed_bytes = self.packed_bytes + packed_now - packed;
        self.kept_bytes = self.kept_bytes + kept_now - kept;
        self.len = self.len + leaf.places().count_ones() as usize - len;
        if leaf.is_empty() {
            self.pages.remove(number);
        }
    }
}

/// The ids from `first` on that have a version.
pub(crate) fn ids_from<R>(
    pages: &Pages<Leaf<R>>,
    first: AddressId,
) -> impl Iterator<Item = AddressId> {
    let leaves = pages.iter_from(leaf_of(first));
    let ids = leaves
        .flat_map(|(number, leaf)| bits(leaf.places()).map(move |place| id_of(number, place)));
    ids.skip_while(move |id| *id < first)
}
