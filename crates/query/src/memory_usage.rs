//! The memory of a ledger, for readers: reports need no writer.

use index::KeyKindUsage;
use ledger::{KeyKind, Record};

use crate::{LedgerMemory, View, rank_index};

impl<R: Record, M> View<R, M> {
    /// Returns the memory of the ledger, part by part, at the time of this publish; addresses and indices as
    /// of now. Cost: O(bytes / 1,024) at most.
    pub fn bytes(&self) -> LedgerMemory {
        let published = &self.published;
        let ranks = rank_index::heap_bytes(&published.tops);
        LedgerMemory::new(&published.addresses, &published.postings, published.state_memory, ranks)
    }

    /// Returns the number of addresses that are referenced now.
    pub fn addresses_len(&self) -> usize {
        self.published.addresses.len()
    }

    /// Returns the usage of the index of one key kind. Cost: O(keys).
    pub fn index_usage(&self, kind: KeyKind) -> KeyKindUsage {
        self.published.postings.key_kind_usage(kind)
    }
}
