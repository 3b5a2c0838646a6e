//! What a ledger takes in memory, for readers: reports need no writer.

use index::FacetUsage;
use ledger::{Facet, Record};

use crate::{LedgerBytes, View, ranks};

impl<R: Record, M> View<R, M> {
    /// What the ledger took in memory, part by part, when this was published; addresses and indices as
    /// they are now. Cost: O(bytes / 1,024) at most.
    pub fn bytes(&self) -> LedgerBytes {
        let then = &self.published;
        let ranks = ranks::bytes_of(&then.tops);
        LedgerBytes::new(&then.addresses, &then.postings, then.state_bytes, ranks)
    }

    /// Addresses that somebody counts on, as it is now.
    pub fn addresses_len(&self) -> usize {
        self.published.addresses.len()
    }

    /// How much of that is the index of one facet, and what is in it. Cost: O(keys).
    pub fn index_usage(&self, facet: Facet) -> FacetUsage {
        self.published.postings.usage_of(facet)
    }
}
