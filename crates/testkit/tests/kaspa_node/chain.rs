//! Chains of the model: tests recompute hashes, links and commitments from the messages that a follower gets.

use kaspa::{
    AcceptingBlock, AddressPayload, BlockDagInfo, BlockTemplate, CoinSupply, CovenantBinding, Hash,
    Method, Outpoint, ScriptPublicKey, Transaction, TransactionInput, TransactionOutput,
};
use testkit::kaspa_node::{InvalidBlock, KaspaNode, MINER, Payment, default_miner};

use crate::world::{BorshClient, UtxoMap, commitment, miner_address};

/// Applies a chain block to the set, and checks it.
fn apply(utxos: &mut UtxoMap, previous: Hash, block: &AcceptingBlock) {
    assert_eq!(block.header.hash(), block.hash);
    assert_eq!(block.header.parents.direct()[0], previous);
    for accepted in &block.transactions {
        assert_eq!(accepted.transaction.id(), accepted.id);
        for (input, spent) in accepted.transaction.inputs.iter().zip(&accepted.spent) {
            assert_eq!(utxos.remove(&input.previous_outpoint).as_ref(), Some(spent));
        }
        for (index, output) in (0..).zip(&accepted.transaction.outputs) {
            let outpoint = Outpoint { transaction_id: accepted.id, index };
            let is_coinbase = accepted.transaction.is_coinbase();
            let entry = output.to_utxo(block.header.daa_score, is_coinbase);
            assert_eq!(utxos.insert(outpoint, entry), None);
        }
    }
    assert_eq!(commitment(utxos), block.header.utxo_commitment, "{}", block.hash);
}

fn payment(to: AddressPayload, amount: u64) -> Payment {
    let to = vec![(ScriptPublicKey::from_payload(&to), amount)];
    Payment { from: MINER, to, fee: 1_000 }
}

/// A chain with siblings, payments to all kinds of addresses, a covenant, and a reorganization.
fn make_chain(node: &KaspaNode) {
    node.mine(8);
    node.mine_siblings(3);
    let kinds = [
        AddressPayload::PublicKey([1; 32]),
        AddressPayload::EcdsaPublicKey([2; 33]),
        AddressPayload::ScriptHash([3; 32]),
    ];
    for kind in kinds {
        node.pay(&payment(kind, 100_000_000)).expect("the miner has coins");
    }
    node.mine_siblings(2);
    node.mine(2);
    node.submit_transaction(covenant_transaction(node)).expect("the miner has coins");
    node.mine(3);
    node.reorganize(4);
    node.mine(2);
}

/// A transaction of version 1 that puts an output into a covenant.
fn covenant_transaction(node: &KaspaNode) -> Transaction {
    let utxos = node.utxos();
    let spendable = |outpoint: &Outpoint| node.with_dag(|dag| dag.is_spendable(outpoint));
    let script = default_miner().script;
    let own = utxos
        .iter()
        .find(|(outpoint, entry)| entry.script_public_key == script && spendable(outpoint));
    let (outpoint, entry) = own.expect("a mature coinbase");
    let binding = CovenantBinding { authorizing_input: 0, covenant_id: Hash([9; 32]) };
    Transaction {
        version: 1,
        inputs: vec![TransactionInput {
            previous_outpoint: *outpoint,
            signature_script: vec![1, 2, 3],
            sequence: 0,
            sig_op_count: 0,
            compute_budget: 10,
        }],
        outputs: vec![TransactionOutput {
            amount: entry.amount - 1,
            script_public_key: script,
            covenant: Some(binding),
        }],
        ..Transaction::default()
    }
}

#[tokio::test]
async fn every_block_has_its_hash_its_link_and_its_commitment() {
    let node = KaspaNode::start().await;
    make_chain(&node);
    let mut client = BorshClient::connect(&node).await;
    let genesis = node.with_dag(|dag| dag.genesis());
    let chain = client.chain(genesis).await.expect("the chain");
    assert_eq!(chain.removed, []);
    let mut utxos = UtxoMap::new();
    let mut previous = genesis;
    let mut merged = 0;
    for block in &chain.blocks {
        apply(&mut utxos, previous, block);
        merged += block.header.parents.direct().len() - 1;
        previous = block.hash;
    }
    assert_eq!(previous, node.sink());
    assert!(merged > 0, "blocks with several parents");
    assert!(utxos.values().any(|entry| entry.covenant_id.is_some()));

    // A node's index is one acceptance ahead, and a template commits to it.
    let address = miner_address();
    let template = client.call(|id| Method::encode_borsh_get_block_template(id, &address)).await;
    let template = BlockTemplate::decode_borsh(&template.expect("a template"));
    let template = template.expect("a template").header;
    assert_eq!(template.utxo_commitment, commitment(&node.utxos()));
    assert_eq!(template.parents.direct()[0], previous);
    assert!(client.chain(previous).await.expect("the sink").blocks.is_empty());
}

