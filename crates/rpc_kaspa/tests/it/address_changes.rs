//! Changes of sets of addresses with positions: one block for the list and the changes after it, resumption, bounds.

use std::sync::atomic::Ordering;

use kaspa::{Encoding, KaspaAddress, Scope};
use rpc_kaspa::Settings;
use serde_json::{Value, json};
use subscriptions::Limits;
use testkit::kaspa_chain::{DEPTH, Payment, address, pay};

use crate::address_client::{AddressClient, UtxoCopy, addresses, list_chain_utxos};
use crate::world::{World, config};

/// A world whose log has this many steps of the chain.
fn world_with_log(retained_steps: usize) -> World {
    let limits = Limits { retained_steps, ..config().limits };
    World::new(Vec::new(), Settings::default(), websocket::Config { limits, ..config() })
}

fn mine(world: &mut World, payments: &[Payment]) {
    world.chain.add_block(&[], payments);
    world.publish();
}

/// Replaces the newest blocks by others, one more than before. Each pays to a key.
fn reorganize(world: &mut World, depth: usize, key: u8) {
    let added = (0..=depth).map(|at| (Vec::new(), vec![pay(key, 1_000 + at as u64)])).collect();
    world.chain.replace_blocks(depth, added);
    world.publish();
}

/// A client of key 1, which has its UTXOs.
async fn start_client(world: &World) -> AddressClient {
    let mut client = AddressClient::connect(world).await;
    let params = json!({ "addresses": addresses(&[1]), "snapshot": true });
    client.subscribe(&params).await.expect("room");
    client.sync().await;
    client
}

async fn resume_client(world: &World, copy: UtxoCopy) -> Result<AddressClient, String> {
    let params = json!({ "addresses": addresses(&[1]), "resume": copy.position });
    let mut client = AddressClient::reconnect(world, copy).await;
    client.subscribe(&params).await?;
    client.sync().await;
    Ok(client)
}

fn check(world: &World, client: &AddressClient) {
    assert_eq!(client.copy.utxos, list_chain_utxos(world, &[1]));
    assert_eq!(client.copy.position["chainBlock"], json!(world.chain.sink_hash().to_string()));
}

async fn wait_until_empty(world: &World) {
    while world.server.stats().connections > 0 {
        tokio::task::yield_now().await;
    }
    assert!(world.server.subscriptions.is_idle());
}

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
async fn a_client_resumes_across_a_reorganization() {
    let mut world = world_with_log(500);
    for number in 0..=DEPTH as u64 {
        world.chain.add_block(&[], &[pay(1, number + 1)]);
    }
    world.publish();
    let mut client = start_client(&world).await;
    for depth in [1, 5, 40, DEPTH] {
        mine(&mut world, &[pay(1, 7)]);
        client.sync().await;
        let copy = client.copy.clone();
        drop(client);
        // The block of its position leaves the chain.
        reorganize(&mut world, depth, 1);
        client = resume_client(&world, copy).await.expect("it is retained");
        check(&world, &client);
        assert!(client.copy.kinds.contains(&"rollback".to_owned()), "depth {depth}");
    }
}

#[tokio::test]
async fn a_branch_that_came_and_left_is_not_sent_to_a_client_that_resumes() {
    let mut world = world_with_log(100);
    mine(&mut world, &[pay(1, 1)]);
    let client = start_client(&world).await;
    let copy = client.copy.clone();
    drop(client);
    mine(&mut world, &[pay(1, 2)]);
    mine(&mut world, &[pay(1, 3)]);
    reorganize(&mut world, 2, 1);
    let client = resume_client(&world, copy).await.expect("it is retained");
    check(&world, &client);
    assert_eq!(client.copy.kinds, ["snapshot", "update", "update", "update"]);
}

