//! The writer's state: all versions of all records, and the blocks that wrote them.

use std::collections::BTreeSet;
use std::sync::Arc;

use ledger::{AddressId, BlockId, Key};

use crate::pages::Pages;
use crate::tree::Tree;
use crate::versions::Versions;
use crate::{BlockError, Snapshot, Version};

/// Records of type `R` by address id, and facts of type `M` by block.
///
/// The root is open at first, so that it can be filled; it takes no child until it is complete.
pub struct State<R, M> {
    tree: Tree<M>,
    records: Pages<Versions<R>>,
}

/// A version that no read of the state can see any more. Snapshots taken before still do.
#[derive(Debug, PartialEq, Eq)]
pub struct Removed {
    /// Whose it was.
    pub id: AddressId,
    /// The keys it was found by.
    pub keys: Arc<[Key]>,
    /// Whether it was the record's last version: nothing is known under the id now.
    pub is_last: bool,
}

impl<R, M> State<R, M> {
    /// A state with no records at an open root.
    pub fn new(root: BlockId, meta: Arc<M>) -> Self {
        Self { tree: Tree::new(root, meta), records: Pages::new() }
    }

    /// The newest block that cannot be taken back.
    pub fn root(&self) -> BlockId {
        self.tree.root()
    }

    /// Whether `block` is the root or above it.
    pub fn contains_block(&self, block: BlockId) -> bool {
        self.tree.contains(block)
    }

    /// How many blocks are above the root.
    pub fn unrooted(&self) -> usize {
        self.tree.unrooted()
    }

    /// What `block` is built on; `None` for the root.
    pub fn parent(&self, block: BlockId) -> Result<Option<BlockId>, BlockError> {
        self.tree.parent(block)
    }

    /// Opens `block` on top of `parent`, which must be complete.
    pub fn open(
        &mut self,
        block: BlockId,
        parent: BlockId,
        meta: Arc<M>,
    ) -> Result<(), BlockError> {
        self.tree.open(block, parent, meta)
    }

    /// Replaces the facts of `block`.
    pub fn set_meta(&mut self, block: BlockId, meta: Arc<M>) -> Result<(), BlockError> {
        self.tree.block_mut(block)?.meta = meta;
        Ok(())
    }

    /// Whether `block` may be written: it is open.
    pub fn check_writable(&mut self, block: BlockId) -> Result<(), BlockError> {
        self.tree.writable(block).map(|_| ())
    }

    /// Writes one record in `block`, in place of what the block wrote there before. True if nothing
    /// was known under `id`; `removed` gets the version that this write hides for good, if any.
    pub fn write(
        &mut self,
        block: BlockId,
        id: AddressId,
        version: Version<R>,
        removed: &mut Vec<Removed>,
    ) -> Result<bool, BlockError> {
        let root = self.tree.root();
        let writer = self.tree.writable(block)?;
        let versions = self.records.entry(id, Versions::new);
        let is_new = versions.is_empty();
        let hidden = if block == root {
            std::mem::replace(&mut versions.rooted, version.record.is_some().then_some(version))
        } else {
            let own = versions.unrooted.iter_mut().find(|(by, _)| *by == block);
            if let Some((_, own)) = own {
                Some(std::mem::replace(own, version))
            } else {
                versions.unrooted.push((block, version));
                writer.written.push(id);
                None
            }
        };
        let is_last = versions.is_empty();
        if is_last {
            self.records.remove(id);
        }
        if is_last || hidden.is_some() {
            let keys = hidden.map(|version| version.keys).unwrap_or_default();
            removed.push(Removed { id, keys, is_last });
        }
        Ok(is_new)
    }

    /// Closes `block` to writes and opens it to children.
    pub fn complete(&mut self, block: BlockId) -> Result<(), BlockError> {
        self.tree.complete(block)
    }

    /// Makes `block`, complete and above the root, the root, with every block on the way to it. The
    /// blocks beside that way vanish. `removed` gets every version that is hidden for good.
    ///
    /// Cost: O(records that the rooted and vanished blocks wrote).
    pub fn finalize(
        &mut self,
        block: BlockId,
        removed: &mut Vec<Removed>,
    ) -> Result<(), BlockError> {
        let path = self.tree.path(block)?;
        for fork in self.tree.beside(&path) {
            self.vanish(fork, removed);
        }
        for block in path {
            for id in self.tree.advance(block)? {
                self.settle(block, id, removed);
            }
        }
        Ok(())
    }

    /// Takes back `block` and all that is built on it; gives the blocks that are gone. `removed`
    /// gets every version that they wrote.
    ///
    /// Cost: O(records that those blocks wrote).
    pub fn drop_fork(
        &mut self,
        block: BlockId,
        removed: &mut Vec<Removed>,
    ) -> Result<BTreeSet<BlockId>, BlockError> {
        self.tree.block(block)?;
        if block == self.tree.root() {
            return Err(BlockError::Root(block));
        }
        let gone = self.tree.with_descendants(block);
        for block in &gone {
            self.vanish(*block, removed);
        }
        Ok(gone)
    }

    /// The state of `block`. O(1): it shares everything with this.
    pub fn snapshot(&self, block: BlockId) -> Result<Snapshot<R, M>, BlockError> {
        let found = self.tree.block(block)?;
        Ok(Snapshot {
            block,
            meta: Arc::clone(&found.meta),
            ancestors: Arc::clone(&found.ancestors),
            records: self.records.clone(),
        })
    }

    /// The version of `id` that was written last, by whatever block.
    pub fn newest(&self, id: AddressId) -> Option<&Version<R>> {
        self.records.get(id)?.iter().next()
    }

    /// Whether a version of `id` is found by `key`.
    pub fn is_found_by(&self, id: AddressId, key: Key) -> bool {
        self.records
            .get(id)
            .is_some_and(|versions| versions.iter().any(|version| version.keys.contains(&key)))
    }

    /// How many ids have a version, removals included.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether no id has a version.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many versions there are. Cost: O(records); for tests and reports.
    pub fn versions(&self) -> usize {
        self.records.iter().map(|(_, versions)| versions.iter().count()).sum()
    }

    /// Takes back what `block` wrote.
    fn vanish(&mut self, block: BlockId, removed: &mut Vec<Removed>) {
        for id in self.tree.remove(block) {
            let Some(versions) = self.records.get_mut(id) else { continue };
            let Some(version) = versions.take(block) else { continue };
            let is_last = versions.is_empty();
            if is_last {
                self.records.remove(id);
            }
            removed.push(Removed { id, keys: version.keys, is_last });
        }
    }

    /// Makes what `block` wrote under `id` the rooted version.
    fn settle(&mut self, block: BlockId, id: AddressId, removed: &mut Vec<Removed>) {
        let Some(versions) = self.records.get_mut(id) else { return };
        let Some(version) = versions.take(block) else { return };
        let next = version.record.is_some().then_some(version);
        let hidden = std::mem::replace(&mut versions.rooted, next);
        let is_last = versions.is_empty();
        if is_last {
            self.records.remove(id);
        }
        if is_last || hidden.is_some() {
            let keys = hidden.map(|version| version.keys).unwrap_or_default();
            removed.push(Removed { id, keys, is_last });
        }
    }
}
