//! Memory of the parts of a node, for metrics and reports.

use chain_solana::{History, Reader};
use ledger::Commitment;
use query::LedgerMemory;

/// Memory of the parts of a node at one point in time: heap bytes, and numbers of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMemory {
    /// Addresses in the address table.
    pub addresses: usize,
    /// Accounts, including those of unrooted blocks.
    pub accounts: usize,
    /// Bytes of the address table, the indices and the accounts.
    pub ledger: LedgerMemory,
    /// Estimated bytes of blocks, transactions and signatures by address.
    pub history_bytes: u64,
}

impl NodeMemory {
    /// Measures the memory of a ledger. Cost: O(bytes / 1,024), so not for a thread that polls sockets.
    pub fn new(reader: &Reader, history: &History) -> Self {
        let view = reader.view(Commitment::Processed);
        Self {
            addresses: reader.addresses().len(),
            accounts: view.len(),
            ledger: view.bytes(),
            history_bytes: history.snapshot().bytes(),
        }
    }
}
