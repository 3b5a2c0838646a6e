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
        .field("chainBlockHeader", Value::Structure(optional_header(block.hash, &block.header)))
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

#[cfg(test)]
mod tests {
    use kaspa::{
        AddressPayload, ChainReply, Network, Outpoint, ScriptPublicKey, Transaction,
        TransactionInput, TransactionOutput, UtxoEntry,
    };

    use super::*;

    #[test]
    fn a_page_is_decoded_to_its_blocks() {
        let script_public_key = ScriptPublicKey::from_payload(&AddressPayload::PublicKey([5; 32]));
        let input = TransactionInput {
            previous_outpoint: Outpoint { transaction_id: Hash([1; 32]), index: 2 },
            signature_script: vec![3; 66],
            sequence: 4,
            sig_op_count: 1,
            compute_budget: 0,
        };
        let entry = UtxoEntry {
            amount: 6,
            script_public_key: script_public_key.clone(),
            block_daa_score: 7,
            is_coinbase: true,
            covenant_id: None,
        };
        let output = TransactionOutput { amount: 6, script_public_key, covenant: None };
        let transaction =
            Transaction { inputs: vec![input], outputs: vec![output], ..Transaction::default() };
        let accepted = AcceptedTransaction {
            id: transaction.id(),
            transaction,
            spent: vec![entry],
            block_hash: Hash([8; 32]),
            block_time_ms: 9,
        };
        let header = Network::Simnet.genesis();
        let block = AcceptingBlock { hash: header.hash(), header, transactions: vec![accepted] };
        let page = encode_chain_page(std::slice::from_ref(&block));
        let mut reply = ChainReply::parse(&page).expect("a page");
        assert_eq!(reply.added, [block.hash]);
        assert_eq!(reply.next_block().expect("a block"), Some(block));
        assert_eq!(reply.blocks_left(), 0);
    }
}
