//! Sets of addresses over WebSocket: exact starts, changes in place, snapshots, resuming, forks, jumps, limits, and
//! clients that are slow, vanish and storm. Afterwards the node has no memory of them.

use std::sync::Arc;
use testkit::test_ledger::empty_block;

use chain_solana::{AccountWrite, Block, LedgerEvent, RevertReason};
use jsonrpc::Health;
use ledger::BlockId;
use rpc_solana::pubsub::Config;
use serde_json::{Value, json};
use solana::Account;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::node::{Client, Node, Tx, account, key};

pub(super) fn keys(range: std::ops::Range<u8>) -> Vec<String> {
    range.map(|n| key(n).to_string()).collect()
}

pub(super) async fn subscribe_set(
    client: &mut Client,
    addresses: &[String],
    options: Value,
) -> Value {
    client.call("addressesSubscribe", json!([addresses, options])).await.expect("it is right")
}

/// Returns slots, kinds and the numbers of the accounts in all notifications of sets so far.
pub(super) async fn set_notifications(
    node: &mut Node,
    client: &mut Client,
) -> Vec<(u64, String, Vec<u8>)> {
    let notifications = node.notifications(client).await;
    let sets = notifications
        .iter()
        .filter(|notification| notification["method"] == "addressesNotification");
    sets.map(|notification| {
        let result = &notification["params"]["result"];
        let value = result["value"].as_array().expect("a list");
        let number = |item: &Value| {
            let pubkey: Pubkey = item["pubkey"].as_str().expect("it has one").parse().expect("one");
            pubkey.to_bytes()[0]
        };
        let slot = result["context"]["slot"].as_u64().expect("a slot");
        let kind = result["kind"].as_str().expect("a kind").to_owned();
        (slot, kind, value.iter().map(number).collect())
    })
    .collect()
}

pub(super) fn update(slot: u64, accounts: &[u8]) -> (u64, String, Vec<u8>) {
    (slot, "update".to_owned(), accounts.to_vec())
}

#[tokio::test]
async fn a_set_is_notified_about_its_addresses_only() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let answer =
        subscribe_set(&mut client, &keys(1..4), json!({ "commitment": "confirmed" })).await;
    assert_eq!((&answer["addresses"], &answer["slot"]), (&json!(3), &json!(0)));
    let id = answer["subscription"].clone();
    node.write(1, 11);
    node.write(9, 12);
    let writes = (2..6).map(|n| (key(n), account(5, key(200), &[n]))).collect();
    node.block(Tx { writes, ..Tx::new(7) });
    let all = node.notifications(&mut client).await;
    assert_eq!(all.len(), 2);
    assert_eq!(all[0]["params"]["subscription"], id);
    assert_eq!(
        (&all[0]["params"]["sequence"], &all[1]["params"]["sequence"]),
        (&json!(0), &json!(1))
    );
    let result = &all[0]["params"]["result"];
    assert_eq!(result["block"], Hash::new_from_array([1; 32]).to_string());
    assert_eq!(result["value"][0]["account"]["lamports"], 11);
    assert_eq!(all[1]["params"]["result"]["value"].as_array().map(Vec::len), Some(2));
    assert_eq!(client.call("addressesUnsubscribe", json!([id])).await, Ok(json!(true)));
    node.write(1, 13);
    assert!(node.notifications(&mut client).await.is_empty());
    drop(client);
    node.wait_until_empty().await;
}

#[tokio::test]
async fn a_set_of_a_withheld_state_is_refused() {
    let node = Node::start(Config::default()).await;
    let health = Arc::new(Health::default());
    node.pubsub.set_health(Arc::clone(&health));
    let mut client = node.connect().await;
    health.withhold_state(true);
    let params = json!([keys(1..4), { "commitment": "finalized" }]);
    let refused = client.call("addressesSubscribe", params.clone()).await;
    assert_eq!(refused.expect_err("it is withheld")["code"], -32005);
    health.withhold_state(false);
    assert!(client.call("addressesSubscribe", params).await.is_ok());
}

