//! Limits, and that a connection leaves no memory in use however it ends.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};

use clients::{ClientId, Limits};
use cpu_pool::{Class, Task, TaskPoll, TimeSlice};
use rpc_solana::pubsub::Config;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::node::{Node, TEST_TIMEOUT, Tx, account, key, signature};

/// Asserts that a call was refused for a rate limit, which the message names.
fn assert_too_many(reply: &Value, id: &Value, setting: &str) {
    assert_eq!((&reply["error"]["code"], &reply["id"]), (&json!(-32005), id), "{reply}");
    let message = reply["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(setting), "{reply}");
}

#[tokio::test]
async fn all_connections_share_their_clients_requests() {
    let limits = Limits { requests_per_s: 1, bytes_per_s: 0 };
    let node = Node::with_limits(Config::default(), limits).await;
    let mut one = node.connect().await;
    let mut other = node.connect().await;
    // Half a minute's worth of calls: accepted because the client had made none before.
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "getVersion" });
    let reply = one.request(Value::from(vec![call.clone(); 30]).to_string()).await;
    assert_eq!(reply.as_array().map(Vec::len), Some(30), "{reply}");
    let setting = "pool.clients.requests_per_s";
    assert_too_many(&other.request(call.to_string()).await, &json!(1), setting);
    assert_too_many(&other.request(json!([call]).to_string()).await, &Value::Null, setting);
    assert_too_many(&other.request("{").await, &Value::Null, setting);
    for (id, method) in ["addressesSubscribe", "addressesUpdate"].into_iter().enumerate() {
        let params = json!([7, {}]);
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        assert_too_many(&other.request(call.to_string()).await, &json!(id), setting);
    }
    for (binary, id) in [(vec![0xad], Value::Null), (update(9), json!(9))] {
        assert_too_many(&other.request_binary(binary).await, &id, setting);
    }
}

/// Returns a binary message that adds no address to subscription 1, with a request id.
fn update(request: u8) -> Vec<u8> {
    vec![0xad, 1, 0, 0, request, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

#[tokio::test]
async fn what_a_client_is_sent_counts_as_its_bytes() {
    let limits = Limits { requests_per_s: 0, bytes_per_s: 100 };
    let mut node = Node::with_limits(Config::default(), limits).await;
    let mut one = node.connect().await;
    let mut other = node.connect().await;
    let config = json!({ "encoding": "base64", "commitment": "processed" });
    one.subscribe("account", json!([key(1).to_string(), config])).await;
    let writes = vec![(key(1), account(1, key(200), &[7; 30_000]))];
    node.block(Tx { writes, ..Tx::new(1) });
    one.notification().await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "getVersion" });
    let reply = other.request(call.to_string()).await;
    assert_too_many(&reply, &json!(1), "pool.clients.bytes_per_s");
}

#[tokio::test]
async fn a_client_over_its_share_can_still_end_its_subscriptions() {
    let limits = Limits { requests_per_s: 10, bytes_per_s: 100 };
    let mut node = Node::with_limits(Config::default(), limits).await;
    let mut client = node.connect().await;
    let config = json!({ "encoding": "base64", "commitment": "processed" });
    let pubkey = key(1).to_string();
    let follows = client.subscribe("account", json!([pubkey, config])).await;
    let slot = client.subscribe("slot", json!([])).await;
    let set = client.call("addressesSubscribe", json!([[key(2).to_string()]])).await;
    let set = set.expect("it is right")["subscription"].clone();
    let writes = vec![(key(1), account(1, key(200), &[7; 30_000]))];
    node.block(Tx { writes, ..Tx::new(1) });
    let call = |id: u64, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let setting = "pool.clients.bytes_per_s";
    while client.notification().await["method"] != "accountNotification" {}
    assert_too_many(
        &client.request(call(1, "getVersion", json!([])).to_string()).await,
        &json!(1),
        setting,
    );
    // A batch with another call is refused too.
    let mixed =
        json!([call(1, "slotUnsubscribe", json!([slot])), call(2, "getVersion", json!([]))]);
    assert_too_many(&client.request(mixed.to_string()).await, &Value::Null, setting);
    assert_eq!(client.call("accountUnsubscribe", json!([follows])).await, Ok(json!(true)));
    assert_eq!(client.call("addressesUnsubscribe", json!([set])).await, Ok(json!(true)));
    let batch = json!([call(1, "slotUnsubscribe", json!([slot]))]);
    assert_eq!(client.request(batch.to_string()).await[0]["result"], true);
    assert_eq!(node.pubsub.stats().subscriptions, 0);
}

