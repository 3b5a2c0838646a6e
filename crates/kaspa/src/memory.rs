//! The memory of a decoded block, which may be several times its encoded bytes.
//!
//! In: a block. Out: its approximate bytes in memory, for the bounds of blocks that are stored together.
//! Cost: O(inputs and outputs of its transactions).

use crate::hash::Hash;
use crate::header::ParentLevels;
use crate::message::Block;
use crate::transaction::{Transaction, TransactionInput, TransactionOutput};

/// The allocator's overhead for each allocation. Most allocations are short scripts, and a third of their memory is
/// this overhead.
const ALLOCATION_BYTES: usize = 16;

impl Block {
    /// Returns the approximate bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        let runs = self.header.parents.runs();
        let parents: usize = runs.iter().map(|run| heap_bytes::<Hash>(run.parents.len())).sum();
        let transactions: usize = self.transactions.iter().map(transaction_heap_bytes).sum();
        size_of::<Self>()
            + heap_bytes::<ParentLevels>(runs.len())
            + parents
            + heap_bytes::<Transaction>(self.transactions.capacity())
            + transactions
    }
}

/// Returns the heap memory of a transaction in bytes.
fn transaction_heap_bytes(transaction: &Transaction) -> usize {
    let Transaction { inputs, outputs, payload, .. } = transaction;
    let signatures = inputs.iter().map(|input| input.signature_script.capacity());
    let scripts = outputs.iter().map(|output| output.script_public_key.script.len());
    let scripts: usize = signatures.chain(scripts).map(heap_bytes::<u8>).sum();
    heap_bytes::<TransactionInput>(inputs.capacity())
        + heap_bytes::<TransactionOutput>(outputs.capacity())
        + heap_bytes::<u8>(payload.capacity())
        + scripts
}

/// Returns the bytes of an allocation for this number of items, with the allocator's overhead.
fn heap_bytes<T>(items: usize) -> usize {
    if items == 0 { 0 } else { items * size_of::<T>() + ALLOCATION_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;
    use crate::script::ScriptPublicKey;

    #[test]
    fn a_block_counts_its_transactions_with_their_scripts_and_payloads() {
        let header = Network::Simnet.genesis();
        let empty = Block { hash: header.hash(), header, transactions: Vec::new() };
        let script_public_key = ScriptPublicKey { version: 0, script: vec![0; 34].into() };
        let output = TransactionOutput { amount: 1, script_public_key, covenant: None };
        let transaction = Transaction {
            outputs: vec![output; 3],
            payload: vec![0; 1_000],
            ..Transaction::default()
        };
        let block = Block { transactions: vec![transaction; 2], ..empty.clone() };
        let outputs = 3 * (size_of::<TransactionOutput>() + 34 + ALLOCATION_BYTES);
        let payload = 1_000 + ALLOCATION_BYTES;
        let transaction = size_of::<Transaction>() + outputs + ALLOCATION_BYTES + payload;
        let expected = empty.memory_bytes() + ALLOCATION_BYTES + 2 * transaction;
        assert_eq!(block.memory_bytes(), expected);
    }
}
