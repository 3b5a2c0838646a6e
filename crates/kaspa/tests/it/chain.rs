//! A chain of a kaspad from its first block on: every hash, link and commitment is computed again.

use std::collections::HashMap;

use kaspa::{
    AcceptedTransaction, BlockTemplate, BorshError, BorshReply, BorshRequest, BorshServerMessage,
    ChainChange, ChainReply, Method, Network, Outpoint, UtxoEntry, VerbosityLevel,
    decode_borsh_utxos,
};
use muhash::MuHash;
use testkit::kaspa_golden::{BORSH, CHAIN, expect_bytes};

fn structure(frame: &[u8]) -> &[u8] {
    match BorshServerMessage::parse(frame) {
        Ok(BorshServerMessage::Reply(BorshReply { result: Ok(structure), .. })) => structure,
        other => panic!("not a successful reply: {other:?}"),
    }
}

/// A UTXO set, and the hash over it.
#[derive(Default)]
struct UtxoSet {
    utxos: HashMap<Outpoint, UtxoEntry>,
    hash: MuHash,
}

impl UtxoSet {
    fn accept(&mut self, accepted: &AcceptedTransaction, block_daa_score: u64) {
        let AcceptedTransaction { id, transaction, spent, .. } = accepted;
        assert_eq!(transaction.inputs.len(), spent.len());
        for (input, entry) in transaction.inputs.iter().zip(spent) {
            let outpoint = input.previous_outpoint;
            assert_eq!(self.utxos.remove(&outpoint).as_ref(), Some(entry), "the spent output");
            self.hash.remove(&entry.element(&outpoint));
        }
        for (index, output) in (0..).zip(&transaction.outputs) {
            let outpoint = Outpoint { transaction_id: *id, index };
            let entry = output.to_utxo(block_daa_score, transaction.is_coinbase());
            self.hash.add(&entry.element(&outpoint));
            assert_eq!(self.utxos.insert(outpoint, entry), None, "a new output");
        }
    }
}

#[test]
fn every_block_has_its_hash_its_link_and_its_commitment() {
    let frame = expect_bytes(CHAIN, "chain_v2_full", "response");
    let mut reply = ChainReply::parse(structure(&frame)).expect("a chain");
    assert_eq!(reply.removed, []);
    let added = reply.added.clone();
    assert_eq!(reply.blocks_left(), added.len());
    let mut set = UtxoSet::default();
    let mut previous = Network::Simnet.genesis().hash();
    let mut versions = [0, 0];
    let mut merged = 0;
    for hash in &added {
        let block = reply.next_block().expect("a block").expect("one for each hash");
        assert_eq!(block.hash, *hash);
        assert_eq!(block.header.hash(), *hash);
        assert_eq!(block.header.parents.direct()[0], previous);
        merged += block.header.parents.direct().len() - 1;
        for accepted in &block.transactions {
            assert_eq!(accepted.transaction.id(), accepted.id);
            if !accepted.transaction.is_coinbase() {
                versions[usize::from(accepted.transaction.version)] += 1;
            }
            set.accept(accepted, block.header.daa_score);
        }
        assert_eq!(set.hash.finalize(), block.header.utxo_commitment.0, "{hash}");
        previous = *hash;
    }
    assert_eq!(reply.next_block(), Ok(None));
    assert_eq!(versions, [1, 1], "transactions of both versions");
    assert!(merged > 0, "blocks with several parents");
    assert_eq!(set.utxos.values().filter(|entry| entry.covenant_id.is_some()).count(), 1);

    // What kaspad returns by address is in the set, but for the virtual block above the chain.
    let frame = expect_bytes(CHAIN, "chain_utxos", "response");
    let utxos = decode_borsh_utxos(structure(&frame)).expect("UTXOs");
    let known = utxos.iter().filter(|utxo| set.utxos.get(&utxo.outpoint) == Some(&utxo.entry));
    assert!(known.count() >= set.utxos.len() - 2);
}

#[test]
fn a_reorganization_names_the_blocks_that_left() {
    let request = expect_bytes(CHAIN, "reorg_v2", "request");
    let request = BorshRequest::parse(&request).expect("a request");
    let frame = expect_bytes(CHAIN, "reorg_v2", "response");
    let mut reply = ChainReply::parse(structure(&frame)).expect("a chain");
    let [removed] = reply.removed[..] else { panic!("one block left") };
    let id = request.id.expect("an id");
    let expected = Method::encode_borsh_get_chain(id, &removed, VerbosityLevel::Full, None);
    assert_eq!(expected[14..], *request.structure().expect("a structure"));
    let block = reply.next_block().expect("a block").expect("a block");
    assert_eq!(reply.added, [block.header.hash()]);
}

#[test]
fn both_versions_of_the_call_name_the_same_chain() {
    let request = expect_bytes(BORSH, "getVirtualChainFromBlock", "request");
    let id = BorshRequest::parse(&request).expect("a request").id.expect("an id");
    let start = kaspa::Hash(request[16..48].try_into().expect("a hash"));
    assert_eq!(Method::encode_borsh_get_chain_ids(id, &start), request);
    let frame = expect_bytes(BORSH, "getVirtualChainFromBlock", "response");
    let change = ChainChange::decode_borsh(structure(&frame)).expect("a change");
    let frame = expect_bytes(BORSH, "getVirtualChainFromBlockV2_Full", "response");
    let mut reply = ChainReply::parse(structure(&frame)).expect("a chain");
    assert_eq!((&change.removed, &change.added), (&reply.removed, &reply.added));
    for accepted in change.accepted {
        let block = reply.next_block().expect("a block").expect("one for each");
        let ids: Vec<kaspa::Hash> = block.transactions.iter().map(|tx| tx.id).collect();
        assert_eq!(accepted.accepting_block, block.hash);
        assert_eq!(accepted.transaction_ids, ids);
    }
}

#[test]
fn a_level_without_everything_is_refused() {
    for name in ["None", "Low", "High"] {
        let name = format!("getVirtualChainFromBlockV2_{name}");
        let frame = expect_bytes(BORSH, &name, "response");
        let mut reply = ChainReply::parse(structure(&frame)).expect("the lists");
        assert!(matches!(reply.next_block(), Err(BorshError::MissingField { .. })), "{name}");
    }
    let frame = expect_bytes(BORSH, "getVirtualChainFromBlockV2_Full", "response");
    let mut reply = ChainReply::parse(structure(&frame)).expect("the lists");
    while let Some(block) = reply.next_block().expect("a block") {
        assert_eq!(block.header.hash(), block.hash);
    }
}

#[test]
fn a_template_is_above_the_chain() {
    let frame = expect_bytes(CHAIN, "chain_v2_full", "response");
    let chain = ChainReply::parse(structure(&frame)).expect("a chain");
    let frame = expect_bytes(CHAIN, "chain_template", "response");
    let template = BlockTemplate::decode_borsh(structure(&frame)).expect("a template");
    assert_eq!(template.header.parents.direct().first(), chain.added.last());
}
