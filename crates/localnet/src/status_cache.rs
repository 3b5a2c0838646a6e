//! Which transactions were executed lately, so that none is executed twice.
//!
//! Shape: message hashes by the block that executed them. Bounds: the blocks whose hashes the
//! blockhash queue keeps; past that a transaction names an expired blockhash anyway. A durable nonce
//! outlives the window, but executing its transaction has moved the nonce on.

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
    /// Begins a block, and forgets the one that falls out of the window.
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

    /// Remembers a transaction of the block that was opened last.
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
        let mut statuses = StatusCache::default();
        let hash = Hash::new_from_array([7; 32]);
        statuses.start_block(0);
        statuses.insert(hash);
        (1..300).for_each(|slot| statuses.start_block(slot));
        assert!(statuses.contains(&hash));
        statuses.start_block(300);
        assert!(!statuses.contains(&hash));
        assert!(statuses.executed.is_empty());
    }
}