#[tokio::test]
async fn balances_supply_and_utxos_agree() {
    let node = KaspaNode::start().await;
    make_chain(&node);
    let mut client = BorshClient::connect(&node).await;
    let own = client.utxos(&[miner_address(), miner_address()]).await;
    let known = node.utxos();
    assert!(own.iter().all(|utxo| known.get(&utxo.outpoint) == Some(&utxo.entry)));
    let script = default_miner().script;
    let expected = known.values().filter(|entry| entry.script_public_key == script);
    assert_eq!(own.len(), expected.count(), "each once");

    let sum: u64 = own.iter().map(|utxo| utxo.entry.amount).sum();
    let addresses = [miner_address()];
    let encode = |id| Method::GetBalancesByAddresses.encode_borsh_addresses(id, &addresses);
    let reply = client.call(encode).await.expect("a balance");
    assert_eq!(reply[reply.len() - 8..], sum.to_le_bytes());

    let supply = client.call(|id| Method::GetCoinSupply.encode_borsh_request(id)).await;
    let supply = CoinSupply::decode_borsh(&supply.expect("the supply")).expect("the supply");
    let all: u64 = known.values().map(|entry| entry.amount).sum();
    assert_eq!(supply.circulating_sompi, all);
}

#[tokio::test]
async fn siblings_are_merged_by_the_next_block() {
    let node = KaspaNode::start().await;
    node.mine(3);
    let siblings = node.mine_siblings(3);
    let mut client = BorshClient::connect(&node).await;
    let info = client.call(|id| Method::GetBlockDagInfo.encode_borsh_request(id)).await;
    let info = BlockDagInfo::decode_borsh(&info.expect("a DAG")).expect("a DAG");
    // The figures of kaspad 2.1.0 after the same calls.
    assert_eq!((info.block_count, info.virtual_daa_score), (6, 6));
    assert_eq!(info.tip_hashes.len(), 3);
    node.with_dag(|dag| {
        let first = dag.block(&dag.genesis()).expect("the first block");
        assert_eq!(first.transactions[0].hash(), first.header.hash_merkle_root);
    });
    assert_eq!(info.sink, *siblings.iter().max().expect("three"), "equal work: by hash");
    let [next] = node.mine(1)[..] else { panic!("one block") };
    let header = node.with_dag(|dag| dag.block(&next).expect("it is there").header.clone());
    assert_eq!((header.blue_score, header.daa_score), (7, 6));
    assert_eq!(header.blue_work.significant_bytes(), [14]);
    let mut parents = siblings;
    parents.sort();
    parents.reverse();
    assert_eq!(header.parents.direct(), parents);
    node.with_dag(|dag| {
        let coinbase = &dag.block(&next).expect("it is there").transactions[0];
        assert_eq!(coinbase.outputs.len(), 3, "one for each blue block");
    });
}

#[tokio::test]
async fn a_double_spend_is_accepted_once() {
    let node = KaspaNode::start().await;
    node.mine(8);
    let sink = node.sink();
    let to = AddressPayload::PublicKey([1; 32]);
    node.pay(&payment(to, 5)).expect("the miner has coins");
    let first = node.with_dag(|dag| dag.mempool()[0].transaction.clone());
    let mut second = first.clone();
    let other = AddressPayload::PublicKey([2; 32]);
    second.outputs[0].script_public_key = ScriptPublicKey::from_payload(&other);
    for transaction in [first, second] {
        node.mine_on(&[sink], vec![transaction]);
    }
    node.mine(2);
    let paid = node.utxos().values().filter(|entry| entry.amount == 5).count();
    assert_eq!(paid, 1, "both spend the same output");
    let mut client = BorshClient::connect(&node).await;
    let genesis = node.with_dag(|dag| dag.genesis());
    let mut utxos = UtxoMap::new();
    let mut previous = genesis;
    for block in &client.chain(genesis).await.expect("the chain").blocks {
        apply(&mut utxos, previous, block);
        previous = block.hash;
    }
}

