//! The tree of unrooted blocks above the root, and the ids that each of them wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::{AddressId, BlockId};

/// Maximum number of unrooted blocks: 27 minutes of 400 ms slots.
pub const UNROOTED_MAX: usize = 4_096;

/// Why a block does not allow a call. Each is a bug of the calling ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// Neither the root nor above it: never opened, dropped, or below the root.
    #[error("block {0:?} is neither the root nor above it")]
    Unknown(BlockId),
    /// The block was opened before.
    #[error("block {0:?} is open already")]
    Exists(BlockId),
    /// The block's slot is not later than its parent's.
    #[error("block {block:?} is not in a later slot than its parent {parent:?}")]
    NotAfterParent {
        /// The block that was to be opened.
        block: BlockId,
        /// The parent that the caller named.
        parent: BlockId,
    },
    /// The call needs a complete block: having children, becoming the root.
    #[error("block {0:?} is still open")]
    Open(BlockId),
    /// The call needs an open block: being written.
    #[error("block {0:?} is complete")]
    Complete(BlockId),
    /// The root cannot be dropped or rooted again.
    #[error("block {0:?} is the root")]
    Root(BlockId),
    /// No block was rooted for too long. Fix: root blocks.
    #[error("too many unrooted blocks: {UNROOTED_MAX} are above the root")]
    TooManyUnrooted,
}

/// The root and the blocks above it.
pub(crate) struct ForkTree<M> {
    root: BlockId,
    /// A block's slot is later than its parent's, so parents come before children.
    blocks: BTreeMap<BlockId, Block<M>>,
}

pub(crate) struct Block<M> {
    /// The parent. For the root, a block that is no longer known.
    parent: BlockId,
    is_complete: bool,
    pub(crate) meta: Arc<M>,
    /// The block itself and its ancestors above the root at the time it was opened, sorted. Ancestors
    /// that are rooted by now do no harm: no unrooted version names them.
    pub(crate) ancestors: Arc<[BlockId]>,
    /// The ids of the records that it wrote, each once. Empty for the root.
    pub(crate) written: Vec<AddressId>,
}

impl<M> ForkTree<M> {
    /// Creates a tree of one open root.
    pub(crate) fn new(root: BlockId, meta: Arc<M>) -> Self {
        let block = Block {
            parent: root,
            is_complete: false,
            meta,
            ancestors: Arc::default(),
            written: Vec::new(),
        };
        Self { root, blocks: BTreeMap::from([(root, block)]) }
    }

    pub(crate) fn root(&self) -> BlockId {
        self.root
    }

    pub(crate) fn contains(&self, block: BlockId) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Returns the number of blocks above the root.
    pub(crate) fn unrooted_len(&self) -> usize {
        self.blocks.len() - 1
    }

    pub(crate) fn block(&self, block: BlockId) -> Result<&Block<M>, BlockError> {
        self.blocks.get(&block).ok_or(BlockError::Unknown(block))
    }

    pub(crate) fn block_mut(&mut self, block: BlockId) -> Result<&mut Block<M>, BlockError> {
        self.blocks.get_mut(&block).ok_or(BlockError::Unknown(block))
    }

    /// Returns the block, if it is open.
    pub(crate) fn writable(&mut self, block: BlockId) -> Result<&mut Block<M>, BlockError> {
        let found = self.block_mut(block)?;
        if found.is_complete {
            return Err(BlockError::Complete(block));
        }
        Ok(found)
    }

    /// Returns the parent of `block`; `None` for the root.
    pub(crate) fn parent(&self, block: BlockId) -> Result<Option<BlockId>, BlockError> {
        Ok(Some(self.block(block)?.parent).filter(|_| block != self.root))
    }

    /// Returns whether `block` is on the chain of `tip`: equal to it, or one of its ancestors at or above the root.
    pub(crate) fn is_on_chain(&self, block: BlockId, tip: BlockId) -> bool {
        let Ok(above) = self.block(tip) else { return false };
        block == tip || block == self.root || above.ancestors.binary_search(&block).is_ok()
    }

    pub(crate) fn open(
        &mut self,
        block: BlockId,
        parent: BlockId,
        meta: Arc<M>,
    ) -> Result<(), BlockError> {
        if self.contains(block) {
            return Err(BlockError::Exists(block));
        }
        self.check_complete(parent)?;
        if block.slot <= parent.slot {
            return Err(BlockError::NotAfterParent { block, parent });
        }
        if self.unrooted_len() >= UNROOTED_MAX {
            return Err(BlockError::TooManyUnrooted);
        }
        let unrooted = self.block(parent)?.ancestors.iter().filter(|known| **known > self.root);
        let ancestors = unrooted.copied().chain([block]).collect();
        let opened = Block { parent, is_complete: false, meta, ancestors, written: Vec::new() };
        self.blocks.insert(block, opened);
        Ok(())
    }

    /// Returns an error unless `block` is complete.
    pub(crate) fn check_complete(&self, block: BlockId) -> Result<(), BlockError> {
        if self.block(block)?.is_complete { Ok(()) } else { Err(BlockError::Open(block)) }
    }

    pub(crate) fn complete(&mut self, block: BlockId) -> Result<(), BlockError> {
        self.writable(block)?.is_complete = true;
        Ok(())
    }

    /// Returns the blocks from the root, without it, to `block`: those to be rooted, the lowest first.
    pub(crate) fn path(&self, block: BlockId) -> Result<Vec<BlockId>, BlockError> {
        if block == self.root {
            return Err(BlockError::Root(block));
        }
        self.check_complete(block)?;
        let mut path = Vec::new();
        let mut at = block;
        while at != self.root {
            path.push(at);
            at = self.block(at)?.parent;
        }
        path.reverse();
        Ok(path)
    }

    /// Returns `block` and its descendants, parents first.
    pub(crate) fn with_descendants(&self, block: BlockId) -> BTreeSet<BlockId> {
        let mut found = BTreeSet::from([block]);
        for (id, later) in self.blocks.range(block..) {
            if found.contains(&later.parent) && *id != self.root {
                found.insert(*id);
            }
        }
        found
    }

    /// Returns the blocks that are neither on `path` nor descendants of its last block.
    pub(crate) fn siblings(&self, path: &[BlockId]) -> Vec<BlockId> {
        let above = path.last().map(|last| self.with_descendants(*last)).unwrap_or_default();
        let retained = |id: &BlockId| *id == self.root || path.contains(id) || above.contains(id);
        self.blocks.keys().filter(|id| !retained(id)).copied().collect()
    }

    /// Removes `block` and returns the ids that it wrote.
    pub(crate) fn remove(&mut self, block: BlockId) -> Vec<AddressId> {
        self.blocks.remove(&block).map(|removed| removed.written).unwrap_or_default()
    }

    /// Makes `block`, a child of the root, the root, and returns the ids that it wrote.
    pub(crate) fn advance(&mut self, block: BlockId) -> Result<Vec<AddressId>, BlockError> {
        let written = std::mem::take(&mut self.block_mut(block)?.written);
        self.blocks.remove(&self.root);
        self.root = block;
        Ok(written)
    }
}
