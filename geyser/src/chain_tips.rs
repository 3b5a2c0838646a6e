//! The newest block of each commitment, and the blockhashes that its descendants may use: what the calls besides
//! `Subscribe` read.
//!
//! Bounds: [`BLOCKS_MAX`] blocks.

use std::collections::BTreeMap;

use chain_solana::LedgerEvent;
use grpc::{LedgerReader, NewestBlock};
use ledger::{BlockId, Commitment, Slot};
use parking_lot::Mutex;
use solana_hash::Hash;

/// Blocks after which transactions may no longer use a blockhash: Agave's `MAX_PROCESSING_AGE`.
const BLOCKHASH_AGE_MAX: u64 = 150;
/// Blocks that are remembered: those of a blockhash's life, with forks and slots until the root.
const BLOCKS_MAX: usize = 1_024;

/// The newest blocks.
#[derive(Default)]
pub(crate) struct ChainTips(Mutex<State>);

#[derive(Default)]
struct State {
    blocks: BTreeMap<BlockId, Link>,
    /// By commitment.
    newest: [Option<BlockId>; 3],
}

struct Link {
    parent: BlockId,
    block_height: u64,
    blockhash: Hash,
}

impl ChainTips {
    pub(crate) fn record(&self, event: &LedgerEvent) {
        let (block, commitment) = match event {
            LedgerEvent::Frozen { block, .. } => (block, Commitment::Processed),
            LedgerEvent::Confirmed { block, .. } => (block, Commitment::Confirmed),
            LedgerEvent::Rooted { block, .. } => (block, Commitment::Finalized),
            LedgerEvent::BankCreated { .. }
            | LedgerEvent::AccountsWritten { .. }
            | LedgerEvent::Executed(_)
            | LedgerEvent::TipMoved { .. }
            | LedgerEvent::BlockFooter { .. }
            | LedgerEvent::Jumped { .. }
            | LedgerEvent::Voted(_) => return,
            LedgerEvent::Reverted { block, .. } => return self.0.lock().remove(block.id),
        };
        let state = &mut *self.0.lock();
        if commitment == Commitment::Processed {
            let parent = block.parent;
            let block_height = block.block_height;
            let blockhash = block.blockhash;
            state.blocks.insert(block.id, Link { parent, block_height, blockhash });
            while state.blocks.len() > BLOCKS_MAX {
                state.blocks.pop_first();
            }
        }
        // What is final is confirmed, and what is confirmed is processed.
        for newest in &mut state.newest[..=commitment as usize] {
            if newest.is_none_or(|newest| newest < block.id) {
                *newest = Some(block.id);
            }
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        *self.0.lock() = State::default();
    }
}

impl State {
    fn remove(&mut self, block: BlockId) {
        self.blocks.remove(&block);
        let [processed, ..] = &mut self.newest;
        if *processed == Some(block) {
            *processed = self.blocks.last_key_value().map(|(id, _)| *id);
        }
    }

    fn newest(&self, commitment: Commitment) -> Option<(BlockId, &Link)> {
        let id = self.newest[commitment as usize]?;
        Some((id, self.blocks.get(&id)?))
    }
}

impl LedgerReader for ChainTips {
    fn newest(&self, commitment: Commitment) -> Option<NewestBlock> {
        let state = self.0.lock();
        let (id, link) = state.newest(commitment)?;
        Some(NewestBlock {
            slot: id.slot,
            block_height: link.block_height,
            blockhash: link.blockhash,
            last_valid_block_height: link.block_height + BLOCKHASH_AGE_MAX,
        })
    }

    fn is_blockhash_valid(&self, blockhash: &Hash, commitment: Commitment) -> Option<(Slot, bool)> {
        let state = self.0.lock();
        let (tip, newest) = state.newest(commitment)?;
        let mut link = newest;
        loop {
            if newest.block_height.saturating_sub(link.block_height) > BLOCKHASH_AGE_MAX {
                return Some((tip.slot, false));
            }
            if link.blockhash == *blockhash {
                return Some((tip.slot, true));
            }
            match state.blocks.get(&link.parent) {
                Some(parent) => link = parent,
                None => return Some((tip.slot, false)),
            }
        }
    }
}
