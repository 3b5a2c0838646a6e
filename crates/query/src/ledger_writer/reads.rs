//! Reads of the writer itself, published or not: records, tips, numbers and memory.
//!
//! Not here: reads of published blocks (`view`).

use std::sync::Arc;

use ledger::{Address, AddressId, BlockId, Commitment, Record, StoredRecord};

use super::Ledger;
use crate::LedgerMemory;
use crate::address_resolver::address_resolver;

/// Numbers of addresses, records, entries and blocks in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerUsage {
    /// Addresses that are referenced.
    pub addresses: usize,
    /// Addresses with a record, including removals that are not rooted.
    pub records: usize,
    /// Number of keys that have a record.
    pub index_keys: usize,
    /// Number of entries of all keys.
    pub index_entries: usize,
    /// Number of blocks above the root.
    pub unrooted_blocks: usize,
}

impl<R: Record, M: Send + Sync + 'static> Ledger<R, M> {
    /// Returns the record of `address` at the processed tip, published or not. For the writer itself.
    ///
    /// Cost: two lookups, whatever the ledger's size.
    pub fn record(&self, address: &Address) -> Option<Arc<R>> {
        self.record_at(self.processed, address)
    }

    /// Returns the record of `address` at any block at or above the root. `None` for a block that does not exist.
    pub fn record_at(&self, block: BlockId, address: &Address) -> Option<Arc<R>> {
        let id = self.addresses.lookup(address)?;
        let snapshot = self.state.snapshot(block).ok()?;
        Some(snapshot.version(id)?.record(address_resolver(&self.addresses)))
    }

    /// Returns the records of these ids at a block at or above the root, as the state holds them. `None` for a
    /// removal.
    ///
    /// Cost: a lookup each.
    pub fn stored_at(&self, block: BlockId, ids: &[AddressId]) -> Vec<Option<StoredRecord<R>>> {
        let Ok(snapshot) = self.state.snapshot(block) else { return vec![None; ids.len()] };
        let resolve = address_resolver(&self.addresses);
        let stored = |id: &AddressId| Some(snapshot.version(*id)?.to_stored(&resolve));
        ids.iter().map(stored).collect()
    }

    /// Returns whether `block` is the root or above it.
    pub fn contains_block(&self, block: BlockId) -> bool {
        self.state.contains_block(block)
    }

    /// Returns the block that readers at `commitment` see after the next publish.
    pub fn tip(&self, commitment: Commitment) -> BlockId {
        match commitment {
            Commitment::Processed => self.processed,
            Commitment::Confirmed => self.confirmed,
            Commitment::Finalized => self.finalized,
        }
    }

    /// Returns the newest block that cannot be dropped.
    pub fn root(&self) -> BlockId {
        self.state.root()
    }

    /// Returns the numbers of addresses, records, entries and blocks. Cost: O(1).
    pub fn usage(&self) -> LedgerUsage {
        LedgerUsage {
            addresses: self.addresses.len(),
            records: self.state.len(),
            index_keys: self.index.keys(),
            index_entries: self.index.len(),
            unrooted_blocks: self.state.unrooted_len(),
        }
    }

    /// Returns the memory of the ledger. Cost: O(bytes / 1,024) at most; for reports.
    pub fn bytes(&self) -> LedgerMemory {
        let ranks = self.ranks.bytes();
        LedgerMemory::new(&self.addresses, self.index.postings(), self.state.bytes(), ranks)
    }

    /// Returns the memory of the records, including versions of unrooted blocks. Cost: O(1).
    pub fn record_bytes(&self) -> usize {
        let memory = self.state.bytes();
        memory.packed + memory.unpacked
    }

    /// Returns the number of versions that a read could still see. Cost: O(records); for tests and reports.
    pub fn versions(&self) -> usize {
        self.state.versions()
    }

    /// Returns the number of rank entries. Cost: O(keys with many records).
    pub fn ranked_len(&self) -> usize {
        self.ranks.len()
    }
}
