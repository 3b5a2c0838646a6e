//! The state of one block, for readers.

use std::sync::Arc;

use ledger::{AddressId, BlockId, Slot};

use crate::Version;
use crate::pages::Pages;
use crate::versions::Versions;

/// One block's state, as it was when the snapshot was taken. Immutable; copies are cheap.
pub struct Snapshot<R, M> {
    pub(crate) block: BlockId,
    pub(crate) meta: Arc<M>,
    pub(crate) ancestors: Arc<[BlockId]>,
    pub(crate) records: Pages<Versions<R>>,
}

impl<R, M> Snapshot<R, M> {
    /// Which block.
    pub fn block(&self) -> BlockId {
        self.block
    }

    /// The block's facts.
    pub fn meta(&self) -> &Arc<M> {
        &self.meta
    }

    /// The version of `id` that the block sees; never a removal.
    pub fn version(&self, id: AddressId) -> Option<&Version<R>> {
        self.records.get(id)?.at(&self.ancestors).filter(|version| version.record.is_some())
    }

    /// The same, with the slot of the block that wrote it: the newest of the record's writes that
    /// the block sees.
    pub fn written(&self, id: AddressId) -> Option<(&Version<R>, Slot)> {
        let found = self.records.get(id)?.written_at(&self.ancestors)?;
        found.0.record.is_some().then_some(found)
    }

    /// All records that the block sees, by id.
    pub fn versions(&self) -> impl Iterator<Item = (AddressId, &Version<R>)> {
        self.records.iter().filter_map(|(id, versions)| {
            let version = versions.at(&self.ancestors)?;
            version.record.is_some().then_some((id, version))
        })
    }

    /// The ids from `first` on that have a version in some block. Cost: one look-up.
    pub fn ids_from(&self, first: AddressId) -> impl Iterator<Item = AddressId> {
        self.records.iter_from(first).map(|(id, _)| id)
    }

    /// How many records the block sees at most: those of other blocks are counted in.
    pub fn len_max(&self) -> usize {
        self.records.len()
    }
}

impl<R, M> Clone for Snapshot<R, M> {
    fn clone(&self) -> Self {
        Self {
            block: self.block,
            meta: Arc::clone(&self.meta),
            ancestors: Arc::clone(&self.ancestors),
            records: self.records.clone(),
        }
    }
}