#[tokio::test]
async fn a_block_that_spends_an_output_twice_is_refused() {
    let node = KaspaNode::start().await;
    node.mine(8);
    let to = AddressPayload::PublicKey([1; 32]);
    node.pay(&payment(to, 5)).expect("the miner has coins");
    let first = node.with_dag(|dag| dag.mempool()[0].transaction.clone());
    let mut second = first.clone();
    let other = AddressPayload::PublicKey([2; 32]);
    second.outputs[0].script_public_key = ScriptPublicKey::from_payload(&other);
    let mut doubled = first.clone();
    doubled.inputs.push(doubled.inputs[0].clone());
    let template = node.with_dag(|dag| dag.build_template(&default_miner()));
    let coinbase = template.transactions[0].clone();
    for transactions in [vec![first, second], vec![doubled], vec![coinbase]] {
        let mut block = template.clone();
        block.transactions.truncate(1);
        block.transactions.extend(transactions);
        assert_eq!(node.add_block(block), Err(InvalidBlock::Malformed));
    }
    node.mine(2);
    let is_paid = node.utxos().values().any(|entry| entry.amount == 5);
    assert!(is_paid, "the node continues with the transaction");

    let mut doubled = covenant_transaction(&node);
    doubled.inputs.push(doubled.inputs[0].clone());
    let refused = Err("transaction has duplicate inputs".to_owned());
    assert_eq!(node.submit_transaction(doubled), refused);
}

#[tokio::test]
async fn an_invalid_block_is_not_on_the_chain() {
    let node = KaspaNode::start().await;
    node.mine(3);
    let sink = node.sink();
    let template = || node.with_dag(|dag| dag.build_template(&default_miner()));
    let mut block = template();
    block.header.utxo_commitment = Hash([0xab; 32]);
    let hash = node.add_block(block).expect("kaspad takes it into the DAG");
    assert_eq!(node.sink(), sink);
    assert!(node.with_dag(|dag| dag.block(&hash).expect("it is there").state.is_none()));
    let refused = |change: &dyn Fn(&mut testkit::kaspa_node::NewBlock)| {
        let mut block = template();
        change(&mut block);
        node.add_block(block).expect_err("it is refused")
    };
    let wrong_root = refused(&|block| block.header.hash_merkle_root = Hash([1; 32]));
    assert_eq!(wrong_root, InvalidBlock::MerkleRoot);
    assert_eq!(refused(&|block| block.header.daa_score += 1), InvalidBlock::Scores);
    let unknown = refused(&|block| block.header.parents = kaspa::Parents::default());
    assert_eq!(unknown, InvalidBlock::Malformed);
    node.mine(1);
    assert_ne!(node.sink(), sink);
}

#[tokio::test]
async fn a_script_without_an_address_fails_the_chain_call() {
    let node = KaspaNode::start().await;
    let genesis = node.with_dag(|dag| dag.genesis());
    let script = ScriptPublicKey { version: 0, script: [0x51, 0x51].into() };
    node.mine(2);
    node.mine_to(&testkit::kaspa_node::Miner { script, extra_data: Vec::new() });
    node.mine(2);
    let mut client = BorshClient::connect(&node).await;
    let error = client.chain(genesis).await.err().expect("kaspad cannot write it");
    assert_eq!(error.to_string(), "The address is invalid");
}

#[tokio::test]
async fn a_deep_reorganization_is_one_change() {
    let node = KaspaNode::start().await;
    node.mine(40);
    let before = node.sink();
    let path = node.reorganize(30);
    assert_eq!(path.removed.len(), 30);
    assert_eq!(path.removed[0], before);
    assert!((30..=31).contains(&path.added.len()));
    let mut client = BorshClient::connect(&node).await;
    let change = client.chain(before).await.expect("the chain");
    assert_eq!(change.removed, path.removed);
    let added: Vec<Hash> = change.blocks.iter().map(|block| block.hash).collect();
    assert_eq!(added, path.added);
    // The next block merges the branch that lost.
    let [next] = node.mine(1)[..] else { panic!("one block") };
    node.with_dag(|dag| {
        let merged = &dag.block(&next).expect("it is there").ghostdag.merge_order;
        assert!(merged.contains(&before));
    });
}