#[tokio::test]
async fn calls_that_end_subscriptions_are_counted() {
    let limits = Limits { requests_per_s: 1, bytes_per_s: 0 };
    for method in ["rootUnsubscribe", "addressesUnsubscribe"] {
        let node = Node::with_limits(Config::default(), limits).await;
        let mut client = node.connect().await;
        for _ in 0..30 {
            let refused = client.call(method, json!([5])).await.expect_err("there is none");
            assert_eq!(refused["code"], -32602, "{refused}");
        }
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "getVersion" });
        let reply = client.request(call.to_string()).await;
        assert_too_many(&reply, &json!(1), "pool.clients.requests_per_s");
    }
}

#[tokio::test]
async fn subscriptions_past_a_limit_are_refused() {
    let config =
        Config { subscriptions_max: 3, subscriptions_per_connection_max: 2, ..Config::default() };
    let node = Node::start(config).await;
    let mut one = node.connect().await;
    let mut other = node.connect().await;
    one.subscribe("slot", json!([])).await;
    one.subscribe("root", json!([])).await;
    one.subscribe("root", json!([])).await;
    let refused = one.call("voteSubscribe", json!([])).await;
    let message = "Internal Error: Subscription refused. Connection subscription limit reached: 2 \
        (pubsub.subscriptions_per_connection_max)";
    assert_eq!(refused, Err(json!({ "code": -32603, "message": message })));
    other.subscribe("slot", json!([])).await;
    let refused = other.call("accountSubscribe", json!([key(1).to_string()])).await;
    let message = "Internal Error: Subscription refused. Node subscription limit reached";
    assert_eq!(refused, Err(json!({ "code": -32603, "message": message })));
    assert!(node.reader.addresses().is_empty(), "a refused subscription retains no address");
    assert_eq!(one.call("rootUnsubscribe", json!([1])).await, Ok(json!(true)));
    other.subscribe("account", json!([key(1).to_string()])).await;
}

#[tokio::test]
async fn a_full_address_table_refuses() {
    let node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let addresses = node.reader.addresses();
    let registrations: Vec<_> = (0..10_000_u32)
        .map_while(|n| {
            let mut bytes = [9; 32];
            bytes[..4].copy_from_slice(&n.to_le_bytes());
            addresses.register(&ledger::Address::from(bytes)).ok()
        })
        .collect();
    assert!(addresses.allocated_ids() < 10_000, "the rest is left to the ledger");
    let refused = client.call("accountSubscribe", json!([key(1).to_string()])).await;
    let err = refused.expect_err("the table is full");
    assert_eq!(err["code"], -32603);
    let message = err["message"].as_str().expect("a reason");
    assert!(message.starts_with("Internal Error: Subscription refused. "), "{message}");
    drop(registrations);
}

#[tokio::test]
async fn a_connection_too_many_is_closed_with_try_again_later() {
    let config = Config { connections_max: 1, ..Config::default() };
    let node = Node::start(config).await;
    let mut one = node.connect().await;
    one.subscribe("slot", json!([])).await;
    let mut other = node.connect().await;
    let reason = "1 connections are open (pubsub.connections_max)".to_owned();
    assert_eq!(other.read_until_closed().await, Some((1013, reason)));
    one.socket.close(None).await.expect("it is open");
    node.wait_until_empty().await;
    node.connect().await.subscribe("slot", json!([])).await;
}

