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
    /// How many ids [`Self::versions_of`] reads at once.
    pub const BATCH_MAX: usize = BATCH;

    /// Which block.
    pub fn block(&self) -> BlockId {
        self.block
    }

    /// The block's facts.
    pub fn meta(&self) -> &Arc<M> {
        &self.meta
    }

    /// The version of `id` that the block sees; never a removal.
    pub fn version(&self, id: AddressId) -> Option<VisibleVersion<'_, R>> {
        self.leaves.get(leaf_of(id))?.visible_version(position_of(id), &self.ancestors)
    }

    /// What [`Self::version`] gives for each of `ids`, at most [`Self::BATCH_MAX`], in their order; in
    /// place of what was in `found`.
    ///
    /// Cost: a read that finds nothing in the caches waits for some ten loads, one after the other.
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
        // The sums are of no use: that they are wanted is what has the bytes loaded.
        black_box(leaves.iter().flatten().map(|leaf| leaf.prefetch()).sum::<usize>());
        black_box(leaves.iter().flatten().map(|leaf| leaf.prefetch_children()).sum::<usize>());
        let seen = |(leaf, id): (&Option<&'a Leaf<R>>, &AddressId)| {
            leaf.as_ref()?.visible_version(position_of(*id), &self.ancestors)
        };
        found.extend(leaves.iter().zip(ids).map(seen));
        black_box(found.iter().flatten().map(VisibleVersion::prefetch).sum::<usize>());
    }

    /// All records that the block sees, by id.
    pub fn versions(&self) -> impl Iterator<Item = (AddressId, VisibleVersion<'_, R>)> {
        self.leaves.iter().flat_map(move |(number, leaf)| {
            let found = move |place| {
                Some((id_of(number, place), leaf.visible_version(place, &self.ancestors)?))
            };
            bits(leaf.occupied()).filter_map(found)
        })
    }

    /// The ids from `first` on that have a version in some block. Cost: one look-up.
    pub fn ids_from(&self, first: AddressId) -> impl Iterator<Item = AddressId> {
        ids_from(&self.leaves, first)
    }

    /// How many records the block sees at most: those of other blocks are counted in.
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
