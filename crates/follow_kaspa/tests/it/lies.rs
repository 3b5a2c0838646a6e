//! A source that lies in one bit: the block is refused, and the proven state stays.

use kaspa::{Hash, Outpoint};
use ledger::Commitment;
use testkit::eventually::eventually;
use testkit::kaspa_node::{KaspaNode, Lie};

use crate::world::World;

/// Lets a node mine without a connection, and lie about its sink afterwards.
async fn lie_about_next(node: &KaspaNode, lie: impl Fn(&KaspaNode, Hash) -> Lie) {
    node.set_accepting(false);
    node.cut_after(0);
    eventually(|| node.connections() == 0, String::new).await;
    node.mine(2);
    let sink = node.sink();
    node.add_lie(lie(node, sink));
    node.set_accepting(true);
}

async fn assert_refused(lie: impl Fn(&KaspaNode, Hash) -> Lie, reason: &str) {
    let node = KaspaNode::start().await;
    node.mine(10);
    let world = World::follow(&node);
    world.reach_sink(&node).await;
    lie_about_next(&node, lie).await;
    world.wait(|status| status.mismatch().is_some()).await;
    // The step with the lie is not applied at all.
    let mismatch = world.status.mismatch().expect("it stays until the chain continues");
    assert!(mismatch.reason.to_string().contains(reason), "{mismatch:?}");
    let proven = world.status.proven();
    let position = node.chain().iter().position(|hash| *hash == proven.hash);
    assert_eq!(position, Some(9), "nothing newer is served");
    let view = world.reader.utxos.view(Commitment::Processed);
    assert!(view.meta().is_proven(), "the virtual state of a liar is not shown");
    assert!(world.seen.read(|seen| seen.refused) > 0);
    node.clear_lies();
    world.reach_virtual(&node).await;
    assert_eq!(world.status.mismatch(), None);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bit_of_a_header_is_refused() {
    assert_refused(|_, block| Lie::Header { block, bit: 3 }, "has the hash").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bit_of_a_commitment_is_refused() {
    assert_refused(|_, block| Lie::Commitment { block, bit: 77 }, "has the hash").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bit_of_an_amount_is_refused() {
    let lie = |node: &KaspaNode, block: Hash| {
        // An output that the sink accepts.
        let daa_score = node.with_dag(|dag| dag.block(&block).expect("the sink").header.daa_score);
        let utxos = node.utxos();
        let mut accepted = utxos.iter().filter(|(_, entry)| entry.block_daa_score == daa_score);
        let outpoint: Outpoint = *accepted.next().expect("a reward").0;
        Lie::Amount { outpoint, bit: 5 }
    };
    assert_refused(lie, "has the id").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_false_commitment_is_refused_until_the_chain_leaves_it() {
    let node = KaspaNode::start().await;
    node.mine(10);
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    let honest = node.sink();
    node.mine_with_false_commitment(200);
    world.wait(|status| status.mismatch().is_some()).await;
    let mismatch = world.status.mismatch().expect("it stays");
    assert!(mismatch.reason.to_string().contains("commits to"), "{mismatch:?}");
    assert_eq!(world.status.proven().hash, honest);
    assert!(world.status.problem().is_some_and(|it| it.contains("is refused")));
    node.reorganize(1);
    world.reach_sink(&node).await;
    assert_eq!(world.status.mismatch(), None);
    world.stop().await;
}