#[tokio::test]
async fn a_set_changes_in_place_and_an_empty_one_means_nothing() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let id =
        subscribe_set(&mut client, &[], json!({ "commitment": "confirmed" })).await["subscription"]
            .clone();
    node.write(1, 1);
    assert_eq!(set_notifications(&mut node, &mut client).await, []);
    let change = async |client: &mut Client, change: Value| {
        client.call("addressesUpdate", json!([id, change])).await.expect("it is right")
    };
    let answer = change(&mut client, json!({ "add": keys(1..3) })).await;
    assert_eq!(
        (&answer["addresses"], &answer["added"], &answer["slot"]),
        (&json!(2), &json!(2), &json!(1))
    );
    node.write(1, 2);
    node.write(3, 2);
    assert_eq!(set_notifications(&mut node, &mut client).await, [update(2, &[1])]);
    let answer = change(&mut client, json!({ "remove": keys(1..2) })).await;
    assert_eq!((&answer["addresses"], &answer["removed"]), (&json!(1), &json!(1)));
    node.write(1, 3);
    node.write(2, 3);
    assert_eq!(set_notifications(&mut node, &mut client).await, [update(5, &[2])]);
    change(&mut client, json!({ "replace": keys(3..5) })).await;
    node.write(2, 4);
    node.write(4, 4);
    assert_eq!(set_notifications(&mut node, &mut client).await, [update(7, &[4])]);
    assert_eq!(change(&mut client, json!({ "clear": true })).await["addresses"], 0);
    node.write(4, 5);
    assert_eq!(set_notifications(&mut node, &mut client).await, []);
    for wrong in [json!({}), json!({ "add": [], "clear": true })] {
        let err =
            client.call("addressesUpdate", json!([id, wrong])).await.expect_err("it is wrong");
        assert_eq!(err["code"], -32602);
    }
    let err = client.call("addressesUpdate", json!([77, { "clear": true }])).await;
    assert_eq!(err.expect_err("it is none of its own")["message"], "Invalid subscription id.");
}

#[tokio::test]
async fn binary_messages_change_sets_too() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let answer =
        subscribe_set(&mut client, &keys(1..2), json!({ "commitment": "processed" })).await;
    let id = answer["subscription"].as_u64().expect("a number");
    let mut message = vec![0xad, 1, 0, 0];
    message.extend_from_slice(&77_u32.to_le_bytes());
    message.extend_from_slice(&id.to_le_bytes());
    // The message is longer than one without addresses may be.
    (0..200).for_each(|n| message.extend_from_slice(&key(n).to_bytes()));
    let reply = binary(&mut client, message.clone()).await;
    assert_eq!((&reply["id"], &reply["result"]["addresses"]), (&json!(77), &json!(200)));
    node.write(150, 1);
    assert_eq!(set_notifications(&mut node, &mut client).await, [update(1, &[150])]);
    message.pop();
    let reply = binary(&mut client, message).await;
    assert_eq!(reply["error"]["message"], "Invalid binary message: addresses have 32 bytes each");
    let reply = binary(&mut client, vec![0xad, 1]).await;
    assert_eq!(reply["error"]["message"], "Invalid binary message: no header");
}

async fn binary(client: &mut Client, message: Vec<u8>) -> Value {
    use futures_util::SinkExt;
    let message = Message::Binary(Bytes::from(message));
    client.socket.send(message).await.expect("the server reads");
    match client.message().await {
        Some(Ok(text)) => serde_json::from_str(&text).expect("it is JSON"),
        other => panic!("a reply was expected, not {other:?}"),
    }
}

#[tokio::test]
async fn a_snapshot_and_the_stream_meet_without_a_gap() {
    let mut node = Node::start(Config::default()).await;
    for n in 1..4 {
        node.write(n, u64::from(n));
    }
    let mut client = node.connect().await;
    let options = json!({ "commitment": "confirmed", "snapshot": true });
    let answer = subscribe_set(&mut client, &keys(2..6), options).await;
    assert_eq!(answer["slot"], 3);
    node.write(4, 9);
    let (slot, kind, mut accounts) = set_notifications(&mut node, &mut client).await.remove(0);
    accounts.sort_unstable();
    assert_eq!((slot, kind.as_str(), accounts), (3, "snapshot", vec![2, 3]));
    node.write(2, 9);
    assert_eq!(set_notifications(&mut node, &mut client).await, [update(5, &[2])]);
    let id = answer["subscription"].clone();
    let change = json!([id, { "add": keys(1..2), "snapshot": true }]);
    client.call("addressesUpdate", change).await.expect("it is right");
    let snapshot = (5, "snapshot".to_owned(), vec![1]);
    assert_eq!(set_notifications(&mut node, &mut client).await, [snapshot]);
}

