//! Proof of History of one block: a chain of hashes from the parent's blockhash to the block's own.
//!
//! In: transactions in the order of execution, then the slots since the parent. Out: [`Entry`]s. Agave's rule holds
//! (`next_hash` of `solana-entry`): an entry's hash is that of the hash before it and, if it has transactions, the Merkle
//! root of their signatures.
//! Shape: one hash for each entry. A localnet has no other leader that the hashes would delay, so it does not spend time
//! on them.
//! Bounds: [`ENTRY_TRANSACTIONS_MAX`], [`TICKS_MAX`].

use std::sync::Arc;

use chain_solana::ExecutedTransaction;
use solana::Entry;
use solana_hash::Hash;
use solana_merkle_tree::MerkleTree;
use solana_sha256_hasher::{hash, hashv};

/// Transactions of an entry, as in Agave's banking stage.
const ENTRY_TRANSACTIONS_MAX: usize = 64;
/// Ticks of a block. `--warp-slot`, and a fork that continues from an old block, skip more slots. The last tick then has
/// more hashes, so that two children of one block have different blockhashes.
const TICKS_MAX: u64 = 64;
/// More hashes of the last tick: some milliseconds. A ledger goes back by fewer slots than that.
const MORE_HASHES_MAX: u64 = 1 << 14;

/// The entries of the open block.
pub(crate) struct ProofOfHistory {
    hash: Hash,
    transaction_count: u64,
    entries: Vec<Entry>,
}

impl ProofOfHistory {
    /// No entries yet, after the parent's blockhash.
    pub(crate) fn new(previous_blockhash: Hash) -> Self {
        Self { hash: previous_blockhash, transaction_count: 0, entries: Vec::new() }
    }

    /// Transactions in the entries.
    pub(crate) fn transaction_count(&self) -> usize {
        self.transaction_count as usize
    }

    /// Adds the next transactions.
    pub(crate) fn record(&mut self, transactions: &[Arc<ExecutedTransaction>]) {
        for of_entry in transactions.chunks(ENTRY_TRANSACTIONS_MAX) {
            let signatures: Vec<_> =
                of_entry.iter().flat_map(|executed| &executed.transaction.signatures).collect();
            let root = MerkleTree::new(&signatures).get_root().copied().unwrap_or_default();
            self.push(hashv(&[self.hash.as_ref(), root.as_ref()]), of_entry.len() as u64);
        }
    }

    /// Ends the block with a tick for each slot since its parent. The hash of the last one is the blockhash.
    pub(crate) fn complete(&mut self, slots: u64) -> (Vec<Entry>, Hash) {
        for _ in 0..slots.clamp(1, TICKS_MAX) {
            self.push(hash(self.hash.as_ref()), 0);
        }
        let more_hashes = slots.saturating_sub(TICKS_MAX).min(MORE_HASHES_MAX);
        (0..more_hashes).for_each(|_| self.hash = hash(self.hash.as_ref()));
        if let Some(last) = self.entries.last_mut() {
            last.num_hashes += more_hashes;
            last.hash = self.hash;
        }
        (std::mem::take(&mut self.entries), self.hash)
    }

    fn push(&mut self, hash: Hash, transaction_count: u64) {
        let starting_transaction_index = self.transaction_count;
        self.hash = hash;
        self.transaction_count += transaction_count;
        self.entries.push(Entry {
            num_hashes: 1,
            hash,
            transaction_count,
            starting_transaction_index,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blockhash(slots: u64) -> (Vec<Entry>, Hash) {
        ProofOfHistory::new(Hash::new_from_array([9; 32])).complete(slots)
    }

    #[test]
    fn blocks_without_transactions_in_different_slots_have_different_hashes() {
        let one = blockhash(1);
        let two = blockhash(2);
        assert_ne!(one.1, two.1);
        assert_eq!((one.0.len(), two.0.len()), (1, 2));
        assert_eq!(two.0[0].hash, one.1);
        let many = blockhash(2_000);
        let more = blockhash(2_001);
        assert_ne!(many.1, more.1);
        let last = more.0.last().expect("there are ticks");
        assert_eq!((last.num_hashes, last.hash), (2_001 - TICKS_MAX + 1, more.1));
        assert_eq!(hash(many.1.as_ref()), more.1);
    }

    #[test]
    fn a_jump_over_many_slots_costs_a_bounded_number_of_hashes() {
        let (entries, last) = blockhash(400_000_000);
        assert_eq!(entries.len() as u64, TICKS_MAX);
        assert!(Entry::are_whole(&entries, 0, &last));
    }
}
