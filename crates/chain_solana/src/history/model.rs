//! The plain model of a history: all frozen blocks that are not reverted, each with its parent, and nothing else.
//! Every read walks from a tip to the first block.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::{BlockId, Commitment, Slot};
use solana_pubkey::Pubkey;
use solana_signature::Signature;

use crate::block::{Block, ExecutedTransaction};

/// The expected content of a history.
#[derive(Clone)]
pub(super) struct Model {
    pub(super) blocks: BTreeMap<BlockId, Block>,
    pub(super) open: Option<(BlockId, Vec<Arc<ExecutedTransaction>>)>,
    pub(super) processed: BlockId,
    pub(super) confirmed: BlockId,
    pub(super) root: BlockId,
}

impl Model {
    pub(super) fn new(root: BlockId) -> Self {
        Self { blocks: BTreeMap::new(), open: None, processed: root, confirmed: root, root }
    }

    /// Returns the blocks from a tip down to the first one, the newest first.
    pub(super) fn chain(&self, tip: BlockId) -> Vec<&Block> {
        let mut chain: Vec<&Block> = Vec::new();
        let mut next = tip;
        while let Some(block) = self.blocks.get(&next) {
            next = block.parent;
            chain.push(block);
        }
        chain
    }

    pub(super) fn descends(&self, block: BlockId, ancestor: BlockId) -> bool {
        block == ancestor
            || self.chain(block).iter().any(|block| [block.id, block.parent].contains(&ancestor))
    }

    pub(super) fn set_tip(&mut self, block: BlockId) {
        self.open = None;
        self.processed = block;
    }

    pub(super) fn finalize(&mut self, block: BlockId) {
        if !self.descends(self.confirmed, block) {
            self.confirmed = block;
        }
        if !self.descends(self.processed, block) {
            self.set_tip(self.confirmed);
        }
        self.root = block;
        let all: Vec<BlockId> = self.blocks.keys().copied().collect();
        for id in all {
            if !self.descends(id, block) && !self.descends(block, id) {
                self.blocks.remove(&id);
            }
        }
    }

    pub(super) fn drop_fork(&mut self, block: BlockId) {
        let parent = self.blocks[&block].parent;
        let gone: Vec<BlockId> =
            self.blocks.keys().filter(|id| self.descends(**id, block)).copied().collect();
        if gone.contains(&self.confirmed) {
            self.confirmed = parent;
        }
        if gone.contains(&self.processed) {
            self.set_tip(parent);
        }
        gone.iter().for_each(|id| drop(self.blocks.remove(id)));
    }

    fn tip(&self, commitment: Commitment) -> BlockId {
        match commitment {
            Commitment::Processed => self.processed,
            Commitment::Confirmed => self.confirmed,
            Commitment::Finalized => self.root,
        }
    }

    /// Returns the blocks that have a commitment and are not below `first`, the oldest first.
    pub(super) fn blocks(&self, commitment: Commitment, first: Slot) -> Vec<BlockId> {
        let chain = self.chain(self.tip(commitment));
        let retained = chain.iter().rev().map(|block| block.id);
        retained.filter(|id| id.slot >= first).collect()
    }

    /// Returns the transactions of those blocks, and of the open block at processed, the oldest first.
    pub(super) fn transactions(
        &self,
        commitment: Commitment,
        first: Slot,
    ) -> Vec<Arc<ExecutedTransaction>> {
        let blocks = self.blocks(commitment, first).into_iter();
        let mut all: Vec<_> =
            blocks.flat_map(|id| self.blocks[&id].transactions.iter().cloned()).collect();
        if commitment == Commitment::Processed {
            all.extend(self.open.iter().flat_map(|(_, open)| open.iter().cloned()));
        }
        all
    }

    /// Returns the signatures of the transactions of frozen blocks with this address, the oldest first.
    pub(super) fn signatures(
        &self,
        address: &Pubkey,
        commitment: Commitment,
        first: Slot,
    ) -> Vec<Signature> {
        let blocks = self.blocks(commitment, first).into_iter();
        let all = blocks.flat_map(|id| self.blocks[&id].transactions.iter());
        let named = all.filter(|transaction| transaction.account_keys.contains(address));
        named.map(|transaction| transaction.signature()).collect()
    }
}