#[tokio::test]
async fn a_client_resumes_after_a_rollback_from_the_block_below() {
    let mut world = world_with_log(100);
    mine(&mut world, &[pay(1, 1)]);
    let mut client = start_client(&world).await;
    mine(&mut world, &[pay(1, 2)]);
    client.sync().await;
    reorganize(&mut world, 1, 2);
    // The new blocks do not change the set, so the rollback is the last notification.
    let rollback = client.client.receive().await.expect("a notification");
    let rollback: Value = serde_json::from_slice(&rollback).expect("JSON");
    assert_eq!(rollback["params"]["kind"], json!("rollback"));
    let mut copy = client.copy.clone();
    let removed = &rollback["params"]["removed"][0]["outpoint"];
    assert!(copy.utxos.remove(&removed.to_string()).is_some());
    copy.position = rollback["params"]["position"].clone();
    drop(client);
    mine(&mut world, &[pay(1, 3)]);
    let client = resume_client(&world, copy).await.expect("it is retained");
    check(&world, &client);
}

#[tokio::test]
async fn a_position_that_is_too_old_is_refused_with_advice() {
    let mut world = world_with_log(8);
    mine(&mut world, &[pay(1, 1)]);
    let client = start_client(&world).await;
    let copy = client.copy.clone();
    drop(client);
    for _ in 0..9 {
        mine(&mut world, &[pay(1, 1)]);
    }
    let refused = resume_client(&world, copy).await.err().expect("it is too old");
    for part in ["is too old", "pubsub.resume_blocks", "subscribe with a snapshot"] {
        assert!(refused.contains(part), "{refused}");
    }
    wait_until_empty(&world).await;
    check(&world, &start_client(&world).await);
}

#[tokio::test]
async fn a_position_of_another_chain_is_refused() {
    let mut world = world_with_log(100);
    mine(&mut world, &[pay(1, 1)]);
    let mut copy = start_client(&world).await.copy;
    let sink = copy.position.clone();
    // A hash that this node never had, at the score of its sink.
    copy.position["chainBlock"] = json!("ab".repeat(32));
    let refused = resume_client(&world, copy.clone()).await.err().expect("another chain");
    assert!(refused.contains("is not of the chain of this node"), "{refused}");
    // The score of another block.
    copy.position = sink.clone();
    copy.position["daaScore"] = json!(0);
    assert!(resume_client(&world, copy.clone()).await.is_err());
    // A block that the node does not have yet.
    copy.position = json!({ "chainBlock": "ab".repeat(32), "daaScore": 1_000 });
    let refused = resume_client(&world, copy.clone()).await.err().expect("above the sink");
    assert!(refused.contains("the node is behind"), "{refused}");
    copy.position = sink;
    resume_client(&world, copy).await.expect("its own block");
}

#[tokio::test]
async fn the_position_moves_although_no_block_changes_the_set() {
    let mut world = world_with_log(8);
    mine(&mut world, &[pay(1, 1)]);
    let mut client = start_client(&world).await;
    for _ in 0..20 {
        mine(&mut world, &[pay(2, 1)]);
        client.sync().await;
    }
    let copy = client.copy.clone();
    assert_eq!(copy.kinds, ["snapshot"]);
    drop(client);
    mine(&mut world, &[pay(1, 2)]);
    let client = resume_client(&world, copy).await.expect("it is retained");
    check(&world, &client);
}

/// A deterministic sequence of choices.
struct Choices(u64);

