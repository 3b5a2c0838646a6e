//! What a ledger takes in memory, for readers: reports need no writer.

use index::KeyKindUsage;
use ledger::{KeyKind, Record};

use crate::{LedgerMemory, View, rank_index};

impl<R: Record, M> View<R, M> {
    /// What the ledger took in memory, part by part, when this was published; addresses and indices as
    /// they are now. Cost: O(bytes / 1,024) at most.
    pub fn bytes(&self) -> LedgerMemory {
        let then = &self.published;
        let ranks = rank_index::bytes_of(&then.tops);
        LedgerMemory::new(&then.addresses, &then.postings, then.state_memory, ranks)
    }

    /// Addresses that somebody counts on, as it is now.
    pub fn addresses_len(&self) -> usize {
        self.published.addresses.len()
    }

    /// How much of that is the index of one facet, and what is in it. Cost: O(keys).
    pub fn index_usage(&self, facet: KeyKind) -> KeyKindUsage {
        self.published.postings.usage_of(facet)
    }
}
