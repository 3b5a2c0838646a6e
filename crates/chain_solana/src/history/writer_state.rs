//! The writer's history: the chain of the tip, and the frozen blocks of other forks.
//!
//! In: frozen blocks, and moves of the tips. Out: the chain that is published.
//! Shape: a block that is not an ancestor of the tip waits in `forks`, without entries. When the tip moves to another
//! fork, the blocks that are no longer its ancestors move to `forks`, the newest first, and its new ancestors come from
//! there.
//! Cost of a move: the blocks that leave and enter the chain, with their transactions. Those of a prepared block are
//! already in the writer's maps, while it is open; snapshots are published from [`FrozenMaps`] meanwhile.
//! Bounds: [`HistoryLimits`] count the blocks of all forks. The lowest blocks are removed first, regardless of their
//! fork. The tip's block and the one that was recorded last are always retained.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::BlockId;

use super::snapshot::{ByAddress, HistorySnapshot, Positions, StoredBlock};
use crate::block::{Block, ExecutedTransaction};

/// Limits of the retained history.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Maximum number of blocks, from the newest down. Skipped slots do not count.
    pub blocks_max: u64,
    /// Maximum of the estimated bytes of transactions and blocks.
    pub bytes_max: u64,
}

pub(super) struct WriterState {
    limits: HistoryLimits,
    all: HistorySnapshot,
    frozen: FrozenMaps,
    /// Whether readers do not find the open block's transactions by signature.
    hides_open: bool,
    /// Frozen blocks that are not ancestors of the tip.
    forks: BTreeMap<BlockId, StoredBlock>,
}

/// The maps as of the newest frozen block.
struct FrozenMaps {
    by_address: ByAddress,
    positions: Positions,
}

impl WriterState {
    pub(super) fn new(limits: HistoryLimits, root: BlockId) -> Self {
        let all = HistorySnapshot::new(root);
        let frozen =
            FrozenMaps { by_address: all.by_address.clone(), positions: all.positions.clone() };
        Self { limits, frozen, hides_open: false, all, forks: BTreeMap::new() }
    }

    /// Returns the state that readers may see. The lists by address are the largest part, and copied only once a block.
    pub(super) fn to_published(&self) -> HistorySnapshot {
        let tips = self.all.tips;
        assert!(
            tips.root.slot <= tips.confirmed.slot
                && tips.confirmed.slot <= tips.processed.slot
                && ![tips.root, tips.confirmed].iter().any(|tip| self.forks.contains_key(tip)),
            "the root {:?} or the confirmed block {:?} is not on the chain of the tip {:?}",
            tips.root,
            tips.confirmed,
            tips.processed
        );
        let FrozenMaps { by_address, positions } = &self.frozen;
        let published = self.all.with_by_address(by_address);
        if self.hides_open { published.without_open(positions) } else { published }
    }

    pub(super) fn record_transactions(
        &mut self,
        block: BlockId,
        transactions: &[Arc<ExecutedTransaction>],
    ) {
        if !self.all.is_open(block) {
            self.remove_open();
        }
        self.hides_open = false;
        for transaction in transactions {
            self.all.add_to_open(block, transaction);
        }
    }

    pub(super) fn prepared_len(&self, block: BlockId, parent: BlockId) -> Option<usize> {
        if self.all.is_open(block) {
            return self.hides_open.then(|| self.all.open_len());
        }
        let is_next = self.all.tips.processed == parent && !self.all.has_open_block();
        is_next.then_some(0)
    }

