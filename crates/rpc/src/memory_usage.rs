//! Memory of the parts of a node, for metrics and reports.

use ledger::Commitment;
use query::LedgerMemory;

use crate::Node;

/// Memory of the parts of a node at one point in time: heap bytes, and numbers of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMemory {
    /// Addresses in the address table.
    pub addresses: usize,
    /// Accounts, including those of unrooted blocks.
    pub accounts: usize,
    /// The address table, the indices, the accounts.
    pub ledger: LedgerMemory,
    /// Blocks, transactions and signatures by address, estimated from their sizes.
    pub history_bytes: u64,
}

impl NodeMemory {
    /// The current memory of `node`. Cost: O(bytes / 1,024), so not for a thread that polls sockets.
    pub fn for_node(node: &Node) -> Self {
        let view = node.reader.view(Commitment::Processed);
        Self {
            addresses: node.reader.addresses().len(),
            accounts: view.len(),
            ledger: view.bytes(),
            history_bytes: node.history.snapshot().bytes(),
        }
    }
}