#[tokio::test]
async fn every_end_of_a_connection_frees_its_memory() {
    let mut node = Node::start(Config::default()).await;
    let pubkey = key(1).to_string();
    for way in 0..5 {
        let mut client = node.connect().await;
        let account = client.subscribe("account", json!([pubkey])).await;
        let program = client.subscribe("program", json!([key(2).to_string()])).await;
        client.subscribe("logs", json!([{ "mentions": [key(3).to_string()] }])).await;
        let sent = json!([signature(way).to_string(), { "commitment": "confirmed" }]);
        client.subscribe("signature", sent).await;
        client.subscribe("block", json!(["all"])).await;
        assert_eq!(node.reader.addresses().len(), 3);
        node.block(Tx::new(way));
        match way {
            0 => client.socket.close(None).await.expect("it is open"),
            1 => drop(client),
            2 => {
                for id in [account, program] {
                    assert_eq!(client.call("voteUnsubscribe", json!([id])).await, Ok(json!(true)));
                }
                drop(client);
            }
            3 => {
                use tokio::io::AsyncWriteExt;
                let half_a_frame = [0x81, 0xfe, 0x01, 0x00, 1, 2, 3, 4, b'{'];
                client.socket.get_mut().write_all(&half_a_frame).await.expect("it is open");
                drop(client);
            }
            _ => {
                node.pubsub.shut_down();
                let reason = "the node is shutting down".to_owned();
                assert_eq!(client.read_until_closed().await, Some((1001, reason)));
            }
        }
        node.wait_until_empty().await;
        assert!(node.reader.addresses().is_empty());
    }
}

#[tokio::test]
async fn the_ledgers_end_closes_clients_after_the_last_notification() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    client.subscribe("slot", json!([])).await;
    node.open();
    let notification = client.notification().await;
    assert_eq!(notification["params"]["result"]["slot"], 1);
    let Node { ledger, .. } = node;
    drop(ledger);
    assert_eq!(
        client.read_until_closed().await,
        Some((1001, "the node is shutting down".to_owned()))
    );
}

/// A heavy task of a client that ends when its sender is dropped.
struct Scan(Receiver<()>);

impl Task for Scan {
    fn poll(&mut self, _: &TimeSlice<'_>) -> TaskPoll {
        let _ = self.0.recv();
        TaskPoll::Done
    }
}

#[tokio::test]
async fn a_snapshot_is_its_clients_heavy_work_and_others_do_not_wait_for_it() {
    let mut node = Node::start(Config { set_tasks_max: 1, ..Config::default() }).await;
    node.write(1, 5);
    let (sender, receiver) = sync_channel(0);
    let scanning =
        node.pool.submit(Class::Heavy, ClientId(7).background(), Box::new(Scan(receiver)));
    let scanning = scanning.unwrap_or_else(|full| panic!("{full}"));
    let options = json!({ "commitment": "confirmed", "snapshot": true });
    let params = json!([[key(1).to_string()], options]);
    let mut busy = node.connect().await;
    busy.call("addressesSubscribe", params.clone()).await.expect("it is right");
    // The client has its one heavy set task: its snapshot waits.
    let waits = async {
        while node.pool.counters().class(Class::Heavy).rejected_client == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, waits).await.expect("it is refused");
    node.next_client.store(8, Ordering::SeqCst);
    let mut other = node.connect().await;
    other.call("addressesSubscribe", params).await.expect("it is right");
    let notification = other.notification().await;
    assert_eq!(notification["params"]["result"]["kind"], "snapshot", "{notification}");
    drop(sender);
    let notification = busy.notification().await;
    assert_eq!(notification["params"]["result"]["kind"], "snapshot", "{notification}");
    drop(scanning);
}

/// A task that runs until its ticket is dropped.
struct Endless;

impl Task for Endless {
    fn poll(&mut self, _: &TimeSlice<'_>) -> TaskPoll {
        TaskPoll::More
    }
}

#[tokio::test]
async fn work_on_sets_does_not_wait_for_what_its_client_asks_for_over_http() {
    let mut node = Node::start(Config { set_tasks_max: 1, ..Config::default() }).await;
    node.write(1, 5);
    // These are all that may be active, and some that wait; the pool is not full.
    let active_max = cpu_pool::Config::default().medium.active_max;
    let request = || node.pool.submit(Class::Medium, ClientId(7), Box::new(Endless));
    let requests: Result<Vec<_>, _> = (0..active_max + 8).map(|_| request()).collect();
    let requests = requests.unwrap_or_else(|full| panic!("{full}"));
    let options = json!({ "commitment": "confirmed", "snapshot": true });
    let params = json!([[key(1).to_string()], options]);
    for client in [7, 8] {
        node.next_client.store(client, Ordering::SeqCst);
        let mut client = node.connect().await;
        client.call("addressesSubscribe", params.clone()).await.expect("it is right");
        let notification = client.notification().await;
        assert_eq!(notification["params"]["result"]["kind"], "snapshot", "{notification}");
    }
    assert_eq!(node.pool.counters().class(Class::Medium).rejected, 0);
    drop(requests);
}
