//! A page of the chain for blocks that are in no DAG: for benchmarks of decoders.

use kaspa::{AcceptedTransaction, AcceptingBlock, Hash, Prefix};

use super::replies::reply;
use super::wire::{AcceptedShape, Structure, TransactionBlock, Value, optional_header};

/// Encodes the structure of a reply to getVirtualChainFromBlockV2 in Borsh, at its level Full. No block is removed.
pub fn encode_chain_page(blocks: &[AcceptingBlock]) -> Vec<u8> {
    let removed: [Hash; 0] = [];
    let added: Vec<Hash> = blocks.iter().map(|block| block.hash).collect();
    let page = reply()
        .field("removedChainBlockHashes", Value::hashes(&removed))
        .field("addedChainBlockHashes", Value::hashes(&added))
        .field(
            "chainBlockAcceptedTransactions",
            Value::structures(blocks.iter().map(to_structure).collect()),
        );
    let mut bytes = Vec::new();
    page.put_borsh(&mut bytes);
    bytes
}

fn to_structure(block: &AcceptingBlock) -> Structure {
    let accepted = block.transactions.iter().map(to_accepted).collect();
    Structure::with_version16(1)
        .field(
            "chainBlockHeader",
            Value::Structure(optional_header(block.hash, &block.header)),
        )
        .field("acceptedTransactions", Value::structures(accepted))
}

fn to_accepted(accepted: &AcceptedTransaction) -> Structure {
    let AcceptedTransaction { id, transaction, spent, block_hash, block_time_ms } = accepted;
    let block = TransactionBlock { block_hash: *block_hash, block_time_ms: *block_time_ms };
    let shape = AcceptedShape {
        id: *id,
        hash: transaction.hash(),
        transaction,
        spent,
        block,
        prefix: Prefix::Simnet,
    };
    shape.to_structure()
}