/// Each block writes 200 accounts, while these are added to a set one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_stay_in_order_while_a_set_grows_under_a_writer() {
    const ACCOUNTS: u8 = 200;
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let id =
        subscribe_set(&mut client, &[], json!({ "commitment": "confirmed" })).await["subscription"]
            .clone();
    let writer = tokio::task::spawn_blocking(move || {
        for n in 0..250 {
            let write = |k| (key(k), account(u64::from(n) + 1, key(201), &[]));
            node.block(Tx { writes: (0..ACCOUNTS).map(write).collect(), ..Tx::new(n) });
        }
        node
    });
    let mut after = Vec::new();
    for n in 0..ACCOUNTS {
        let change = json!([id, { "add": keys(n..n + 1), "snapshot": n % 4 == 0 }]);
        let answer = client.call("addressesUpdate", change).await.expect("it is right");
        after.push(answer["slot"].as_u64().expect("a slot"));
    }
    let mut node = writer.await.expect("it writes");
    let notifications = set_notifications(&mut node, &mut client).await;
    let slots: Vec<u64> = notifications.iter().map(|(slot, ..)| *slot).collect();
    assert!(slots.is_sorted(), "{slots:?}");
    for (n, after) in (0..ACCOUNTS).zip(after) {
        let of = |kind: &str| -> Vec<u64> {
            let of = notifications.iter().filter(|(_, its, all)| its == kind && all.contains(&n));
            of.map(|(slot, ..)| *slot).collect()
        };
        assert_eq!(of("update"), (after + 1..=250).collect::<Vec<_>>(), "account {n}");
        let is_there = n % 4 == 0 && after > 0;
        assert_eq!(of("snapshot"), if is_there { vec![after] } else { vec![] }, "account {n}");
    }
}

#[tokio::test]
async fn other_key_kinds_cover_what_belongs_to_an_address() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let owners = vec![key(200).to_string()];
    let options = |facet: &str| json!({ "commitment": "confirmed", "facet": facet });
    let program = subscribe_set(&mut client, &owners, options("program")).await;
    let mentions = subscribe_set(&mut client, &keys(30..31), options("mentions")).await;
    node.write(1, 5);
    node.block(Tx { keys: &[key(30), key(31)], ..Tx::new(8) });
    let all = node.notifications(&mut client).await;
    assert_eq!(all.len(), 2, "{all:?}");
    // Two subscriptions have no order.
    let first_item = |answer: &Value| {
        let mut of = all.iter().map(|notification| &notification["params"]);
        let of = of.find(|notification| notification["subscription"] == answer["subscription"]);
        of.expect("both get one")["result"]["value"][0].clone()
    };
    assert_eq!(first_item(&program)["pubkey"], key(1).to_string());
    assert_eq!(first_item(&mentions)["signature"], super::node::signature(8).to_string());
}

#[tokio::test]
async fn a_client_that_comes_back_misses_nothing() {
    let mut node = Node::start(Config { resume_blocks: 5, ..Config::default() }).await;
    for n in 1..9 {
        node.write(n, 1);
    }
    let mut client = node.connect().await;
    let at =
        |slot: u8| json!({ "slot": slot, "block": Hash::new_from_array([slot; 32]).to_string() });
    let options = |slot: u8| json!({ "commitment": "confirmed", "resume": at(slot) });
    node.notifications(&mut client).await; // the notifier has seen the blocks
    let answer = subscribe_set(&mut client, &keys(5..8), options(5)).await;
    assert_eq!(answer["slot"], 8);
    node.write(5, 2);
    assert_eq!(
        set_notifications(&mut node, &mut client).await,
        [update(6, &[6]), update(7, &[7]), update(9, &[5])]
    );
    let params = json!([keys(5..8), options(1)]);
    let err = client.call("addressesSubscribe", params).await.expect_err("too long ago");
    assert!(err["message"].as_str().expect("words").contains("pubsub.resume_blocks"), "{err}");
    assert_eq!(node.pubsub.stats().tracked_addresses, 3);
}

