//! Chains that a source cannot send as full blocks.

use chain_kaspa::{ChainConfig, HistoryLimits};
use kaspa::{
    AddressPayload, Hash, Outpoint, ScriptPublicKey, Transaction, TransactionInput,
    TransactionOutput,
};
use testkit::eventually::eventually;
use testkit::kaspa_node::{KaspaNode, Lie, MINER, Payment};

use crate::world::{World, chain_config, config, source};

/// A script without an address.
fn plain_script() -> ScriptPublicKey {
    ScriptPublicKey { version: 0, script: [0x51, 0x51].into() }
}

fn pay(node: &KaspaNode, to: ScriptPublicKey) -> Hash {
    let payment = Payment { from: MINER, to: vec![(to, 1_000_000)], fee: 1_000 };
    node.pay(&payment).expect("coinbases are mature")
}

/// Spends the first output of a transaction.
fn spend(node: &KaspaNode, transaction_id: Hash) {
    let input = TransactionInput {
        previous_outpoint: Outpoint { transaction_id, index: 0 },
        signature_script: vec![0x51],
        sequence: 0,
        sig_op_count: 0,
        compute_budget: 0,
    };
    let key = AddressPayload::PublicKey([5; 32]);
    let output = TransactionOutput {
        amount: 900_000,
        script_public_key: ScriptPublicKey::from_payload(&key),
        covenant: None,
    };
    let transaction =
        Transaction { inputs: vec![input], outputs: vec![output], ..Transaction::default() };
    node.submit_transaction(transaction).expect("it is spendable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_without_an_address_are_followed_in_pieces() {
    let node = KaspaNode::start().await;
    node.mine(12);
    let paid = pay(&node, plain_script());
    node.mine(2);
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    assert_eq!(world.status.piece_blocks(), 14, "the page has one such script");
    // Live, with parallel blocks, and both sides of a reorganization.
    spend(&node, paid);
    pay(&node, plain_script());
    node.mine(1);
    node.mine_siblings(3);
    node.mine(2);
    world.reach_virtual(&node).await;
    pay(&node, plain_script());
    node.mine(2);
    node.reorganize(3);
    node.mine(1);
    world.reach_virtual(&node).await;
    assert!(world.status.chain().counters.reorganizations > 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_header_removes_no_block_in_pieces() {
    let node = KaspaNode::start().await;
    node.mine(12);
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    pay(&node, plain_script());
    node.mine(2);
    world.reach_virtual(&node).await;
    let proven = world.status.proven();
    node.set_accepting(false);
    node.cut_after(0);
    eventually(|| node.connections() == 0, String::new).await;
    node.reorganize(3);
    // It merges the blocks that left the chain, with their script.
    node.mine(1);
    node.add_lie(Lie::Header { block: node.sink(), bit: 3 });
    node.set_accepting(true);
    world.wait(|status| status.last_session_end().is_some_and(|it| it.contains("less work"))).await;
    assert_eq!(world.status.proven(), proven);
    assert_eq!(world.seen.read(|seen| seen.removed), 0);
    node.clear_lies();
    world.reach_virtual(&node).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lie_in_the_first_block_of_a_fork_removes_no_block_in_pieces() {
    let node = KaspaNode::start().await;
    node.mine(12);
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    pay(&node, plain_script());
    node.mine(2);
    world.reach_virtual(&node).await;
    let proven = world.status.proven();
    node.set_accepting(false);
    node.cut_after(0);
    eventually(|| node.connections() == 0, String::new).await;
    let fork = node.reorganize(3);
    // It merges the blocks that left the chain, with their script. Its header is true.
    node.mine(1);
    node.add_lie(Lie::Commitment { block: fork.added[0], bit: 3 });
    node.set_accepting(true);
    world.wait(|status| status.mismatch().is_some()).await;
    assert_eq!(world.status.proven(), proven);
    assert_eq!(world.seen.read(|seen| seen.removed), 0);
    node.clear_lies();
    world.reach_virtual(&node).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_older_than_the_history_are_found() {
    let node = KaspaNode::start().await;
    node.mine(12);
    let paid = pay(&node, plain_script());
    node.mine(12);
    let history = HistoryLimits { blocks_max: 1, bytes_max: 1 };
    let chain = ChainConfig { history, ..chain_config() };
    let world = World::start(config(vec![source(&node)]), chain);
    world.reach_sink(&node).await;
    spend(&node, paid);
    pay(&node, plain_script());
    node.mine(3);
    world.reach_sink(&node).await;
    assert!(world.status.piece_blocks() > 24);
    // Both branches accept the block at the fork point, which spends such outputs.
    pay(&node, plain_script());
    node.mine(3);
    world.reach_sink(&node).await;
    node.reorganize(2);
    world.reach_sink(&node).await;
    assert_eq!(world.status.chain().counters.removed_blocks, 2);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_too_long_is_requested_in_pieces() {
    let node = KaspaNode::start().await;
    node.mine(60);
    let mut config = config(vec![source(&node)]);
    config.connection.message_bytes_max = 16 << 10;
    let world = World::start(config, chain_config());
    world.reach_virtual(&node).await;
    assert_eq!(world.status.piece_blocks(), 60);
    node.mine(3);
    world.reach_virtual(&node).await;
    assert_eq!(world.status.piece_blocks(), 60, "short pages are requested whole");
    world.stop().await;
}
