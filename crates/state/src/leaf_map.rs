//! All leaves, and the books of what they hold.

use ledger::{AddressId, Record};

use crate::leaf::{Leaf, bits, id_of, leaf_of};
use crate::packed_leaf::LeafRepacker;
use crate::persistent_array::PersistentArray;

/// The heap bytes of a state, from what it holds now. Old snapshots may hold more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateMemory {
    /// Of packed records, and of the leaves that lead to them.
    pub packed: usize,
    /// Of records that are kept as they are, and of unrooted versions. What they share with others
    /// is counted.
    pub unpacked: usize,
    /// Of the pages that lead to leaves.
    pub pages: usize,
}

/// The leaves, for the writer.
pub(crate) struct LeafMap<R> {
    array: PersistentArray<Leaf<R>>,
    /// Ids with a version.
    len: usize,
    packed_bytes: usize,
    unpacked_bytes: usize,
    repacker: LeafRepacker,
}

impl<R> LeafMap<R> {
    pub(crate) fn new() -> Self {
        Self {
            array: PersistentArray::new(),
            len: 0,
            packed_bytes: 0,
            unpacked_bytes: 0,
            repacker: LeafRepacker::default(),
        }
    }

    /// What snapshots share.
    pub(crate) fn array(&self) -> &PersistentArray<Leaf<R>> {
        &self.array
    }

    /// How many ids have a version.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> StateMemory {
        StateMemory {
            packed: self.packed_bytes,
            unpacked: self.unpacked_bytes,
            pages: self.array.bytes(),
        }
    }
}

#[cfg(test)]
impl<R> LeafMap<R> {
    /// What [`Self::len`] and [`Self::bytes`] must be.
    pub(crate) fn counted(&self) -> (usize, StateMemory) {
        let mut bytes = StateMemory { pages: self.array.bytes(), ..StateMemory::default() };
        let mut len = 0;
        for (_, leaf) in self.array.iter() {
            len += leaf.occupied().count_ones() as usize;
            bytes.packed += leaf.bytes().0;
            bytes.unpacked += leaf.bytes().1;
        }
        (len, bytes)
    }
}

impl<R: Record> LeafMap<R> {
    /// Changes the leaf of that number, which is made if it is not there and goes if it is empty
    /// afterwards. It is repacked once.
    pub(crate) fn change(
        &mut self,
        number: u32,
        how: impl FnOnce(&mut Leaf<R>, &mut LeafRepacker),
    ) {
        let leaf = self.array.entry(number, Leaf::new);
        let (packed, kept) = leaf.bytes();
        let len = leaf.occupied().count_ones() as usize;
        how(leaf, &mut self.repacker);
        leaf.repack(&mut self.repacker);
        let (packed_now, kept_now) = leaf.bytes();
        self.packed_bytes = self.packed_bytes + packed_now - packed;
        self.unpacked_bytes = self.unpacked_bytes + kept_now - kept;
        self.len = self.len + leaf.occupied().count_ones() as usize - len;
        if leaf.is_empty() {
            self.array.remove(number);
        }
    }
}

/// The ids from `first` on that have a version.
pub(crate) fn ids_from<R>(
    pages: &PersistentArray<Leaf<R>>,
    first: AddressId,
) -> impl Iterator<Item = AddressId> {
    let leaves = pages.iter_from(leaf_of(first));
    let ids = leaves
        .flat_map(|(number, leaf)| bits(leaf.occupied()).map(move |place| id_of(number, place)));
    ids.skip_while(move |id| *id < first)
}