#[tokio::test]
async fn a_resume_beyond_the_retained_bytes_is_refused() {
    let mut node = Node::start(Config { resume_bytes: 1, ..Config::default() }).await;
    for n in 1..4 {
        node.write(n, 1);
    }
    let mut client = node.connect().await;
    let at =
        |slot: u8| json!({ "slot": slot, "block": Hash::new_from_array([slot; 32]).to_string() });
    let options = |slot: u8| json!({ "commitment": "confirmed", "resume": at(slot) });
    node.notifications(&mut client).await;
    let params = json!([keys(1..9), options(2)]);
    let err = client.call("addressesSubscribe", params).await.expect_err("too much since");
    assert!(err["message"].as_str().expect("words").contains("pubsub.resume_bytes"), "{err}");
    // The newest block has no successor yet, so a client can resume from it.
    let stats = node.pubsub.stats();
    assert_eq!((stats.resume_bytes, stats.tracked_addresses), (0, 0));
    let newest = node.write(5, 1) as u8;
    node.notifications(&mut client).await;
    subscribe_set(&mut client, &keys(1..9), options(newest)).await;
}

#[tokio::test]
async fn long_messages_are_done_whole_and_in_their_order() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let mut many: Vec<String> = (0..8_000_u32)
        .map(|n| {
            let mut bytes = [9; 32];
            bytes[..4].copy_from_slice(&n.to_le_bytes());
            Pubkey::new_from_array(bytes).to_string()
        })
        .collect();
    let answer = subscribe_set(&mut client, &[], json!({ "commitment": "processed" })).await;
    let id = &answer["subscription"];
    let update = |n: u32, change: Value| {
        let params = json!([id, change]);
        let method = "addressesUpdate";
        json!({ "jsonrpc": "2.0", "id": n, "method": method, "params": params }).to_string()
    };
    client.send(update(1, json!({ "add": many }))).await;
    client.send(update(2, json!({ "add": ["1111", many[0]] }))).await;
    client.send(update(3, json!({ "remove": many[..3_000] }))).await;
    client.send(update(4, json!({ "replace": many[5_000..] }))).await;
    client.send(r#"{"jsonrpc":"2.0","id":5,"method":"slotUnsubscribe","params":[2]}"#).await;
    many.push("So close".to_owned());
    client.send(update(6, json!({ "add": many }))).await;
    client.send(update(7, json!({ "clear": true }))).await;
    client.send(update(8, json!({ "add": [key(1).to_string()] }))).await;
    let mut replies = Vec::new();
    while replies.len() < 8 {
        let Some(Ok(text)) = client.message().await else { panic!("replies are expected") };
        replies.push(serde_json::from_str::<Value>(&text).expect("it is JSON"));
    }
    let ids: Vec<_> = replies.iter().filter_map(|reply| reply["id"].as_u64()).collect();
    assert_eq!(ids, (1..=8).collect::<Vec<_>>());
    let counts = |at: usize| {
        let result = &replies[at]["result"];
        [&result["addresses"], &result["added"], &result["removed"]].map(Value::as_u64)
    };
    assert_eq!(counts(0), [Some(8_000), Some(8_000), Some(0)]);
    assert_eq!(replies[1]["error"]["message"], "Invalid params: `1111` is no address.");
    assert_eq!(counts(2), [Some(5_000), Some(0), Some(3_000)]);
    assert_eq!(counts(3), [Some(3_000), Some(0), Some(2_000)]);
    assert_eq!(replies[5]["error"]["message"], "Invalid params: `So close` is no address.");
    assert_eq!(counts(6), [Some(0), Some(0), Some(3_000)]);
    assert_eq!(counts(7), [Some(1), Some(1), Some(0)]);
    node.write(1, 1);
    assert_eq!(set_notifications(&mut node, &mut client).await, [self::update(1, &[1])]);
    // A client that disconnects while its message is processed leaves no memory in use.
    many.pop();
    for round in 0..20_u32 {
        let mut gone = node.connect().await;
        let params = json!([many]);
        let subscribe =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "addressesSubscribe", "params": params });
        gone.send(subscribe.to_string()).await;
        client.send(update(round, json!({ "replace": many[round as usize..] }))).await;
    }
    drop(client);
    node.wait_until_empty().await;
}

