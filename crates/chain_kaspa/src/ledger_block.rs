//! A block of the ledger as its events name it, and the window of chain blocks that are not final.

use std::collections::VecDeque;
use std::sync::Arc;

use kaspa::Hash;
use ledger::BlockId;
use muhash::MuHash;

use crate::block_changes::BlockChanges;
use crate::block_info::BlockInfo;
use crate::history::header_bytes;

/// A block of the ledger: a chain block, or the virtual block above the sink.
#[derive(Debug)]
pub struct LedgerBlock {
    /// The id of the block in the ledger. Its slot is the DAA score plus one, and that of the first block its DAA score:
    /// the first block of a network and the one above it have the same score.
    pub id: BlockId,
    /// The id of the block below.
    pub parent: BlockId,
    /// The hash and the scores of the block, and the supply at it.
    pub info: Arc<BlockInfo>,
    /// The facts about the block below, to which the chain returns when this block leaves it.
    pub parent_info: Arc<BlockInfo>,
    /// The UTXOs that it creates and spends.
    pub changes: BlockChanges,
    /// The ids of the transactions that it accepts, in their order. Empty for a virtual block.
    pub accepted_ids: Vec<Hash>,
}

impl LedgerBlock {
    /// Returns the lowest DAA score of a block above it.
    pub(crate) fn next_daa_score_min(&self) -> u64 {
        self.id.slot
    }

    /// Returns the bytes in memory, without the header.
    pub fn bytes(&self) -> usize {
        let changes_on_heap = self.changes.bytes() - size_of_val(&self.changes);
        size_of_val(self) + changes_on_heap + self.accepted_ids.capacity() * size_of::<Hash>()
    }

    /// Returns the bytes in memory of a block that only a log retains. They include the header of a chain block.
    pub fn retained_bytes(&self) -> usize {
        let header = if self.info.is_virtual { 0 } else { header_bytes(&self.info.header) };
        self.bytes() + header
    }
}

/// A chain block that a reorganization may remove, or the root.
#[derive(Clone)]
pub(crate) struct ChainBlock {
    pub(crate) block: Arc<LedgerBlock>,
    /// The product over the UTXO set after the block.
    pub(crate) product: MuHash,
}

/// The chain blocks from the root to the sink.
pub(crate) struct ChainWindow {
    root: ChainBlock,
    above: VecDeque<ChainBlock>,
}

/// The removed blocks of a source are not the newest ones of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForkError {
    /// Another block is at this position of the chain.
    Other { removed: Hash, expected: Hash },
    /// The root, or a block below it, would be removed.
    BelowRoot,
}

impl ChainWindow {
    pub(crate) fn new(root: ChainBlock) -> Self {
        Self { root, above: VecDeque::new() }
    }

    pub(crate) fn root(&self) -> &ChainBlock {
        &self.root
    }

    pub(crate) fn sink(&self) -> &ChainBlock {
        self.above.back().unwrap_or(&self.root)
    }

    /// Returns the block that is the sink once these blocks, the highest first, have left. Other blocks are reported
    /// before it is checked that the root stays.
    pub(crate) fn fork_point(&self, removed: &[Hash]) -> Result<&ChainBlock, ForkError> {
        for (at, hash) in removed.iter().enumerate() {
            let depth = self.above.len().checked_sub(at + 1).ok_or(ForkError::BelowRoot)?;
            let expected = self.above[depth].block.info.hash;
            if expected != *hash {
                return Err(ForkError::Other { removed: *hash, expected });
            }
        }
        let rest = self.above.len() - removed.len();
        Ok(rest.checked_sub(1).map_or(&self.root, |last| &self.above[last]))
    }

    /// Iterates over the newest blocks, the lowest first.
    pub(crate) fn newest(&self, count: usize) -> impl Iterator<Item = &ChainBlock> {
        self.above.range(self.above.len().saturating_sub(count)..)
    }

    /// Removes the newest blocks and returns them, the highest first.
    pub(crate) fn remove_newest(&mut self, count: usize) -> Vec<ChainBlock> {
        let rest = self.above.len().saturating_sub(count);
        let mut removed: Vec<ChainBlock> = self.above.drain(rest..).collect();
        removed.reverse();
        removed
    }

    pub(crate) fn push(&mut self, block: ChainBlock) {
        self.above.push_back(block);
    }

    /// Moves the root up until at most this many blocks are above it. Returns the new root, if it moved.
    pub(crate) fn advance_root(&mut self, depth_max: usize) -> Option<BlockId> {
        let mut is_moved = false;
        while self.above.len() > depth_max
            && let Some(root) = self.above.pop_front()
        {
            self.root = root;
            is_moved = true;
        }
        is_moved.then_some(self.root.block.id)
    }
}
