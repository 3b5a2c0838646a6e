//! The state of one block, for readers.

use std::hint::black_box;
use std::sync::Arc;

use ledger::{AddressId, BlockId};

use crate::leaf::{Leaf, bits, id_at, leaf_number};
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
    /// Maximum ids of one [`Self::find_versions`].
    pub const BATCH_MAX: usize = BATCH;

    /// Returns the id of the block.
    pub fn block(&self) -> BlockId {
        self.block
    }

    /// Returns the block's metadata.
    pub fn meta(&self) -> &Arc<M> {
        &self.meta
    }

    /// Returns the version of `id` that the block sees; never a removal.
    pub fn version(&self, id: AddressId) -> Option<VisibleVersion<'_, R>> {
        self.leaves.get(leaf_number(id))?.visible_version(id, &self.ancestors)
    }

    /// Finds the [`Self::version`] of each of `ids`, at most [`Self::BATCH_MAX`], in their order. Replaces the
    /// content of `found`.
    ///
    /// Cost: a read that finds nothing in the CPU caches waits for some ten loads, one after the other.
    /// Here each is under way for all ids at once.
    pub fn find_versions<'a>(
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
            *number = leaf_number(*id);
        }
        let leaves = &self.leaves.get_each(&numbers[..ids.len()])[..ids.len()];
        // The sums are not used: `black_box` makes the compiler load the bytes.
        black_box(leaves.iter().flatten().map(|leaf| leaf.prefetch()).sum::<usize>());
        black_box(leaves.iter().flatten().map(|leaf| leaf.prefetch_children()).sum::<usize>());
        let visible = |(leaf, id): (&Option<&'a Leaf<R>>, &AddressId)| {
            leaf.as_ref()?.visible_version(*id, &self.ancestors)
        };
        found.extend(leaves.iter().zip(ids).map(visible));
        black_box(found.iter().flatten().map(VisibleVersion::prefetch).sum::<usize>());
    }

    /// Returns all records that the block sees, by id.
    pub fn versions(&self) -> impl Iterator<Item = (AddressId, VisibleVersion<'_, R>)> {
        self.leaves.iter().flat_map(move |(number, leaf)| {
            let found = move |position| {
                let id = id_at(number, position);
                Some((id, leaf.visible_version(id, &self.ancestors)?))
            };
            bits(leaf.occupied_bits()).filter_map(found)
        })
    }

    /// Returns the ids from `first` on that have a version in some block. Cost: one lookup.
    pub fn ids_from(&self, first: AddressId) -> impl Iterator<Item = AddressId> {
        ids_from(&self.leaves, first)
    }

    /// Returns the maximum records that the block sees: those of other blocks are included.
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