/// Makes a block on a chosen parent, which is not in the ledger.
fn block_on_fork(parent: (u64, u8), slot: u64, hash: u8, accounts: &[u8]) -> Arc<Block> {
    let write = |n: &u8| AccountWrite {
        pubkey: key(*n),
        id: ledger::AddressId(u32::MAX),
        account: account(u64::from(hash), key(200), &[])
            .map(|account| Arc::new(Account(account)).into()),
        removed_keys: Vec::new(),
    };
    Arc::new(Block {
        blockhash: Hash::new_from_array([hash; 32]),
        previous_blockhash: Hash::new_from_array([parent.1; 32]),
        block_time: 1,
        writes: accounts.iter().map(write).collect(),
        ..empty_block(
            BlockId { slot, version: u64::from(hash) },
            BlockId { slot: parent.0, version: u64::from(parent.1) },
        )
    })
}

#[tokio::test]
async fn a_block_that_broke_a_rule_is_reported_as_dead_and_an_abandoned_one_is_not() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    client.subscribe("slotsUpdates", json!([])).await;
    let dead = RevertReason::Dead { error: "a rule".to_owned() };
    for (n, reason) in (1_u8..).zip([RevertReason::Abandoned, RevertReason::Replaced, dead]) {
        let block = block_on_fork((0, 0), u64::from(n), n, &[]);
        node.send_event(&LedgerEvent::Reverted { block, reason, timestamp_ms: 1 });
    }
    let update = client.notification().await["params"]["result"].take();
    assert_eq!(update, json!({ "type": "dead", "slot": 3, "timestamp": 1, "err": "a rule" }));
    drop(client);
    node.wait_until_empty().await;
}

#[tokio::test]
async fn a_fork_that_drops_blocks_is_sent_as_it_was() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let options = json!({ "commitment": "confirmed" });
    subscribe_set(&mut client, &keys(1..4), options.clone()).await;
    let send = |node: &mut Node, parent, slot, hash, accounts: &[u8]| {
        let block = block_on_fork(parent, slot, hash, accounts);
        node.send_confirmed(block);
    };
    send(&mut node, (0, 0), 1, 1, &[1]);
    send(&mut node, (1, 1), 2, 2, &[2]);
    send(&mut node, (2, 2), 3, 3, &[3, 9]);
    send(&mut node, (1, 1), 4, 4, &[1, 2]);
    let rollback = |slot, accounts: &[u8]| (slot, "rollback".to_owned(), accounts.to_vec());
    assert_eq!(
        set_notifications(&mut node, &mut client).await,
        [
            update(1, &[1]),
            update(2, &[2]),
            update(3, &[3]),
            rollback(3, &[3]),
            rollback(2, &[2]),
            update(4, &[1, 2]),
        ]
    );
    // A client that was on the abandoned fork gets the rollback when it resumes.
    let mut late = node.connect().await;
    let at = json!({ "slot": 3, "block": Hash::new_from_array([3; 32]).to_string() });
    let options = json!({ "commitment": "confirmed", "resume": at });
    subscribe_set(&mut late, &keys(1..4), options).await;
    let expected = [rollback(3, &[3]), rollback(2, &[2]), update(4, &[1, 2])];
    assert_eq!(set_notifications(&mut node, &mut late).await, expected);
    drop((client, late));
    node.wait_until_empty().await;
}

#[tokio::test]
async fn a_writer_that_jumps_ten_slots_loses_nothing() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    subscribe_set(&mut client, &keys(1..20), json!({ "commitment": "finalized" })).await;
    let account = json!([key(3).to_string(), { "encoding": "base64" }]);
    client.subscribe("account", account).await;
    for n in 1..=10 {
        let block = block_on_fork((u64::from(n) - 1, n - 1), u64::from(n), n, &[n]);
        node.send_confirmed(block);
    }
    let block = block_on_fork((9, 9), 10, 10, &[10]);
    node.send_event(&LedgerEvent::Rooted { block, timestamp_ms: 1 });
    let all = node.notifications(&mut client).await;
    let of = |method: &str| -> Vec<_> {
        let notifications = all.iter().filter(|notification| notification["method"] == method);
        notifications
            .map(|notification| notification["params"]["result"]["context"]["slot"].as_u64())
            .collect()
    };
    assert_eq!(of("addressesNotification"), (1..=10).map(Some).collect::<Vec<_>>());
    assert_eq!(
        of("accountNotification"),
        [Some(3)],
        "Solana's own subscriptions lose nothing either"
    );
}

