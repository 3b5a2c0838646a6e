//! The order and the content of notifications.

use std::collections::BTreeMap;

use kaspa::{Block, Event, Hash, Notification, Outpoint, Scope, UtxoEntry};
use serde_json::json;
use testkit::kaspa_node::{KaspaNode, NOTIFICATION_ORDER};

use crate::world::{BorshClient, JsonClient, UtxoMap, miner_address, whole_scope};

/// Applies a notification to a set.
fn apply(utxos: &mut UtxoMap, notification: &Notification) {
    let Notification::UtxosChanged(changes) = notification else { panic!("{notification:?}") };
    for removed in &changes.removed {
        assert_eq!(utxos.remove(&removed.outpoint), Some(removed.entry.clone()));
    }
    for added in &changes.added {
        assert_eq!(utxos.insert(added.outpoint, added.entry.clone()), None);
    }
}

#[tokio::test]
async fn a_reorganization_is_notified_block_by_block_in_order() {
    let node = KaspaNode::start().await;
    node.mine(12);
    let mut client = BorshClient::connect(&node).await;
    client.subscribe_all().await;
    let mut utxos = node.utxos();
    let mut chain = node.chain();
    let before = node.with_dag(|dag| dag.block_count());
    let path = node.reorganize(5);
    let after = node.with_dag(|dag| dag.block_count());
    let mut removed: Vec<Hash> = Vec::new();
    let mut stamps = 0;
    for _ in before..after {
        let added = client.read_notification().await;
        let Notification::BlockAdded(block) = &added else { panic!("{added:?}") };
        let block = Block::decode_borsh(block).expect("a block");
        assert_eq!(block.header.hash(), block.hash);
        let mut score = 0;
        for event in NOTIFICATION_ORDER {
            let notification = client.read_notification().await;
            assert_eq!(notification.event(), event);
            match &notification {
                Notification::VirtualChainChanged(change) => {
                    for hash in &change.removed {
                        assert_eq!(chain.pop(), Some(*hash));
                    }
                    chain.extend(&change.added);
                    assert_eq!(change.accepted.len(), change.added.len());
                    removed.extend(&change.removed);
                }
                Notification::UtxosChanged(changes) => {
                    apply(&mut utxos, &notification);
                    let stamp = changes.added.iter().map(|utxo| utxo.entry.block_daa_score).max();
                    if stamp == Some(score) {
                        stamps += 1;
                    }
                }
                Notification::VirtualDaaScoreChanged { virtual_daa_score } => {
                    score = *virtual_daa_score;
                }
                _ => {}
            }
        }
    }
    assert_eq!(removed, path.removed);
    assert_eq!(chain, node.chain());
    assert_eq!(utxos, node.utxos());
    assert!(stamps > 0, "new outputs have the virtual block's score");
}

#[tokio::test]
async fn an_output_flaps_while_its_acceptance_moves() {
    let node = KaspaNode::start().await;
    node.mine(3);
    let mut client = BorshClient::connect(&node).await;
    client.subscribe(whole_scope(Event::UtxosChanged)).await;
    node.mine_siblings(2);
    let _first = client.read_notification().await;
    let second = client.read_notification().await;
    let Notification::UtxosChanged(changes) = second else { panic!("{second:?}") };
    let by_outpoint = |utxos: &[kaspa::AddressUtxo]| -> BTreeMap<Outpoint, UtxoEntry> {
        utxos.iter().map(|utxo| (utxo.outpoint, utxo.entry.clone())).collect()
    };
    let added = by_outpoint(&changes.added);
    let removed = by_outpoint(&changes.removed);
    assert!(!added.is_empty());
    assert!(added.keys().eq(removed.keys()), "the same outpoint in both lists");
    for (outpoint, entry) in &added {
        assert_eq!(entry.block_daa_score, removed[outpoint].block_daa_score + 1);
    }
}

