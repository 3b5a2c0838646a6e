//! Changes of sets of addresses with positions: one block for the list and the changes after it, messages, bounds.

use std::sync::atomic::Ordering;

use kaspa::{Encoding, Scope};
use rpc_kaspa::Settings;
use serde_json::{Value, json};
use subscriptions::Limits;
use testkit::kaspa_chain::{Payment, address, pay};

use crate::address_client::{
    AddressClient, addresses, check, list_chain_utxos, mine, reorganize, start_client,
    wait_until_empty,
};
use crate::world::{World, config};

#[tokio::test]
async fn a_list_and_the_changes_after_it_meet_at_one_block() {
    let mut world = World::start();
    let payments: Vec<Payment> = (0..600).map(|at| pay(1, at + 1)).collect();
    mine(&mut world, &payments);
    let sink = json!(world.chain.sink_hash().to_string());
    let mut client = AddressClient::connect(&world).await;
    let params = json!({ "addresses": addresses(&[1, 2]), "snapshot": true });
    let reply = client.subscribe(&params).await.expect("room");
    assert_eq!((&reply["addresses"], &reply["position"]["chainBlock"]), (&json!(2), &sink));
    let spent = world.chain.list_utxos(&address(1))[0].outpoint;
    world.chain.add_block(&[spent], &[pay(2, 7), pay(3, 8)]);
    world.publish();
    client.sync().await;
    assert_eq!(client.copy.utxos, list_chain_utxos(&world, &[1, 2]));
    assert!(client.copy.kinds.len() > 2, "the list has several parts");
    let last = client.copy.kinds.pop();
    assert_eq!(last.as_deref(), Some("update"));
    assert!(client.copy.kinds.iter().all(|kind| kind == "snapshot"));
}

#[tokio::test]
async fn a_subscription_without_a_list_starts_after_the_block_in_its_reply() {
    let mut world = World::start();
    mine(&mut world, &[pay(1, 1)]);
    let mut client = AddressClient::connect(&world).await;
    let params = json!({ "addresses": addresses(&[1]) });
    client.subscribe(&params).await.expect("room");
    let before = list_chain_utxos(&world, &[1]);
    mine(&mut world, &[pay(1, 2)]);
    // A block that does not change the set has no notification.
    mine(&mut world, &[pay(2, 3)]);
    client.sync().await;
    assert_eq!(client.copy.kinds, ["update"]);
    client.copy.utxos.extend(before);
    check(&world, &client);
}

#[tokio::test]
async fn notifications_and_replies_have_their_documented_bytes() {
    let mut world = World::start();
    let mut client = AddressClient::connect(&world).await;
    let params = json!({ "addresses": addresses(&[1]) });
    let reply = client.subscribe(&params).await.expect("room");
    let root = reply["position"].clone();
    assert_eq!(root["daaScore"], json!(0));
    mine(&mut world, &[pay(1, 5)]);
    reorganize(&mut world, 1, 2);
    let update = client.client.receive().await.expect("a notification");
    let update = String::from_utf8(update).expect("UTF-8");
    let params: Value = serde_json::from_str(&update).expect("JSON");
    let params = &params["params"];
    let utxo = &params["added"][0];
    assert_eq!(utxo["utxoEntry"]["amount"], json!(5));
    let block = &params["block"];
    assert_eq!(&params["position"]["chainBlock"], block);
    let position = &params["position"];
    let subscription = &client.subscription;
    // Members are sorted, so a value is written as it came.
    let expected = format!(
        r#"{{"method":"addressesNotification","params":{{"added":[{utxo}],"block":{block},"kind":"update","more":false,"position":{position},"removed":[],"sequence":0,"subscription":{subscription}}}}}"#
    );
    assert_eq!(update, expected);
    let rollback = client.client.receive().await.expect("a notification");
    let expected = format!(
        r#"{{"method":"addressesNotification","params":{{"added":[],"block":{block},"kind":"rollback","more":false,"position":{root},"removed":[{utxo}],"sequence":1,"subscription":{subscription}}}}}"#
    );
    assert_eq!(String::from_utf8(rollback).expect("UTF-8"), expected);
}