#[tokio::test]
async fn each_bound_is_refused_whole_and_names_its_knob() {
    let config = Config {
        tracked_addresses_max: 150,
        tracked_pairs_max: 240,
        tracked_addresses_per_client_max: 355,
        tracked_addresses_per_connection_max: 100,
        subscriptions_per_connection_max: 2,
        ..Config::default()
    };
    let node = Node::start(config).await;
    let mut a = node.connect().await;
    let mut b = node.connect().await;
    let mut c = node.connect().await;
    let mut d = node.connect().await;
    let id = subscribe_set(&mut a, &keys(0..90), json!({})).await["subscription"].clone();
    let addresses = node.reader.addresses().len();
    let refused = async |client: &mut Client, method: &str, params: Value, setting: &str| {
        let err = client.call(method, params).await.expect_err("over a limit");
        assert!(err["message"].as_str().is_some_and(|text| text.contains(setting)), "{err}");
    };
    let setting = "pubsub.tracked_addresses_per_connection_max";
    refused(&mut a, "addressesUpdate", json!([id, { "add": keys(90..110) }]), setting).await;
    refused(&mut a, "addressesSubscribe", json!([keys(0..11)]), setting).await;
    let setting = "--max-tracked-addresses";
    refused(&mut b, "addressesSubscribe", json!([keys(100..170)]), setting).await;
    assert_eq!(node.reader.addresses().len(), addresses, "a refused call leaves nothing");
    subscribe_set(&mut b, &keys(0..90), json!({})).await;
    assert_eq!(node.pubsub.stats().tracked_addresses, 90, "equal sets are one");
    // The client adds these addresses, and one that no other client has.
    let setting = "pubsub.tracked_pairs_max";
    subscribe_set(&mut c, &keys(0..91), json!({})).await;
    refused(&mut d, "addressesSubscribe", json!([keys(0..84)]), setting).await;
    let setting = "pubsub.tracked_addresses_per_client_max";
    refused(&mut d, "addressesSubscribe", json!([keys(0..90)]), setting).await;
    let stats = node.pubsub.stats();
    assert_eq!((stats.tracked_addresses, stats.tracked_pairs), (91, 181), "each counts once");
    subscribe_set(&mut b, &[], json!({})).await;
    let setting = "pubsub.subscriptions_per_connection_max";
    refused(&mut b, "addressesSubscribe", json!([[]]), setting).await;
    drop((a, b, c, d));
    node.wait_until_empty().await;
    assert_eq!(node.reader.addresses().len(), 0);
}

#[tokio::test]
async fn shared_sets_separate_when_one_changes() {
    let mut node = Node::start(Config::default()).await;
    let mut a = node.connect().await;
    let mut b = node.connect().await;
    let options = json!({ "commitment": "confirmed" });
    let id = subscribe_set(&mut a, &keys(1..5), options.clone()).await["subscription"].clone();
    subscribe_set(&mut b, &keys(1..5), options).await;
    assert_eq!(node.pubsub.stats().distinct_subscriptions, 1);
    node.write(1, 1);
    // No update of a removed address is delivered, not even of an earlier block.
    assert_eq!(set_notifications(&mut node, &mut a).await, [update(1, &[1])]);
    let change = json!([id, { "replace": keys(2..7) }]);
    a.call("addressesUpdate", change).await.expect("it is right");
    assert_eq!(
        node.pubsub.stats().distinct_subscriptions,
        3,
        "with the one to slots, of `notifications`"
    );
    node.write(1, 2);
    node.write(6, 2);
    assert_eq!(set_notifications(&mut node, &mut a).await, [update(3, &[6])]);
    assert_eq!(set_notifications(&mut node, &mut b).await, [update(1, &[1]), update(2, &[1])]);
    drop((a, b));
    node.wait_until_empty().await;
    assert_eq!(node.reader.addresses().len(), 3, "two accounts and their owner are left");
}

