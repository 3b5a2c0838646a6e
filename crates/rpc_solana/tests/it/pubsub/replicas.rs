//! A subscriber that resumes on another node of the same chain, which numbers its blocks in its own way.

use rpc_solana::pubsub::Config;
use serde_json::{Value, json};
use solana_hash::Hash;

use super::address_sets::{keys, set_notifications, subscribe_set, update};
use super::node::Node;

/// The options of a subscription that continues after the block of a slot.
fn resume_after(slot: u8) -> Value {
    let block = Hash::new_from_array([slot; 32]).to_string();
    json!({ "commitment": "confirmed", "resume": { "slot": slot, "block": block } })
}

#[tokio::test]
async fn a_subscriber_resumes_on_another_node_and_misses_nothing() {
    let mut first = Node::start(Config::default()).await;
    let mut second = Node::start(Config::default()).await;
    for n in 1..9 {
        first.write(n, 1);
    }
    for n in 1..7 {
        second.write(n, 1);
    }
    let mut client = first.connect().await;
    first.notifications(&mut client).await; // the notifier has seen the blocks
    let answer = subscribe_set(&mut client, &keys(1..20), resume_after(4)).await;
    assert_eq!(answer["slot"], 8);
    let expected = [update(5, &[5]), update(6, &[6]), update(7, &[7]), update(8, &[8])];
    assert_eq!(set_notifications(&mut first, &mut client).await, expected);
    // The other node has not got the last two blocks yet. It says so, and starts nowhere else.
    let mut client = second.connect().await;
    second.notifications(&mut client).await; // the notifier has seen the blocks
    let params = json!([keys(1..20), resume_after(8)]);
    let err = client.call("addressesSubscribe", params.clone()).await.expect_err("it is behind");
    let message = err["message"].as_str().expect("words");
    assert!(message.contains("ahead of this node, which is at slot 6"), "{err}");
    for n in 7..11 {
        second.write(n, 1);
    }
    second.notifications(&mut client).await;
    let answer = client.call("addressesSubscribe", params).await.expect("it has the block");
    assert_eq!(answer["slot"], 10);
    let expected = [update(9, &[9]), update(10, &[10])];
    assert_eq!(set_notifications(&mut second, &mut client).await, expected);
}

#[tokio::test]
async fn a_block_that_another_node_never_had_is_refused() {
    let mut first = Node::start(Config::default()).await;
    first.write(1, 1);
    first.write(2, 1);
    let mut client = first.connect().await;
    first.notifications(&mut client).await;
    // The slot is that of a block here, and the block is of another fork.
    let block = Hash::new_from_array([99; 32]).to_string();
    let options = json!({ "commitment": "confirmed", "resume": { "slot": 1, "block": block } });
    let err = client.call("addressesSubscribe", json!([keys(1..3), options])).await;
    let message = err.expect_err("no such block")["message"].to_string();
    assert!(message.contains("Cannot resume") && message.contains("snapshot"), "{message}");
}
