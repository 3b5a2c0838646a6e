//! Clients that do not read: they are closed with a reason, the others continue, and the writer never waits.

use std::time::Duration;

use chain_solana::LedgerEvent;
use rpc_solana::pubsub::Config;
use serde_json::json;
use websocket::Stats;

use super::node::{Node, Tx, account, id, key};

/// Data of an account; its notification has about as many bytes, in base64.
const BYTES: usize = 100_000;

async fn wait_until(node: &Node, is_met: impl Fn(Stats) -> bool) {
    let met = async {
        while !is_met(node.pubsub.stats()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), met).await.expect("the counts come");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_closed_and_the_others_go_on() {
    let config = Config { queue_bytes_max: 1_000_000, ..Config::default() };
    let mut node = Node::start(config).await;
    let mut slow = node.connect().await;
    let mut quick = node.connect().await;
    let params = json!([key(1).to_string(), { "commitment": "confirmed", "encoding": "base64" }]);
    slow.subscribe("account", params.clone()).await;
    quick.subscribe("account", params).await;
    // This is more than fits into the sockets' buffers and the queue. The quick client reads block by block.
    let mut sent = 0;
    while node.pubsub.stats().connections == 2 {
        let writes = vec![(key(1), account(5, key(9), &[sent as u8; BYTES]))];
        node.block(Tx { writes, ..Tx::new(1) });
        let notification = quick.notification().await;
        assert_eq!(notification["params"]["result"]["context"]["slot"], sent + 1);
        sent += 1;
        assert!(sent < 1_000, "the slow client is still connected");
    }
    let stats = node.pubsub.stats();
    assert_eq!((stats.connections, stats.subscriptions), (1, 1), "nothing of it is left");
    let reason = "too slow: more than 1000000 bytes were waiting (pubsub.queue_bytes_max)";
    assert_eq!(slow.read_until_closed().await, Some((1008, reason.to_owned())));
    node.write(1, 6);
    assert_eq!(quick.notification().await["params"]["result"]["value"]["lamports"], 6);
}

#[tokio::test]
async fn too_many_messages_close_too() {
    let config = Config { queue_messages_max: 10, ..Config::default() };
    let mut node = Node::start(config).await;
    let mut client = node.connect().await;
    client.subscribe("slot", json!([])).await;
    // The runtime has one thread: the connection cannot run before the test waits, so all of this is queued or too
    // much.
    for slot in 0..1_000 {
        node.send_event(&LedgerEvent::BankCreated {
            block: id(slot),
            parent: id(0),
            root: 0,
            timestamp_ms: 0,
        });
    }
    let reason = "too slow: 10 messages were waiting (pubsub.queue_messages_max)";
    assert_eq!(client.read_until_closed().await, Some((1008, reason.to_owned())));
}

#[tokio::test]
async fn a_block_with_many_notifications_closes_no_client() {
    const TRANSACTIONS: u8 = 250;
    const SUBSCRIPTIONS: u8 = 40;
    const NOTIFICATIONS: usize = TRANSACTIONS as usize * SUBSCRIPTIONS as usize;
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let mentioned: Vec<_> = (1..=SUBSCRIPTIONS).map(key).collect();
    for key in &mentioned {
        let filter = json!({ "mentions": [key.to_string()] });
        client.subscribe("logs", json!([filter, { "commitment": "confirmed" }])).await;
    }
    node.open();
    for n in 0..TRANSACTIONS {
        node.execute(Tx { keys: &mentioned, logs: &["a line"], ..Tx::new(n) });
    }
    node.complete();
    // The runtime has one thread: the connection cannot run, so the whole block is queued before it writes any.
    let mut most = 0;
    while most < NOTIFICATIONS {
        let queued = node.pubsub.stats().queue_messages;
        assert!(queued >= most, "{most} notifications closed the client");
        most = queued;
        std::thread::yield_now();
    }
    for _ in 0..NOTIFICATIONS {
        assert_eq!(client.notification().await["method"], "logsNotification");
    }
    drop(client);
    node.wait_until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_nothing_is_given_up() {
    let config = Config { write_timeout_ms: 50, close_timeout_ms: 50, ..Config::default() };
    let mut node = Node::start(config).await;
    let mut client = node.connect().await;
    let params = json!([key(1).to_string(), { "commitment": "confirmed", "encoding": "base64" }]);
    client.subscribe("account", params).await;
    for n in 0..100 {
        let writes = vec![(key(1), account(5, key(9), &[n; BYTES]))];
        node.block(Tx { writes, ..Tx::new(1) });
    }
    wait_until(&node, |stats| stats.connections == 0).await;
    drop(client);
}

#[tokio::test]
async fn a_silent_client_is_closed_and_one_that_answers_pings_is_not() {
    let config = Config { ping_ms: 20, ..Config::default() };
    let node = Node::start(config).await;
    let mut client = node.connect().await;
    client.subscribe("slot", json!([])).await;
    let mut silent = node.connect().await;
    silent.subscribe("root", json!([])).await;
    // A client sends pongs only while it reads.
    let reading = async {
        while let Some(Ok(_)) = client.message().await {}
        unreachable!("it answers, so it stays");
    };
    tokio::select! {
        () = reading => {}
        () = wait_until(&node, |stats| stats.connections == 1) => {}
    }
    let reason = "no answer to 2 pings, one every 20 ms (pubsub.ping_ms)";
    assert_eq!(silent.read_until_closed().await, Some((1008, reason.to_owned())));
}

#[tokio::test]
async fn the_writer_never_waits_and_lost_events_close_everyone() {
    let config = Config { events_max: 4, ..Config::default() };
    let mut node = Node::start(config).await;
    let mut client = node.connect().await;
    client.subscribe("logs", json!(["all", { "commitment": "confirmed" }])).await;
    // The notifier has a block to encode, and cannot keep up with a writer that only sends.
    node.open();
    for n in 0..200 {
        node.execute(Tx { logs: &["a line of a log"; 50], ..Tx::new(n) });
    }
    node.complete();
    for slot in 0..100_000 {
        node.send_event(&LedgerEvent::BankCreated {
            block: id(slot),
            parent: id(0),
            root: 0,
            timestamp_ms: 0,
        });
    }
    let reason = "the node could not keep up and notifications were lost (pubsub.events_max)";
    assert_eq!(client.read_until_closed().await, Some((1013, reason.to_owned())));
    // While the notifier is still behind, new clients are refused.
    loop {
        let mut client = node.connect().await;
        match client.call("accountSubscribe", json!([key(1).to_string()])).await {
            Ok(_) => break,
            Err(err) => assert!(err.to_string().contains("could not keep up"), "{err}"),
        }
    }
}
