//! Large notifications: one is in memory once, however many clients wait for it; all together have a limit, however
//! many differ; and they arrive as they were encoded.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use chain_solana::{AccountWrite, Block, LedgerEvent};
use rpc_solana::pubsub::Config;
use serde_json::{Value, json};
use solana::Account;
use testkit::test_ledger::empty_block;

use super::node::{Node, Tx, account, id, key};

const MIB: usize = 1024 * 1024;

/// Writes the account that all clients follow, with `bytes` bytes.
fn write(node: &mut Node, n: u8, bytes: usize) {
    let data: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8 ^ n).collect();
    let writes = vec![(key(1), account(u64::from(n), key(9), &data))];
    node.block(Tx { writes, ..Tx::new(n) });
}

/// Returns an account subscription that differs from others by its slice, which does not cut.
fn params(offset: usize) -> Value {
    let slice = json!({ "offset": offset, "length": 1 });
    let encoding = json!({ "commitment": "confirmed", "encoding": "base64", "dataSlice": slice });
    json!([key(1).to_string(), encoding])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_notification_is_in_memory_once_for_all_who_do_not_read() {
    let mut node = Node::start(Config::default()).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = node.connect().await;
        client.subscribe("account", params(0)).await;
        clients.push(client);
    }
    let bytes = 6 * MIB;
    let text = bytes / 3 * 4;
    write(&mut node, 1, bytes);
    // No socket accepts so much: each connection has written a part of it, and the rest is counted for each.
    node.wait_until(|stats| stats.unwritten_bytes > 10 * text && stats.queue_messages == 0).await;
    let stats = node.pubsub.stats();
    assert!(stats.notification_bytes >= text, "{stats:?}");
    assert!(
        stats.notification_bytes < 2 * text + MIB,
        "one text and its spare capacity: {stats:?}"
    );
    let mut first: Option<Value> = None;
    for client in &mut clients {
        let notification = client.notification().await;
        let data = notification["params"]["result"]["value"]["data"][0].as_str().expect("base64");
        assert_eq!(data.len(), text);
        assert_eq!(
            first.get_or_insert_with(|| notification.clone()),
            &notification,
            "they are the same"
        );
    }
    node.wait_until(|stats| stats.notification_bytes == 0 && stats.unwritten_bytes == 0).await;
    drop(clients);
    node.wait_until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_client_with_most_queued_bytes_is_closed() {
    let bound = 16 * MIB;
    let mut node = Node::start(Config { queues_bytes_max: bound, ..Config::default() }).await;
    node.next_client.store(8, Ordering::SeqCst);
    let mut other = node.connect().await;
    other.subscribe("slot", json!([])).await;
    node.next_client.store(7, Ordering::SeqCst);
    let mut hostile = Vec::new();
    for n in 0..12 {
        let mut client = node.connect().await;
        client.subscribe("account", params(n)).await;
        hostile.push(client);
    }
    // No client reads. Twelve texts of 4 MiB do not fit.
    for n in 1..=3 {
        write(&mut node, n, 3 * MIB);
        node.open();
        node.complete();
    }
    node.wait_until(|stats| stats.notification_bytes <= bound && stats.connections < 10).await;
    let mut reasons = Vec::new();
    for client in &mut hostile {
        // Each message is whole, or the stream ends.
        if let Some((code, reason)) = until_ended(client, &node).await {
            assert_eq!(code, 1008, "{reason}");
            reasons.push(reason);
        }
    }
    let expected =
        "too slow: more than 16777216 bytes were waiting for all clients (pubsub.queues_bytes_max)";
    assert!(reasons.iter().all(|reason| reason == expected), "{reasons:?}");
    for slot in 1..=6 {
        let notification = other.notification().await;
        assert_eq!(notification["params"]["result"]["slot"], slot, "the other client gets all");
    }
    drop((hostile, other));
    node.wait_until_empty().await;
}

/// Reads until the connection ends, or the node has no more messages for any client.
async fn until_ended(client: &mut super::node::Client, node: &Node) -> Option<(u16, String)> {
    tokio::select! {
        closed = client.read_until_closed() => closed,
        () = async {
            node.wait_until(|stats| stats.notification_bytes == 0 && stats.unwritten_bytes == 0).await;
        } => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_that_wait_hold_no_blocks() {
    let config = Config { resume_blocks: 1, ..Config::default() };
    let mut node = Node::start(config).await;
    let mut client = node.connect().await;
    let options = json!({ "commitment": "confirmed", "dataSlice": { "offset": 0, "length": 0 } });
    let set = json!([[key(1).to_string()], options]);
    client.call("addressesSubscribe", set).await.expect("it is right");
    // The message is longer than the socket accepts: the rest waits in the queue.
    client.subscribe("account", params(0)).await;
    write(&mut node, 1, 8 * MIB);
    node.wait_until(|stats| stats.unwritten_bytes > 0 && stats.queue_messages == 1).await;
    let mut blocks: Vec<Weak<Block>> = Vec::new();
    for n in 2..40_u8 {
        let block = block(n);
        blocks.push(Arc::downgrade(&block));
        node.send_confirmed(Arc::clone(&block));
        node.send_event(&LedgerEvent::Rooted { block, timestamp_ms: 1 });
    }
    node.wait_until(|stats| stats.queue_messages > blocks.len()).await;
    let old = &blocks[..30];
    node.wait_until(|_| old.iter().all(|block| block.strong_count() == 0)).await;
    drop(client);
    node.wait_until_empty().await;
}

/// Makes a block after the first, which is not in the ledger.
fn block(n: u8) -> Arc<Block> {
    let account =
        account(u64::from(n), key(200), &[]).map(|account| Arc::new(Account(account)).into());
    let address_id = ledger::AddressId(u32::MAX);
    Arc::new(Block {
        block_time: 1,
        writes: vec![AccountWrite {
            pubkey: key(1),
            id: address_id,
            account,
            removed_keys: Vec::new(),
        }],
        ..empty_block(id(n.into()), id(u64::from(n) - 1))
    })
}
