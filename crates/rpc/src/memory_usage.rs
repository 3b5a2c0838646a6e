//! What the node's parts take in memory: one place for whoever reports it.

use ledger::Commitment;
use query::LedgerMemory;

use crate::Node;

/// What the parts of a node hold at one moment, in heap bytes and in things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMemory {
    /// Addresses that are known.
    pub addresses: usize,
    /// Accounts, those of unrooted blocks included.
    pub accounts: usize,
    /// The address table, the indices, the accounts.
    pub ledger: LedgerMemory,
    /// Blocks, transactions and signatures by address, estimated from their sizes.
    pub history_bytes: u64,
}

impl NodeMemory {
    /// As it is now. Cost: O(bytes / 1,024), so not for a thread that polls sockets.
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
