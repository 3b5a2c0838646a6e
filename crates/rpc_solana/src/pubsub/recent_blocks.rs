//! The last blocks by hash: clients that resume refer to them so.
//!
//! Bounds: [`RECENT_MAX`] blocks, about 100 bytes each.

use std::collections::VecDeque;

use chain_solana::Block;
use foldhash::HashMap;
use ledger::BlockId;
use solana_hash::Hash;

/// The last blocks by hash: clients refer to them so.
#[derive(Default)]
pub(super) struct RecentBlocks {
    by_hash: HashMap<Hash, BlockId>,
    order: VecDeque<Hash>,
}

/// More blocks than wait for a root and are retained for clients that resume.
const RECENT_MAX: usize = 16_384;

impl RecentBlocks {
    /// The block with this hash, if it is recent.
    pub(super) fn find(&self, hash: &Hash) -> Option<BlockId> {
        self.by_hash.get(hash).copied()
    }

    /// Adds a complete block.
    pub(super) fn add(&mut self, block: &Block) {
        if self.by_hash.insert(block.blockhash, block.id).is_none() {
            self.order.push_back(block.blockhash);
        }
        if self.order.len() > RECENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_hash.remove(&oldest);
        }
    }
}
