//! The recently executed transactions, so that none is executed twice.
//!
//! Shape: message hashes by the block that executed them. Bounds: the blocks whose hashes are in the blockhash queue.
//! The blockhash of an older transaction is expired. A durable nonce outlives the window, but its transaction has
//! advanced the nonce.

use std::collections::{HashMap, VecDeque};

use chain_solana::RECENT_BLOCKHASHES_MAX;
use foldhash::quality::RandomState;
use ledger::Slot;
use solana_hash::Hash;

/// The executed transactions of the last [`RECENT_BLOCKHASHES_MAX`] blocks.
#[derive(Default)]
pub(crate) struct StatusCache {
    executed: HashMap<Hash, Slot, RandomState>,
    blocks: VecDeque<(Slot, Vec<Hash>)>,
}

impl StatusCache {
    /// Starts a block, and removes the one that leaves the window.
    pub(crate) fn start_block(&mut self, slot: Slot) {
        self.blocks.push_back((slot, Vec::new()));
        if self.blocks.len() > RECENT_BLOCKHASHES_MAX {
            let Some((oldest, hashes)) = self.blocks.pop_front() else { return };
            for hash in hashes {
                if self.executed.get(&hash) == Some(&oldest) {
                    self.executed.remove(&hash);
                }
            }
        }
    }

    /// Whether a transaction was executed within the window.
    pub(crate) fn contains(&self, message_hash: &Hash) -> bool {
        self.executed.contains_key(message_hash)
    }

    /// Inserts a transaction of the current block.
    pub(crate) fn insert(&mut self, message_hash: Hash) {
        let Some((slot, hashes)) = self.blocks.back_mut() else { return };
        self.executed.insert(message_hash, *slot);
        hashes.push(message_hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_remembered_for_300_blocks() {
        let mut cache = StatusCache::default();
        let hash = Hash::new_from_array([7; 32]);
        cache.start_block(0);
        cache.insert(hash);
        (1..300).for_each(|slot| cache.start_block(slot));
        assert!(cache.contains(&hash));
        cache.start_block(300);
        assert!(!cache.contains(&hash));
        assert!(cache.executed.is_empty());
    }
}
