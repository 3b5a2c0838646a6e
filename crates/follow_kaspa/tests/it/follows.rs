//! Follows an honest node: the chain, forks, the virtual state, events.

use chain_kaspa::{ChainConfig, VirtualMode};
use follow_kaspa::{FollowError, RestartBase, SourceConfig};
use kaspa::{AddressPayload, Encoding, Event, Network, ScriptPublicKey, Transaction};
use ledger::Commitment;
use testkit::eventually::eventually;
use testkit::kaspa_node::{KaspaNode, MINER, Payment};

use crate::world::{World, chain_config, config, reorganize_offline, source};

fn payment(amount: u64) -> Payment {
    let to = ScriptPublicKey::from_payload(&AddressPayload::ScriptHash([3; 32]));
    Payment { from: MINER, to: vec![(to, amount)], fee: 1_000 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_is_followed_from_its_first_block() {
    let node = KaspaNode::start().await;
    node.mine(25);
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    assert_eq!(world.status.chain().counters.blocks, 25);
    for amount in 1..=10 {
        node.pay(&payment(amount)).expect("coinbases are mature");
        node.mine(1);
        node.mine_siblings(2);
    }
    world.reach_virtual(&node).await;
    let status = world.status.chain();
    assert_eq!(status.counters.refused, 0);
    assert_eq!(status.sink.hash, node.sink());
    let view = world.reader.utxos.view(Commitment::Confirmed);
    assert!(view.meta().is_proven());
    assert_eq!(world.status.problem(), None);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_notifications_are_applied_in_order() {
    const OUTPUTS: u64 = 1_150;
    let node = KaspaNode::start().await;
    node.mine(15);
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    // Each of them has more than 64 KiB, and short ones follow.
    for key in 1..=3 {
        let script = ScriptPublicKey::from_payload(&AddressPayload::PublicKey([key; 32]));
        let to = (0..OUTPUTS).map(|output| (script.clone(), 1_000 + output)).collect();
        node.pay(&Payment { from: MINER, to, fee: 1_000 }).expect("enough sompi");
        node.mine(2);
    }
    world.reach_virtual(&node).await;
    assert_eq!(world.status.chain().counters.refused, 0);
    assert!(world.status.chain().supply.utxos > 3 * OUTPUTS);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_chain_is_followed() {
    let node = KaspaNode::start().await;
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    node.mine(1);
    world.reach_virtual(&node).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_an_index_of_utxos_is_followed_to_its_sink() {
    let node = KaspaNode::start().await;
    node.set_utxo_index(false);
    node.mine(15);
    let world = World::follow(&node);
    world.reach_sink(&node).await;
    node.pay(&payment(5)).expect("coinbases are mature");
    node.mine(2);
    node.reorganize(1);
    world.reach_sink(&node).await;
    let chain = world.status.chain();
    assert_eq!((chain.virtual_state.mode, chain.counters.refused), (VirtualMode::Off, 0));
    assert!(world.read(Commitment::Processed) == node.utxos_at(&node.sink()));
    assert_eq!(world.status.problem(), None);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_in_safe_mode_is_left_with_its_own_advice() {
    let node = KaspaNode::start().await;
    node.set_unsafe_rpc(false);
    node.mine(5);
    let world = World::follow(&node);
    let advice = |end: String| end.contains("Run the node with --unsaferpc argument");
    world.wait(|status| status.last_session_end().is_some_and(advice)).await;
    node.set_unsafe_rpc(true);
    world.reach_virtual(&node).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_not_in_sync_is_followed_and_reported() {
    let node = KaspaNode::start().await;
    node.set_synced(false);
    node.mine(5);
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    assert!(!world.status.is_source_synced());
    // A download adds many blocks at once.
    node.mine(300);
    world.reach_virtual(&node).await;
    assert_eq!(world.status.chain().counters.refused, 0);
    // A session requests the state of its source when it starts.
    node.set_synced(true);
    node.cut_after(0);
    world.wait(follow_kaspa::FollowStatus::is_source_synced).await;
    world.reach_virtual(&node).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_chain_with_several_parents_becomes_exact() {
    let node = KaspaNode::start().await;
    node.mine(14);
    for amount in [1, 2, 3] {
        node.pay(&payment(amount)).expect("coinbases are mature");
    }
    let payments: Vec<Transaction> =
        node.with_dag(|dag| dag.mempool().iter().map(|entry| entry.transaction.clone()).collect());
    let [first, second, third] = &payments[..] else { panic!("{payments:?}") };
    // Three branches: one is selected, and one of the others has the same payment.
    let fork = node.sink();
    let selected = node.mine_on(&[fork], vec![first.clone()]);
    node.mine_on(&[fork], vec![first.clone(), second.clone()]);
    let low = node.mine_on(&[fork], Vec::new());
    node.mine_on(&[low], vec![third.clone()]);
    node.mine_on(&[selected], Vec::new());
    node.mine_on(&[node.sink()], Vec::new());
    assert_eq!(node.with_dag(|dag| dag.virtual_block().parents.len()), 3);
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    // As quiet as before, with a virtual state that was joined again.
    node.notify_utxo_set_override();
    eventually(|| world.seen.read(|seen| seen.replaced_sets == 1), String::new).await;
    world.reach_virtual(&node).await;
    node.mine(3);
    world.reach_virtual(&node).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reorganizations_are_followed() {
    let node = KaspaNode::start().await;
    node.mine(30);
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    for depth in [1, 2, 7, 20] {
        node.pay(&payment(7)).expect("coinbases are mature");
        node.mine(1);
        // Otherwise the follower may see the net effect of both only.
        world.reach_sink(&node).await;
        node.reorganize(depth);
        world.reach_virtual(&node).await;
    }
    let counters = world.status.chain().counters;
    assert!(counters.reorganizations >= 4, "{counters:?}");
    assert!(counters.deepest_reorganization >= 20, "{counters:?}");
    let removed = world.seen.read(|seen| seen.removed);
    assert!(removed >= 27, "{removed}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reorganization_of_final_blocks_starts_the_chain_again() {
    let node = KaspaNode::start().await;
    node.mine(20);
    let chain = ChainConfig { depth_max: 5, ..chain_config() };
    let world = World::start(config(vec![source(&node)]), chain.clone());
    world.reach_sink(&node).await;
    let reader = world.reader.clone();
    let sink = node.sink();
    reorganize_offline(&node, 8).await;
    let end = world.wait_for_end().await;
    let FollowError::Restart { block, base } = end else { panic!("{end:?}") };
    assert_eq!((block, base), (Network::Simnet.genesis().hash(), RestartBase::Genesis));
    assert_eq!(reader.status().sink.hash, sink, "the served chain stays as it was");
    let world = World::start(config(vec![source(&node)]), chain);
    world.reach_virtual(&node).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sinks_receive_events_and_notifications() {
    let node = KaspaNode::start().await;
    node.mine(3);
    let json = SourceConfig::new(format!("ws://{}", node.json()));
    let mut config = config(vec![source(&node)]);
    config.json_sources = vec![json];
    let world = World::start(config, chain_config());
    world.reach_virtual(&node).await;
    eventually(|| node.subscribed_connections() == 2, String::new).await;
    node.mine(4);
    node.notify_finality_conflict(node.sink());
    node.notify_utxo_set_override();
    world.reach_virtual(&node).await;
    let is_complete = || {
        world.seen.read(|seen| {
            let count = |relayed| seen.relayed.iter().filter(|it| **it == relayed).count();
            seen.chain_blocks == 7
                && count((Encoding::Borsh, Event::BlockAdded)) == 4
                && count((Encoding::Borsh, Event::NewBlockTemplate)) == 4
                && count((Encoding::Borsh, Event::FinalityConflict)) == 1
                && count((Encoding::Json, Event::BlockAdded)) == 4
                && seen.replaced_sets == 1
        })
    };
    eventually(is_complete, || world.seen.read(|seen| format!("{:?}", seen.relayed))).await;
    // The other events do not depend on the encoding, and are passed on once.
    let is_twice = |it: &&(Encoding, Event)| it.0 == Encoding::Json && it.1 != Event::BlockAdded;
    assert_eq!(world.seen.read(|seen| seen.relayed.iter().filter(is_twice).count()), 0);
    world.reach_virtual(&node).await;
    world.stop().await;
}
