//! The last chain blocks by hash, because clients that resume name a block by its hash.
//!
//! Bounds: the blocks that may wait for a root, and those that are retained for clients that resume: about 200 bytes each.
//! A block that has left the chain stays: a client may be on it.

use std::collections::VecDeque;

use chain_kaspa::BlockInfo;
use foldhash::HashMap;
use kaspa::{ChainPosition, Hash};
use ledger::BlockId;
use subscriptions::Limits;

/// A chain block, as the log of blocks and as clients know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecentBlock {
    pub(crate) id: BlockId,
    pub(crate) position: ChainPosition,
}

/// The last chain blocks by hash.
pub(crate) struct RecentBlocks {
    by_hash: HashMap<Hash, RecentBlock>,
    /// In the order of their addition. A block that left the chain and came back is in it twice, with two ids.
    order: VecDeque<RecentBlock>,
    blocks_max: usize,
}

impl RecentBlocks {
    /// Creates the table for a log of blocks with these limits.
    pub(crate) fn new(limits: &Limits) -> Self {
        let blocks_max = limits.retained_steps.saturating_add(limits.unrooted_max).max(1);
        Self { by_hash: HashMap::default(), order: VecDeque::new(), blocks_max }
    }

    /// Returns the block with this hash, if it is recent.
    pub(crate) fn find(&self, hash: &Hash) -> Option<RecentBlock> {
        self.by_hash.get(hash).copied()
    }

    /// Returns the position of a block. Cost: the blocks that were added after it.
    pub(crate) fn find_position(&self, id: BlockId) -> Option<ChainPosition> {
        self.order.iter().rfind(|block| block.id == id).map(|block| block.position)
    }

    /// Forgets all blocks but one, if it is there.
    pub(crate) fn clear_except(&mut self, id: BlockId) {
        self.by_hash.retain(|_, block| block.id == id);
        self.order.retain(|block| block.id == id);
    }

    /// Adds a chain block. Nothing changes if it is the newest one already.
    pub(crate) fn add(&mut self, id: BlockId, info: &BlockInfo) {
        if self.order.back().is_some_and(|block| block.id == id) {
            return;
        }
        let block = RecentBlock { id, position: to_position(info) };
        self.by_hash.insert(info.hash, block);
        self.order.push_back(block);
        if self.order.len() > self.blocks_max
            && let Some(oldest) = self.order.pop_front()
        {
            let hash = oldest.position.chain_block;
            if self.by_hash.get(&hash) == Some(&oldest) {
                self.by_hash.remove(&hash);
            }
        }
    }
}

/// Returns the position of a chain block.
pub(crate) fn to_position(info: &BlockInfo) -> ChainPosition {
    ChainPosition {
        chain_block: info.hash,
        daa_score: info.daa_score,
        blue_score: info.header.blue_score,
        block_time_ms: info.header.timestamp_ms,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chain_kaspa::Supply;
    use kaspa::{Header, Network};

    use super::*;

    fn id(slot: u64, version: u64) -> BlockId {
        BlockId { slot, version }
    }

    fn info(number: u8) -> BlockInfo {
        let header = Header { blue_score: number.into(), ..Network::Simnet.genesis() };
        BlockInfo {
            hash: Hash([number; 32]),
            header: Arc::new(header),
            daa_score: number.into(),
            is_virtual: false,
            supply: Supply::default(),
        }
    }

    #[test]
    fn the_last_blocks_are_found_with_their_newest_id() {
        let mut blocks =
            RecentBlocks { by_hash: HashMap::default(), order: VecDeque::new(), blocks_max: 3 };
        blocks.add(id(1, 0), &info(1));
        blocks.add(id(1, 0), &info(1));
        blocks.add(id(2, 0), &info(2));
        // It left the chain, and came back.
        blocks.add(id(1, 1), &info(1));
        blocks.add(id(3, 0), &info(3));
        assert_eq!(blocks.find(&Hash([1; 32])).map(|block| block.id), Some(id(1, 1)));
        assert_eq!(blocks.find_position(id(1, 0)), None);
        assert_eq!(blocks.find_position(id(2, 0)), Some(to_position(&info(2))));
        blocks.add(id(4, 0), &info(4));
        assert_eq!(blocks.find(&Hash([2; 32])), None);
        assert_eq!((blocks.by_hash.len(), blocks.order.len()), (3, 3));
        blocks.clear_except(id(3, 0));
        assert_eq!((blocks.by_hash.len(), blocks.order.len()), (1, 1));
        assert_eq!(blocks.find(&Hash([3; 32])).map(|block| block.id), Some(id(3, 0)));
        assert_eq!(blocks.find_position(id(4, 0)), None);
    }
}
