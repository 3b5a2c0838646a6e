//! Several sources: the next one continues, from the newest block that both have.

use std::time::Duration;

use follow_kaspa::Agreement;
use testkit::eventually::eventually;
use testkit::kaspa_node::{KaspaNode, Miner, NewBlock, default_miner};

use crate::world::{World, chain_config, config, source};

/// Copies all blocks of a node's chain to another one.
fn copy_chain(from: &KaspaNode, to: &KaspaNode, blocks: usize) {
    for hash in from.chain().into_iter().take(blocks) {
        let block = from.with_dag(|dag| dag.block(&hash).expect("a chain block").clone());
        let header = block.header.clone();
        let transactions = block.transactions.clone();
        to.add_block(NewBlock { header, transactions }).expect("it is valid");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_source_continues_the_chain() {
    let first = KaspaNode::start().await;
    let second = KaspaNode::start().await;
    first.mine(20);
    copy_chain(&first, &second, 20);
    let config = config(vec![source(&first), source(&second)]);
    let world = World::start(config, chain_config());
    world.reach_virtual(&first).await;
    let server = source(&first).server().to_string();
    assert_eq!(world.status.source().as_deref(), Some(server.as_str()));
    let is_same = |(_, agreement): &(String, Agreement)| *agreement == Agreement::Same;
    world.wait(|status| status.agreements().iter().filter(|it| is_same(it)).count() == 2).await;
    first.set_accepting(false);
    first.cut_after(0);
    second.mine(3);
    world.reach_virtual(&second).await;
    assert_eq!(world.status.chain().counters.removed_blocks, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_that_only_one_source_had_are_reverted_if_the_other_has_more_work() {
    let first = KaspaNode::start().await;
    let second = KaspaNode::start().await;
    first.mine(20);
    copy_chain(&first, &second, 17);
    let config = config(vec![source(&first), source(&second)]);
    let world = World::start(config, chain_config());
    world.reach_virtual(&first).await;
    let proven = world.status.proven();
    let is_unknown = |(_, agreement): &(String, Agreement)| *agreement == Agreement::Unknown;
    world.wait(|status| status.agreements().iter().any(is_unknown)).await;
    first.set_accepting(false);
    first.cut_after(0);
    // The second one is behind: it has none of the three newest blocks, and no other.
    world.wait(|status| status.last_session_end().is_some_and(|it| it.contains("less work"))).await;
    assert_eq!(world.status.proven(), proven);
    let miner = Miner { extra_data: vec![1], ..default_miner() };
    for _ in 0..6 {
        second.mine_to(&miner);
    }
    world.reach_virtual(&second).await;
    assert_eq!(world.status.chain().counters.removed_blocks, 3);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_stands_still_is_left() {
    let first = KaspaNode::start().await;
    let second = KaspaNode::start().await;
    first.mine(5);
    copy_chain(&first, &second, 5);
    second.mine(5);
    let mut config = config(vec![source(&first), source(&second)]);
    config.session.stall_timeout = Duration::from_millis(50);
    let world = World::start(config, chain_config());
    eventually(
        || world.status.proven().hash == second.sink(),
        || format!("{:?}", world.status.last_session_end()),
    )
    .await;
    world.stop().await;
}
