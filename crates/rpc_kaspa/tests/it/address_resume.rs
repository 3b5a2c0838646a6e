//! Resumption of `addressesSubscribe`: reorganizations, positions that are refused, disconnections by seed.

use kaspa::KaspaAddress;
use serde_json::{Value, json};
use testkit::kaspa_chain::{DEPTH, Payment, address, pay};
use testkit::kaspa_utxo_copy::UtxoCopy;

use crate::address_client::{
    AddressClient, addresses, check, list_chain_utxos, mine, reorganize, resume_client,
    start_client, wait_until_empty, world_with_log,
};
use crate::world::World;

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

/// After a restart a node adds hundreds of blocks at once. Readers see them before their events are published.
#[tokio::test]
async fn a_block_that_is_published_late_is_waited_for() {
    let mut world = world_with_log(100);
    mine(&mut world, &[pay(1, 1)]);
    let mut copy = start_client(&world).await.copy;
    for amount in 2..5 {
        world.chain.add_block(&[], &[pay(1, amount)]);
    }
    let publication = world.chain.chain.publish().expect("a publication");
    let daa_score = world.chain.chain.status().sink.daa_score;
    // The client had these blocks from an earlier process.
    copy.utxos = list_chain_utxos(&world, &[1]);
    let chain_block = world.chain.sink_hash().to_string();
    copy.position = json!({ "chainBlock": chain_block, "daaScore": daa_score });
    let params = json!({ "addresses": addresses(&[1]), "resume": copy.position });
    let mut client = AddressClient::reconnect(&world, copy).await;
    let late = async {
        // A refusal would come at once.
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        world.publisher.publish_chain(&publication.events);
    };
    let (reply, ()) = tokio::join!(client.subscribe(&params), late);
    reply.expect("it is the sink's block");
    client.sync().await;
    check(&world, &client);
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
        let copy = before.take();
        let is_resume = copy.is_some();
        let copy = copy.unwrap_or_default();
        let start = copy.subscribe_params(addresses(&[1]));
        let mut client = AddressClient::reconnect(world, copy).await;
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
