//! The recently executed transactions, so that none is executed twice.
//!
//! Shape: message hashes by the block that executed them. Bounds: the blocks whose hashes are in the blockhash queue of
//! any block that the ledger may go back to. The blockhash of an older transaction is expired. A durable nonce outlives
//! the window, but its transaction has advanced the nonce.

use std::collections::{HashMap, VecDeque};

use chain_solana::RECENT_BLOCKHASHES_MAX;
use foldhash::quality::RandomState;
use ledger::Slot;
use solana_hash::Hash;

/// The executed transactions of the last [`RECENT_BLOCKHASHES_MAX`] blocks, and of as many more as may be reverted.
#[derive(Default)]
pub(crate) struct StatusCache {
    executed: HashMap<Hash, Slot, RandomState>,
    blocks: VecDeque<(Slot, Vec<Hash>)>,
    /// How many of the newest blocks may be reverted.
    revertible: usize,
}

impl StatusCache {
    /// Sets how many of the newest blocks may be reverted. The window is longer by them.
    pub(crate) fn set_revertible(&mut self, blocks: usize) {
        self.revertible = blocks;
    }

    /// Starts a block, and removes those that leave the window.
    pub(crate) fn start_block(&mut self, slot: Slot) {
        self.blocks.push_back((slot, Vec::new()));
        while self.blocks.len() > RECENT_BLOCKHASHES_MAX.saturating_add(self.revertible) {
            let Some(oldest) = self.blocks.pop_front() else { return };
            self.remove(oldest);
        }
    }

    /// Removes the blocks after this slot, with their transactions.
    pub(crate) fn revert_to(&mut self, slot: Slot) {
        while let Some(newest) = self.blocks.pop_back_if(|(newest, _)| *newest > slot) {
            self.remove(newest);
        }
    }

    /// The slot of the oldest block in the window.
    pub(crate) fn first_slot(&self) -> Option<Slot> {
        self.blocks.front().map(|(slot, _)| *slot)
    }

    fn remove(&mut self, (slot, hashes): (Slot, Vec<Hash>)) {
        for hash in hashes {
            if self.executed.get(&hash) == Some(&slot) {
                self.executed.remove(&hash);
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

    #[test]
    fn a_reverted_block_is_forgotten_and_the_window_of_the_blocks_before_it_is_whole() {
        let mut cache = StatusCache::default();
        let hash = |slot: u64| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&slot.to_le_bytes());
            Hash::new_from_array(bytes)
        };
        cache.set_revertible(10);
        for slot in 0..310 {
            cache.start_block(slot);
            cache.insert(hash(slot));
        }
        cache.revert_to(299);
        assert!((0..300).all(|slot| cache.contains(&hash(slot))));
        assert!(!(300..310).any(|slot| cache.contains(&hash(slot))));
        assert_eq!((cache.first_slot(), cache.executed.len()), (Some(0), 300));
    }
}
