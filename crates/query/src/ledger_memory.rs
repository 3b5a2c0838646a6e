//! The memory of a ledger, part by part.

use address::AddressTable;
use index::Postings;
use state::StateMemory;

/// The heap bytes of a ledger, part by part: what is in use now, without what only old views need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerMemory {
    /// Of the address table.
    pub addresses: usize,
    /// Of all indices.
    pub indices: usize,
    /// Of packed records, and of the structures that lead to them.
    pub packed: usize,
    /// Of records that are stored unpacked, and of unrooted versions. Memory that they share with a VM is
    /// included.
    pub unpacked: usize,
    /// Of the entries of the highest-ranked records, approximately.
    pub ranks: usize,
}

impl LedgerMemory {
    pub(crate) fn new(
        addresses: &AddressTable,
        postings: &Postings,
        state: StateMemory,
        ranks: usize,
    ) -> Self {
        Self {
            addresses: addresses.bytes(),
            indices: postings.bytes(),
            packed: state.packed + state.pages,
            unpacked: state.unpacked,
            ranks,
        }
    }

    /// The sum of all parts.
    pub fn total(&self) -> usize {
        self.addresses + self.indices + self.packed + self.unpacked + self.ranks
    }
}