#[tokio::test]
async fn own_and_kaspads_subscriptions_of_a_client_are_independent() {
    let mut world = World::start();
    let mut client = start_client(&world).await;
    let scope = Scope::UtxosChanged { addresses: vec![address(1)] };
    client.client.subscribe(&scope).await.expect("room");
    mine(&mut world, &[pay(1, 1)]);
    // The virtual state first.
    let first = client.client.receive().await.expect("a notification");
    assert!(first.starts_with(br#"{"method":"utxosChangedNotification","#));
    client.sync().await;
    check(&world, &client);
    client.client.unsubscribe(&scope).await;
    mine(&mut world, &[pay(1, 2)]);
    client.sync().await;
    check(&world, &client);
    let params = json!({ "subscription": client.subscription });
    client.call("addressesUnsubscribe", &params).await.expect("it ends");
    mine(&mut world, &[pay(1, 3)]);
    for method in ["addressesPosition", "addressesUnsubscribe"] {
        let error = client.call(method, &params).await.expect_err("it has ended");
        assert_eq!(error, "Invalid subscription id.");
    }
    assert_eq!(world.server.stats().subscriptions, 0);
}

#[tokio::test]
async fn a_subscription_of_kaspad_is_not_ended_by_its_number() {
    let world = World::start();
    let mut client = AddressClient::connect(&world).await;
    let scope = Scope::UtxosChanged { addresses: vec![address(1)] };
    client.client.subscribe(&scope).await.expect("room");
    for number in 0..10 {
        let params = json!({ "subscription": number });
        assert!(client.call("addressesUnsubscribe", &params).await.is_err());
    }
    assert_eq!(world.server.stats().subscriptions, 1);
}

#[tokio::test]
async fn invalid_parameters_are_refused_with_their_name() {
    let world = World::start();
    let mut client = AddressClient::connect(&world).await;
    let good = addresses(&[1]);
    let position = json!({ "chainBlock": "ab".repeat(32), "daaScore": 1 });
    let cases = [
        (json!({}), "addresses"),
        (json!([good]), "Invalid params"),
        (json!({ "addresses": [] }), "the list is empty"),
        (json!({ "addresses": "all" }), "not a list of addresses"),
        (json!({ "addresses": ["kaspasim:q"] }), "not a list of addresses"),
        (json!({ "addresses": good, "at": "virtual" }), "at"),
        (json!({ "addresses": good, "snapshot": 1 }), "Invalid params"),
        (json!({ "addresses": good, "resume": "ab" }), "Invalid params"),
        (json!({ "addresses": good, "resume": { "chainBlock": "ab" } }), "Invalid params"),
        (json!({ "addresses": good, "resume": position, "snapshot": true }), "exclude each other"),
    ];
    for (params, part) in cases {
        let error = client.subscribe(&params).await.expect_err("it is refused");
        assert!(error.contains(part), "{params}: {error}");
    }
    for method in ["addressesUnsubscribe", "addressesPosition"] {
        let error = client.call(method, &json!({ "subscription": "1" })).await;
        assert!(error.expect_err("not a number").contains("Invalid params"));
    }
    assert_eq!(world.server.stats().subscriptions, 0);
}

#[tokio::test]
async fn own_methods_are_not_in_borsh() {
    let world = World::start();
    for code in 240..=242 {
        let mut client = world.connect(Encoding::Borsh).await;
        let mut message = vec![1];
        message.extend_from_slice(&7_u64.to_le_bytes());
        message.extend_from_slice(&[code, 1, 0]);
        client.send(message).await;
        assert_eq!(client.receive().await, Err(1007));
    }
}

#[tokio::test]
async fn a_set_over_a_limit_is_refused_and_leaves_nothing_behind() {
    let limits = Limits { addresses_max: 2, ..config().limits };
    let config = websocket::Config { limits, ..config() };
    let world = World::new(Vec::new(), Settings::default(), config);
    let mut client = AddressClient::connect(&world).await;
    let params = json!({ "addresses": addresses(&[1, 2, 3]) });
    let error = client.subscribe(&params).await.expect_err("two are the limit");
    assert!(error.contains("--max-tracked-addresses"), "{error}");
    let params = json!({ "addresses": addresses(&[1, 2]) });
    client.subscribe(&params).await.expect("room");
    drop(client);
    wait_until_empty(&world).await;
}

#[tokio::test]
async fn a_client_that_never_reads_is_closed() {
    let limits = Limits { queue_bytes_max: 1 << 20, queues_bytes_max: 8 << 20, ..config().limits };
    let config = websocket::Config { limits, ..config() };
    let mut world = World::new(Vec::new(), Settings::default(), config);
    let client = world.connect_with_buffer(Encoding::Json, 1_024).await;
    let mut slow = AddressClient::new(client);
    slow.subscribe(&json!({ "addresses": addresses(&[1]) })).await.expect("room");
    let payments: Vec<Payment> = (0..100).map(|_| pay(1, 1)).collect();
    for _ in 0..50 {
        mine(&mut world, &payments);
        let stats = world.server.stats();
        assert!(stats.notification_bytes <= 2 << 20, "{stats:?}");
    }
    let closed = loop {
        if let Err(code) = slow.client.receive().await {
            break code;
        }
    };
    assert_eq!(closed, 1008);
}

#[tokio::test]
async fn a_list_that_is_not_read_in_time_ends_the_connection() {
    let settings = Settings { list_timeout_ms: 1_000, ..Settings::default() };
    let mut world = World::with_settings(settings);
    let payments: Vec<Payment> = (0..2_000).map(|_| pay(1, 1)).collect();
    mine(&mut world, &payments);
    let client = world.connect_with_buffer(Encoding::Json, 1_024).await;
    let mut slow = AddressClient::new(client);
    let params = json!({ "addresses": addresses(&[1]), "snapshot": true });
    slow.subscribe(&params).await.expect("room");
    world.now_ms.store(1_001, Ordering::SeqCst);
    let closed = loop {
        if let Err(code) = slow.client.receive().await {
            break code;
        }
    };
    assert_eq!(closed, 1008);
    wait_until_empty(&world).await;
}