#[tokio::test]
async fn a_block_that_exists_is_notified_without_itself() {
    let node = KaspaNode::start().await;
    node.mine(2);
    let mut client = BorshClient::connect(&node).await;
    client.subscribe_all().await;
    let template = node.with_dag(|dag| dag.build_template(&testkit::kaspa_node::default_miner()));
    node.add_block(template.clone()).expect("a new block");
    node.add_block(template).expect("kaspad says success");
    let mut events = Vec::new();
    for _ in 0..11 {
        events.push(client.read_notification().await.event());
    }
    let expected = [&[Event::BlockAdded][..], &NOTIFICATION_ORDER, &NOTIFICATION_ORDER].concat();
    assert_eq!(events, expected);
}

#[tokio::test]
async fn subscriptions_widen_narrow_and_end_as_in_kaspad() {
    let node = KaspaNode::start().await;
    node.mine(2);
    let mut client = BorshClient::connect(&node).await;
    let all = Scope::UtxosChanged { addresses: Vec::new() };
    let miner = Scope::UtxosChanged { addresses: vec![miner_address()] };
    let other = testkit::kaspa_node::simnet_address(kaspa::AddressPayload::PublicKey([1; 32]));
    let other = Scope::UtxosChanged { addresses: vec![other] };
    let is_notified = async |client: &mut BorshClient| {
        node.mine(1);
        // The reply comes after all notifications of the block.
        client.call(|id| kaspa::Method::Ping.encode_borsh_request(id)).await.expect("a pong");
        std::mem::take(&mut client.notifications).len()
    };
    let stop = async |client: &mut BorshClient, scope: &Scope| {
        client.call(|id| scope.encode_borsh_unsubscribe(id)).await.expect("it never fails");
    };
    client.subscribe(all.clone()).await;
    assert_eq!(is_notified(&mut client).await, 1);
    stop(&mut client, &miner).await;
    assert_eq!(is_notified(&mut client).await, 1, "all stays all");
    client.subscribe(other.clone()).await;
    assert_eq!(is_notified(&mut client).await, 0, "all and a set is the set");
    client.subscribe(miner.clone()).await;
    assert_eq!(is_notified(&mut client).await, 1);
    stop(&mut client, &miner).await;
    assert_eq!(is_notified(&mut client).await, 0);
    client.subscribe(all.clone()).await;
    stop(&mut client, &all).await;
    assert_eq!(is_notified(&mut client).await, 0);
    let chain = Scope::VirtualChainChanged { include_accepted_transaction_ids: false };
    client.subscribe(chain).await;
    node.mine(1);
    let Notification::VirtualChainChanged(change) = client.read_notification().await else {
        panic!("no change")
    };
    assert_eq!((change.added.len(), change.accepted.len()), (1, 0), "without ids");
}

#[tokio::test]
async fn notifications_in_json_have_kaspads_shapes() {
    let node = KaspaNode::start().await;
    node.mine(3);
    let mut client = JsonClient::connect(&node).await;
    for event in Event::ALL {
        let scope = match event {
            Event::UtxosChanged => json!({ "addresses": [] }),
            Event::VirtualChainChanged => json!({ "include_accepted_transaction_ids": true }),
            _ => json!({}),
        };
        let params = json!({ event.scope_name(): scope });
        let reply = client.call("subscribe", params).await.expect("a subscription");
        assert!(reply["id"].is_u64());
    }
    node.mine(1);
    node.notify_finality_conflict(node.sink());
    node.notify_finality_resolved(node.sink());
    node.notify_utxo_set_override();
    for _ in 0..9 {
        let message = client.read_notification().await;
        let method = message["method"].as_str().expect("a name");
        crate::shapes::assert_shape(&message, &crate::shapes::golden(method, "notification"));
        let decoded = Notification::decode_json(&message["params"].to_string());
        assert_eq!(decoded.expect("a notification").event().name(), method);
    }
}
