//! The properties of one block besides its accounts: its position, its hashes, its counts.

use std::sync::Arc;

use ledger::BlockId;
use solana_hash::Hash;

/// Number of stored blockhashes: the window of `AlreadyProcessed`.
pub const RECENT_BLOCKHASHES_MAX: usize = 300;
/// Number of blockhashes that a transaction may use, from the newest on: a minute of 400 ms slots.
pub const BLOCKHASHES_VALID: u64 = 150;

/// The values that a bank hash covers. Not zero in a complete block, unless it was stored by a version that had another
/// bank hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankHashComponents {
    /// The bank hash of the parent.
    pub parent_hash: Hash,
    /// Signatures that the transactions require, those that failed included. In an open block: so far.
    pub signature_count: u64,
    /// The block's own blockhash. Zero in an open block.
    pub last_blockhash: Hash,
    /// The checksum of the lattice hash over all accounts. Zero in an open block.
    pub lt_checksum: Hash,
}

/// One block, open or complete, as readers of its state see it.
#[derive(Clone, Debug)]
pub struct BlockInfo {
    /// The slot and the version of the block.
    pub block: BlockId,
    /// The block that it was built on; itself at genesis.
    pub parent: BlockId,
    /// Number of blocks before it on its chain.
    pub block_height: u64,
    /// The hashes that transactions may use. A complete block's own hash is the newest.
    pub blockhashes: Arc<BlockhashQueue>,
    /// Transactions since genesis, votes included.
    pub transaction_count: u64,
    /// Seconds since 1970, from the clock sysvar of this block.
    pub unix_timestamp: i64,
    /// Sum of the lamports of all accounts.
    pub capitalization: u64,
    /// The bank hash, which votes for the block sign and the SlotHashes sysvar lists. Zero in an open block.
    pub bank_hash: Hash,
    /// The values that the bank hash covers.
    pub hash_components: BankHashComponents,
    /// Whether the block is complete.
    pub complete: bool,
}

impl BlockInfo {
    /// Returns the newest blockhash that a transaction may use.
    pub fn last_blockhash(&self) -> Hash {
        self.blockhashes.last()
    }

    /// Returns the last block height at which a transaction with `hash` is accepted.
    pub fn last_valid_block_height(&self, hash: &Hash) -> Option<u64> {
        let age = self.blockhashes.age(hash)?;
        (age <= BLOCKHASHES_VALID).then(|| self.block_height + BLOCKHASHES_VALID - age)
    }
}

/// The last [`RECENT_BLOCKHASHES_MAX`] blockhashes of a chain, the oldest first.
#[derive(Clone, Debug)]
pub struct BlockhashQueue {
    hashes: Vec<Hash>,
}

impl BlockhashQueue {
    /// Creates a queue that starts with the genesis hash.
    pub fn new(genesis: Hash) -> Self {
        Self { hashes: vec![genesis] }
    }

    /// Restores a queue from its hashes, the oldest first. Retains the newest
    /// [`RECENT_BLOCKHASHES_MAX`].
    pub fn restore(hashes: impl IntoIterator<Item = Hash>) -> Option<Self> {
        let mut hashes: Vec<Hash> = hashes.into_iter().collect();
        hashes.drain(..hashes.len().saturating_sub(RECENT_BLOCKHASHES_MAX));
        (!hashes.is_empty()).then_some(Self { hashes })
    }

    /// Returns a copy of the queue with the hash of one more block.
    pub fn with(&self, hash: Hash) -> Self {
        let first_retained = (self.hashes.len() + 1).saturating_sub(RECENT_BLOCKHASHES_MAX);
        let mut hashes = Vec::with_capacity(RECENT_BLOCKHASHES_MAX);
        hashes.extend_from_slice(&self.hashes[first_retained..]);
        hashes.push(hash);
        Self { hashes }
    }

    /// Returns the newest blockhash of the queue.
    pub fn last(&self) -> Hash {
        self.hashes[self.hashes.len() - 1] // never empty: it is created with one hash and only grows
    }

    /// Returns how many blocks ago `hash` was the newest.
    pub fn age(&self, hash: &Hash) -> Option<u64> {
        self.hashes.iter().rev().position(|other| other == hash).map(|age| age as u64)
    }

    /// Whether a transaction with `hash` would be accepted.
    pub fn is_valid(&self, hash: &Hash) -> bool {
        self.age(hash).is_some_and(|age| age <= BLOCKHASHES_VALID)
    }

    /// Iterates over all hashes, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Hash> {
        self.hashes.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: usize) -> Hash {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        Hash::new_from_array(bytes)
    }

    #[test]
    fn a_blockhash_is_valid_for_150_blocks_and_stored_for_300() {
        let queue = (1..=400).fold(BlockhashQueue::new(hash(0)), |queue, n| queue.with(hash(n)));
        assert_eq!(queue.last(), hash(400));
        assert!(queue.is_valid(&hash(250)));
        assert!(!queue.is_valid(&hash(249)));
        assert_eq!(queue.age(&hash(101)), Some(299));
        assert_eq!(queue.age(&hash(100)), None);
        assert_eq!(queue.iter().count(), RECENT_BLOCKHASHES_MAX);
    }
}
