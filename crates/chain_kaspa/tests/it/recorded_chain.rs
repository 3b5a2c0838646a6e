//! A chain that a kaspad recorded, from the first block of simnet on: blocks, UTXOs, and a template.

use chain_kaspa::{ChainConfig, TemplateCheck, VirtualMode};
use kaspa::{
    BlockTemplate, BorshReply, BorshServerMessage, ChainReply, Network, decode_borsh_utxos,
};
use ledger::Commitment;
use testkit::kaspa_chain::{CheckedFollower, Utxos, assert_same, difference};
use testkit::kaspa_golden::{CHAIN, expect_bytes};

/// Returns the bytes of a recorded message.
fn find(name: &str) -> Vec<u8> {
    expect_bytes(CHAIN, name, "response")
}

fn structure(frame: &[u8]) -> &[u8] {
    match BorshServerMessage::parse(frame) {
        Ok(BorshServerMessage::Reply(BorshReply { result: Ok(structure), .. })) => structure,
        other => panic!("not a successful reply: {other:?}"),
    }
}

#[test]
fn each_block_of_a_kaspad_is_proven() {
    let header = Network::Simnet.genesis();
    let mut follower = CheckedFollower::new(ChainConfig::new(10_000), header);
    let frame = find("chain_v2_full");
    let mut reply = ChainReply::parse(structure(&frame)).expect("a chain");
    let blocks = reply.added.len();
    let mut step = follower.chain.start_step(&reply.removed).expect("a step");
    while let Some(block) = reply.next_block().expect("a block") {
        step.add_block(block).expect("an honest kaspad");
    }
    assert_eq!(step.len(), blocks);
    step.commit();
    follower.publish();
    let status = follower.reader.status();
    assert_eq!(status.counters.blocks, blocks as u64);
    assert!(follower.reader.utxos.view(Commitment::Confirmed).meta().is_proven());

    // The virtual state has what kaspad returns by address. The difference is one message.
    let sink = follower.read(Commitment::Confirmed);
    let frame = find("chain_utxos");
    let utxos = decode_borsh_utxos(structure(&frame)).expect("UTXOs");
    let scripts: Vec<_> = utxos.iter().map(|utxo| &utxo.entry.script_public_key).collect();
    let other = sink.iter().filter(|(_, entry)| !scripts.contains(&&entry.script_public_key));
    let own = utxos.iter().map(|utxo| (utxo.outpoint, utxo.entry.clone()));
    let processed: Utxos = other.map(|(at, entry)| (*at, entry.clone())).chain(own).collect();
    let message = difference(&sink, &processed);
    assert!(!message.added.is_empty(), "the sink's own reward");

    follower.chain.join_virtual();
    let frame = find("chain_template");
    let template = BlockTemplate::decode_borsh(structure(&frame)).expect("a template");
    follower.chain.announce_virtual_daa_score(template.header.daa_score);
    assert_eq!(follower.chain.check_template(&template), TemplateCheck::Incomplete);
    assert_eq!(follower.chain.virtual_mode(), VirtualMode::Joining);
    follower.chain.apply_utxos_changed(&message);
    assert_eq!(follower.chain.check_template(&template), TemplateCheck::Matched);
    assert_eq!(follower.chain.virtual_mode(), VirtualMode::Exact);
    follower.publish();
    assert_same(&processed, &follower.read(Commitment::Processed), "kaspad's UTXOs");
}
