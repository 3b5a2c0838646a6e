//! The state of one block, for readers.

use std::hint::black_box;
use std::sync::Arc;

use ledger::{AddressId, BlockId};

use crate::leaf::{Leaf, bits, id_of, leaf_of, position_of};
use crate::leaf_map::ids_from;
use crate::persistent_array::{BATCH, PersistentArray};
use crate::version::VisibleVersion;

/// One block's state, as it was when the snapshot was taken. Immutable; copies are cheap.
pub struct Snapshot<R, M> {
    pub(crate) block: BlockId,
    pub(crate) meta: Arc<M>,
    pub(crate) ancestors: Arc<[BlockId]>,
    pub(crate) leaves: PersistentArray<Leaf<R>>,
    pub(crate) len: usize,
}

impl<R, M> Snapshot<R, M> {
    /// Maximum ids of one [`Self::versions_of`].
    pub const BATCH_MAX: usize = BATCH;

    /// The block.
    pub fn block(&self) -> BlockId {
        self.block
    }

    /// The block's metadata.
    pub fn meta(&self) -> &Arc<M> {
        &self.meta
    }

    /// The version of `id` that the block sees; never a removal.
    pub fn version(&self, id: AddressId) -> Option<VisibleVersion<'_, R>> {
        self.leaves.get(leaf_of(id))?.visible_version(position_of(id), &self.ancestors)
    }

    /// The [`Self::version`] of each of `ids`, at most [`Self::BATCH_MAX`], in their order. Replaces the
    /// content of `found`.
    ///
    /// Cost: a read that finds nothing in the CPU caches waits for some ten loads, one after the other.
    /// Here each is under way for all ids at once.
    pub fn versions_of<'a>(
        &'a self,
        ids: &[AddressId],
        found: &mut Vec<Option<VisibleVersion<'a, R>>>,
    ) {
        found.clear();
        if let [id] = ids {
            found.push(self.version(*id));
            return;
        }
        let mut numbers = [0; BATCH];
        for (number, id) in numbers.iter_mut().zip(ids) {
            *number = leaf_of(*id);
        }
        let leaves = &self.leaves.get_each(&numbers[..ids.len()])[..ids.len()];
        // The sums are not used: `black_box` makes the compiler load the bytes.
        black_box(leaves.iter().flatten().map(|leaf| leaf.prefetch()).sum::<usize>());
        black_box(leaves.iter().flatten().map(|leaf| leaf.prefetch_children()).sum::<usize>());
        let visible = |(leaf, id): (&Option<&'a Leaf<R>>, &AddressId)| {
            leaf.as_ref()?.visible_version(position_of(*id), &self.ancestors)
        };
        found.extend(leaves.iter().zip(ids).map(visible));
        black_box(found.iter().flatten().map(VisibleVersion::prefetch).sum::<usize>());
    }

    /// All records that the block sees, by id.
    pub fn versions(&self) -> impl Iterator<Item = (AddressId, VisibleVersion<'_, R>)> {
        self.leaves.iter().flat_map(move |(number, leaf)| {
            let found = move |position| {
                Some((id_of(number, position), leaf.visible_version(position, &self.ancestors)?))
            };
            bits(leaf.occupied()).filter_map(found)
        })
    }

    /// The ids from `first` on that have a version in some block. Cost: one lookup.
    pub fn ids_from(&self, first: AddressId) -> impl Iterator<Item = AddressId> {
        ids_from(&self.leaves, first)
    }

    /// Maximum records that the block sees: those of other blocks are included.
    pub fn len_max(&self) -> usize {
        self.len
    }
}

impl<R, M> Clone for Snapshot<R, M> {
    fn clone(&self) -> Self {
        Self {
            block: self.block,
            meta: Arc::clone(&self.meta),
            ancestors: Arc::clone(&self.ancestors),
            leaves: self.leaves.clone(),
            len: self.len,
        }
    }
}
