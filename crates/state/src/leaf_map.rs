//! All leaves, and their totals.

use ledger::{AddressId, Record};

use crate::leaf::{Leaf, bits, id_at, leaf_number};
use crate::packed_leaf::LeafRepacker;
use crate::persistent_array::PersistentArray;

/// The heap bytes of a state that are in use now. Old snapshots may need more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateMemory {
    /// Bytes of packed records, and of the leaves that refer to them.
    pub packed: usize,
    /// Bytes of records that are stored unpacked, and of unrooted versions. Memory that they share with others
    /// is included.
    pub unpacked: usize,
    /// Bytes of the pages of the array of leaves.
    pub pages: usize,
}

/// All leaves by number, for the writer.
pub(crate) struct LeafMap<R> {
    array: PersistentArray<Leaf<R>>,
    /// Number of ids that have a version.
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

    /// Returns the part that snapshots share.
    pub(crate) fn array(&self) -> &PersistentArray<Leaf<R>> {
        &self.array
    }

    /// Returns the number of ids that have a version.
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
    /// Returns the values that [`Self::len`] and [`Self::bytes`] must have.
    pub(crate) fn recount(&self) -> (usize, StateMemory) {
        let mut bytes = StateMemory { pages: self.array.bytes(), ..StateMemory::default() };
        let mut len = 0;
        for (_, leaf) in self.array.iter() {
            len += leaf.occupied_bits().count_ones() as usize;
            bytes.packed += leaf.bytes().0;
            bytes.unpacked += leaf.bytes().1;
        }
        (len, bytes)
    }
}

impl<R: Record> LeafMap<R> {
    /// Changes the leaf of this number. The leaf is created if it does not exist, and removed if it is empty
    /// afterwards. It is repacked once.
    pub(crate) fn change(
        &mut self,
        number: u32,
        how: impl FnOnce(&mut Leaf<R>, &mut LeafRepacker),
    ) {
        let leaf = self.array.entry(number, Leaf::new);
        let (packed, unpacked) = leaf.bytes();
        let len = leaf.occupied_bits().count_ones() as usize;
        how(leaf, &mut self.repacker);
        leaf.repack(&mut self.repacker);
        let (packed_now, unpacked_now) = leaf.bytes();
        self.packed_bytes = self.packed_bytes + packed_now - packed;
        self.unpacked_bytes = self.unpacked_bytes + unpacked_now - unpacked;
        self.len = self.len + leaf.occupied_bits().count_ones() as usize - len;
        if leaf.is_empty() {
            self.array.remove(number);
        }
    }
}

/// Returns the ids from `first` on that have a version.
pub(crate) fn ids_from<R>(
    array: &PersistentArray<Leaf<R>>,
    first: AddressId,
) -> impl Iterator<Item = AddressId> {
    let leaves = array.iter_from(leaf_number(first));
    let ids = leaves.flat_map(|(number, leaf)| {
        bits(leaf.occupied_bits()).map(move |position| id_at(number, position))
    });
    ids.skip_while(move |id| *id < first)
}