    pub(super) fn prepare<'a>(
        &mut self,
        block: BlockId,
        transactions: impl Iterator<Item = &'a Arc<ExecutedTransaction>>,
    ) {
        for transaction in transactions {
            self.hides_open = true;
            self.all.add_to_open(block, transaction);
        }
    }

    pub(super) fn discard_prepared(&mut self, block: BlockId) {
        if self.hides_open && self.all.is_open(block) {
            self.remove_open();
        }
    }

    fn remove_open(&mut self) {
        self.all.remove_open();
        self.hides_open = false;
    }

    pub(super) fn record_block(&mut self, block: &Block) {
        self.record(block, false);
    }

    pub(super) fn record_jump(&mut self, block: &Block) {
        self.record(block, true);
    }

    fn record(&mut self, block: &Block, is_jump: bool) {
        let bytes = block_bytes(block) + self.all.transactions_bytes(block);
        let block = Block {
            transactions: block.transactions.clone(),
            rewards: block.rewards.clone(),
            // Only streams have entries, and history has no old versions of accounts.
            entries: Vec::new(),
            writes: Vec::new(),
            ..*block
        };
        let id = block.id;
        self.all.blocks_bytes += bytes;
        self.forks.insert(id, StoredBlock { block: Arc::new(block), bytes, is_jump });
        // The open block becomes the tip next, and the limits are enforced then.
        if !self.all.is_open(id) {
            self.prune(id);
        }
    }

    pub(super) fn set_tip(&mut self, tip: BlockId) {
        self.enter_tip(tip);
        self.prune(tip);
    }

    pub(super) fn enforce_limits(&mut self) {
        self.prune(self.all.tips.processed);
    }

    /// Moves the tip without enforcing the limits.
    pub(super) fn enter_tip(&mut self, tip: BlockId) {
        let mut entered = Vec::new();
        let mut fork_point = tip;
        while let Some(stored) = self.forks.remove(&fork_point) {
            fork_point = stored.block.parent;
            entered.push(stored);
        }
        let is_child = |stored: &StoredBlock| self.all.is_open(stored.block.id);
        if self.all.newest() != Some(fork_point) || !entered.last().is_some_and(is_child) {
            self.remove_open();
        }
        // Blocks are removed from the lowest up. So if the fork point is gone, no block of the chain is below it.
        let is_retained = self.all.contains(fork_point);
        while let Some(newest) = self.all.newest()
            && !(is_retained && newest.slot <= fork_point.slot)
        {
            let left = self.all.pop();
            self.forks.extend(left.map(|stored| (newest, stored)));
        }
        entered.into_iter().rev().for_each(|stored| self.all.push(stored));
        self.all.tips.processed = tip;
        self.freeze_maps();
    }

    /// Copies the maps as those of the newest frozen block, unless an open block has entries in them.
    fn freeze_maps(&mut self) {
        if !self.all.has_open_block() {
            self.hides_open = false;
            self.frozen.by_address.clone_from(&self.all.by_address);
            self.frozen.positions.clone_from(&self.all.positions);
        }
    }

    pub(super) fn confirm(&mut self, block: BlockId) {
        self.all.tips.confirmed = block;
    }

    pub(super) fn finalize(&mut self, block: BlockId) {
        if !self.descends(self.all.tips.confirmed, block) {
            self.all.tips.confirmed = block;
        }
        if !self.descends(self.all.tips.processed, block) {
            self.set_tip(self.all.tips.confirmed);
        }
        self.all.tips.root = block;
        for (id, stored) in std::mem::take(&mut self.forks) {
            let parent = stored.block.parent;
            let is_above = parent == block
                || (parent.slot > block.slot && self.all.contains(parent))
                || self.forks.contains_key(&parent);
            if is_above {
                self.forks.insert(id, stored);
            } else {
                self.all.blocks_bytes -= stored.bytes;
            }
        }
    }

    pub(super) fn drop_fork(&mut self, block: BlockId) {
        let on_chain = self.all.find_stored(block);
        let Some(stored) = on_chain.or_else(|| self.forks.get(&block)) else { return };
        let parent = stored.block.parent;
        if on_chain.is_some() {
            self.set_tip(parent);
        }
        let mut dropped = BTreeSet::from([block]);
        for (id, stored) in self.forks.range(block..) {
            if dropped.contains(&stored.block.parent) {
                dropped.insert(*id);
            }
        }
        if dropped.contains(&self.all.tips.confirmed) {
            self.all.tips.confirmed = parent;
        }
        for id in dropped {
            self.discard_prepared(id);
            let stored = self.forks.remove(&id);
            self.all.blocks_bytes -= stored.map_or(0, |stored| stored.bytes);
        }
    }

    /// Reverts to a frozen block, and removes all others above it and of other forks.
    pub(super) fn revert_to(&mut self, block: BlockId) {
        self.enter_tip(block);
        for (_, left) in std::mem::take(&mut self.forks) {
            self.all.blocks_bytes -= left.bytes;
        }
        let tips = &mut self.all.tips;
        for tip in [&mut tips.confirmed, &mut tips.root] {
            *tip = if tip.slot > block.slot { block } else { *tip };
        }
        self.freeze_maps();
    }

    /// Whether a block is `ancestor` or descends from it. A block that is not retained counts as part of the tip's
    /// chain, from which only blocks below the retained ones are removed.
    fn descends(&self, mut block: BlockId, ancestor: BlockId) -> bool {
        while let Some(stored) = self.forks.get(&block).filter(|_| block != ancestor) {
            block = stored.block.parent;
        }
        let are_on_chain = ![block, ancestor].iter().any(|id| self.forks.contains_key(id));
        block == ancestor || (are_on_chain && ancestor.slot < block.slot)
    }

    /// Removes blocks beyond the limits, but not `retained`.
    fn prune(&mut self, retained: BlockId) {
        // The published maps have no entries of an open block, so they differ.
        let has_open = self.all.has_open_block();
        while let Some(lowest) = self.lowest(retained)
            && self.exceeds_limits()
        {
            match self.forks.remove(&lowest) {
                Some(stored) => self.all.blocks_bytes -= stored.bytes,
                None => {
                    let removed = self.all.remove_oldest();
                    if has_open {
                        let FrozenMaps { by_address, positions } = &mut self.frozen;
                        removed.iter().for_each(|one| one.remove_from(by_address, positions));
                    }
                }
            }
        }
        self.freeze_maps();
    }

    fn exceeds_limits(&self) -> bool {
        let blocks = (self.all.len() + self.forks.len()) as u64;
        self.all.blocks_bytes > self.limits.bytes_max || blocks > self.limits.blocks_max
    }

    /// Returns the lowest block that is neither that of the tip nor `retained`.
    fn lowest(&self, retained: BlockId) -> Option<BlockId> {
        let of_chain = self.all.oldest().filter(|oldest| self.all.newest() != Some(*oldest));
        let of_forks = self.forks.keys().find(|id| **id != retained).copied();
        of_chain.into_iter().chain(of_forks).min()
    }
}

/// Returns the bytes of a block without its transactions: its header and a pointer for each transaction.
fn block_bytes(block: &Block) -> u64 {
    (size_of::<Block>() + block.transactions.len() * 8) as u64 + block.rewards_bytes()
}
