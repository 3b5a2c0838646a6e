//! The memory of a ledger, part by part.

use address::AddressTable;
use index::Postings;
use state::StateMemory;

/// The heap bytes of a ledger that are in use now, part by part, without data that only old views need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerMemory {
    /// Bytes of the address table.
    pub addresses: usize,
    /// Bytes of all indices together.
    pub indices: usize,
    /// Bytes of packed records, and of the structures that refer to them.
    pub packed: usize,
    /// Bytes of records that are stored unpacked, and of unrooted versions. Memory that they share with a VM is
    /// included.
    pub unpacked: usize,
    /// Bytes of the entries of the highest-ranked records, approximately.
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

    /// Returns the sum of all parts.
    pub fn total(&self) -> usize {
        self.addresses + self.indices + self.packed + self.unpacked + self.ranks
    }
}