#[tokio::test]
async fn a_slow_client_is_conflated_if_it_asked_for_that() {
    let config = Config { queue_messages_max: 8, ..Config::default() };
    let mut node = Node::start(config).await;
    let mut client = node.connect().await;
    let options = json!({ "commitment": "confirmed", "whenSlow": "conflate" });
    subscribe_set(&mut client, &keys(1..4), options).await;
    // The runtime has one thread: the connection cannot run before the test waits; the notifier can.
    let rounds = 40;
    for round in 0..rounds {
        // An account without lamports is closed.
        node.write(1 + round % 3, u64::from(round) + 1);
    }
    let mut newest = [0; 3];
    let mut sequence = 0;
    let mut conflated = 0;
    while newest != [40, 38, 39] {
        let notification = client.notification().await;
        assert_eq!(notification["params"]["sequence"], sequence, "no gap");
        sequence += 1;
        let result = &notification["params"]["result"];
        conflated += usize::from(result["kind"] == "conflated");
        for item in result["value"].as_array().expect("a list") {
            let pubkey: Pubkey = item["pubkey"].as_str().expect("one").parse().expect("one");
            let n = usize::from(pubkey.to_bytes()[0]) - 1;
            let lamports = item["account"]["lamports"].as_u64().expect("it is there");
            assert!(lamports >= newest[n], "never older");
            newest[n] = lamports;
        }
    }
    assert!(
        conflated > 0 || sequence == u64::from(rounds),
        "fewer notifications than blocks only if some were conflated"
    );
    drop(client);
    node.wait_until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_vanish_storm_and_loop_leave_nothing() {
    let mut node = Node::start(Config::default()).await;
    for round in 0..20_u8 {
        let mut clients = Vec::new();
        for _ in 0..25 {
            clients.push(node.connect().await);
        }
        for (n, client) in clients.iter_mut().take(24).enumerate() {
            let request = json!({
                "jsonrpc": "2.0", "id": 1, "method": "addressesSubscribe",
                "params": [keys(0..(n as u8 * 8)), { "commitment": "confirmed" }],
            });
            client.send(request.to_string()).await;
            if n % 3 == 1 {
                // Half a message, then the connection ends.
                use tokio::io::AsyncWriteExt;
                let half = [0x82, 0xfe, 0x10, 0x00, 1, 2, 3, 4, 0xad];
                client.socket.get_mut().write_all(&half).await.expect("the server reads");
            }
        }
        node.write(round, 1);
        let last = &mut clients[24];
        for _ in 0..20 {
            let answer = subscribe_set(last, &keys(0..50), json!({})).await;
            let id = answer["subscription"].clone();
            assert_eq!(last.call("addressesUnsubscribe", json!([id])).await, Ok(json!(true)));
        }
        drop(clients);
    }
    node.wait_until_empty().await;
    assert_eq!(node.reader.addresses().len(), 20 + 1, "the accounts and their owner are left");
}

#[tokio::test]
async fn a_program_set_is_notified_when_an_account_leaves_it() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let [old, new] = [key(200), key(201)];
    let options = json!({ "commitment": "confirmed", "facet": "program" });
    subscribe_set(&mut client, &[old.to_string()], options.clone()).await;
    let both = vec![old.to_string(), new.to_string()];
    let both = subscribe_set(&mut client, &both, options).await["subscription"].clone();
    let write =
        |node: &mut Node, n: u8, to| node.block(Tx { writes: vec![(key(1), to)], ..Tx::new(n) });
    write(&mut node, 1, account(5, old, &[1]));
    write(&mut node, 2, account(5, new, &[1]));
    write(&mut node, 3, account(6, new, &[1]));
    write(&mut node, 4, account(6, old, &[1]));
    write(&mut node, 5, None);
    let mut one = Vec::new();
    let mut two = Vec::new();
    for notification in node.notifications(&mut client).await {
        let result = &notification["params"]["result"];
        let item = &result["value"][0];
        let updates =
            if notification["params"]["subscription"] == both { &mut two } else { &mut one };
        updates.push((
            result["context"]["slot"].as_u64().expect("a slot"),
            item["account"]["owner"].as_str().map(str::to_owned),
            item.get("left").is_some(),
        ));
    }
    let [old, new] = [old, new].map(|key| Some(key.to_string()));
    let there = |slot, owner: &Option<String>| (slot, owner.clone(), false);
    assert_eq!(one, [there(1, &old), (2, new.clone(), true), there(4, &old), (5, None, true)]);
    let all = [there(1, &old), there(2, &new), there(3, &new), there(4, &old), (5, None, true)];
    assert_eq!(two, all, "what leaves one address of a set for another has not left");
}