impl Choices {
    /// The next number below a bound.
    fn choose(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Adds blocks, or replaces some.
fn change_chain(world: &mut World, choices: &mut Choices, height: &mut usize) {
    for _ in 0..=choices.choose(3) {
        let payments: Vec<Payment> =
            (0..=choices.choose(2)).map(|_| pay(1 + choices.choose(3) as u8, 1)).collect();
        if *height > 0 && choices.choose(4) == 0 {
            let depth = 1 + choices.choose((*height).min(6));
            let added = (0..=depth).map(|_| (Vec::new(), payments.clone())).collect();
            world.chain.replace_blocks(depth, added);
        } else {
            let owned = world.chain.list_utxos(&address(1));
            let is_spent = choices.choose(2) == 0 && !owned.is_empty();
            let spent: Vec<_> =
                is_spent.then(|| owned[choices.choose(owned.len())].outpoint).into_iter().collect();
            world.chain.add_block(&spent, &payments);
        }
        *height += 1;
    }
    world.publish();
}

/// Subscribes from the position of a copy, or with a list. The chain may change between the request and the reply.
async fn subscribe_again(
    world: &mut World,
    choices: &mut Choices,
    height: &mut usize,
    mut before: Option<UtxoCopy>,
) -> AddressClient {
    loop {
        let start = match &before {
            Some(copy) => json!({ "addresses": addresses(&[1]), "resume": copy.position }),
            None => json!({ "addresses": addresses(&[1]), "snapshot": true }),
        };
        let copy = before.take();
        let is_resume = copy.is_some();
        let mut client = AddressClient::reconnect(world, copy.unwrap_or_default()).await;
        let id = client.send("addressesSubscribe", &start).await;
        if choices.choose(2) == 0 {
            change_chain(world, choices, height);
        }
        let started = match client.finish_subscribe(id).await {
            Ok(_) => client.try_sync().await,
            Err(refused) => Err(refused),
        };
        match started {
            Ok(()) => return client,
            Err(refused) => {
                assert!(is_resume, "{refused}");
                // It became too old before or after the reply. The next subscription has a list.
                let is_too_old = refused.contains("is too old") || refused == "closed: 1008";
                assert!(is_too_old, "{refused}");
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_disconnects_at_random_misses_and_doubles_nothing() {
    let mut resumed = 0;
    for seed in 0..20 {
        let mut world = world_with_log(40);
        let mut choices = Choices(seed);
        let mut height = 0;
        let mut copy: Option<UtxoCopy> = None;
        let mut connected: Option<AddressClient> = None;
        for _ in 0..60 {
            match (choices.choose(4), connected.take()) {
                (0, Some(client)) => copy = Some(client.copy),
                (0 | 1, None) => {
                    let before = copy.take();
                    resumed += usize::from(before.is_some());
                    let mut client =
                        subscribe_again(&mut world, &mut choices, &mut height, before).await;
                    client.sync().await;
                    check(&world, &client);
                    connected = Some(client);
                }
                (_, client) => {
                    connected = client;
                    change_chain(&mut world, &mut choices, &mut height);
                    // Otherwise notifications wait, and are lost with the connection.
                    if let Some(client) = connected.as_mut().filter(|_| choices.choose(2) == 0) {
                        client.sync().await;
                        check(&world, client);
                    }
                }
            }
        }
        drop(connected);
        wait_until_empty(&world).await;
    }
    assert!(resumed > 20, "{resumed}");
}

#[tokio::test]
async fn a_large_set_resumes_like_a_small_one() {
    let mut world = world_with_log(100);
    mine(&mut world, &[pay(1, 1)]);
    let mut list: Vec<String> = (0..5_000_u32)
        .map(|number| {
            let mut key = [9; 32];
            key[..4].copy_from_slice(&number.to_le_bytes());
            let payload = kaspa::AddressPayload::PublicKey(key);
            KaspaAddress { payload, ..address(1) }.to_string()
        })
        .collect();
    list.push(address(1).to_string());
    let mut client = AddressClient::connect(&world).await;
    let params = json!({ "addresses": list, "snapshot": true });
    let reply = client.subscribe(&params).await.expect("room");
    assert_eq!(reply["addresses"], json!(5_001));
    mine(&mut world, &[pay(1, 2)]);
    client.sync().await;
    check(&world, &client);
    let copy = client.copy.clone();
    drop(client);
    wait_until_empty(&world).await;
    mine(&mut world, &[pay(1, 3)]);
    let params = json!({ "addresses": list, "resume": copy.position });
    let mut client = AddressClient::reconnect(&world, copy).await;
    client.subscribe(&params).await.expect("it is retained");
    mine(&mut world, &[pay(1, 4)]);
    client.sync().await;
    check(&world, &client);
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
