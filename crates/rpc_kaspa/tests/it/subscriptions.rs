//! Subscriptions to changes of UTXOs: all, sets and their changes, limits, reorganizations.
//!
//! Not here: clients that never read, or subscribe as fast as they can (`subscriber_floods`).

use std::collections::BTreeMap;

use kaspa::{
    AddressUtxo, Encoding, KaspaAddress, Notification, Outpoint, Prefix, Scope, UtxoChanges,
};
use rpc_kaspa::Settings;
use subscriptions::Limits;
use testkit::kaspa_chain::{DEPTH, address, pay};

use crate::world::{World, config};
use crate::wrpc_client::WrpcClient;

pub(crate) fn set(keys: &[u8]) -> Scope {
    Scope::UtxosChanged { addresses: keys.iter().map(|key| address(*key)).collect() }
}

const NONE: [u8; 0] = [];
pub(crate) const ALL: Scope = Scope::UtxosChanged { addresses: Vec::new() };

/// Different addresses that nothing pays to.
fn many_addresses(count: u32) -> impl Iterator<Item = KaspaAddress> {
    (0..count).map(|number| {
        let mut key = [9; 32];
        key[..4].copy_from_slice(&number.to_le_bytes());
        KaspaAddress { payload: kaspa::AddressPayload::PublicKey(key), ..address(1) }
    })
}

/// The keys that a block's payments to keys 1 to 4 are notified of.
async fn notified_keys(world: &mut World, client: &mut WrpcClient) -> Vec<u8> {
    let payments = [1, 2, 3, 4].map(|key| pay(key, u64::from(key)));
    world.chain.add_block(&[], &payments);
    world.publish();
    for _ in 0..2 {
        client.call(kaspa::Method::Ping).await.expect("a pong");
    }
    let mut keys: Vec<u8> = Vec::new();
    while let Some(notification) = client.take_early() {
        let Notification::UtxosChanged(changes) = notification else { panic!("another one") };
        assert_eq!(changes.removed, []);
        keys.extend(changes.added.iter().map(|utxo| utxo.entry.amount as u8));
    }
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn sets_change_as_in_kaspad() {
    for encoding in Encoding::ALL {
        let mut world = World::start();
        let mut client = world.connect(encoding).await;
        assert_eq!(notified_keys(&mut world, &mut client).await, NONE);
        client.unsubscribe(&ALL).await;
        client.unsubscribe(&set(&[1])).await;
        let steps: [(bool, Scope, &[u8]); 13] = [
            (true, set(&[1, 1]), &[1]),
            (true, set(&[1]), &[1]),
            (true, set(&[2, 3]), &[1, 2, 3]),
            (false, set(&[2, 4]), &[1, 3]),
            (false, set(&[1, 3]), &[]),
            (true, set(&[4]), &[4]),
            // All, then a list: the list narrows.
            (true, ALL, &[1, 2, 3, 4]),
            (true, ALL, &[1, 2, 3, 4]),
            (false, set(&[1]), &[1, 2, 3, 4]),
            (true, set(&[2]), &[2]),
            (true, ALL, &[1, 2, 3, 4]),
            (false, ALL, &[]),
            (true, set(&[3]), &[3]),
        ];
        for (at, (starts, scope, keys)) in steps.into_iter().enumerate() {
            if starts {
                client.subscribe(&scope).await.expect("room");
            } else {
                client.unsubscribe(&scope).await;
            }
            assert_eq!(notified_keys(&mut world, &mut client).await, keys, "step {at}");
        }
        drop(client);
        wait_until_empty(&world).await;
    }
}

pub(crate) async fn wait_until_empty(world: &World) {
    while world.server.stats().connections > 0 {
        tokio::task::yield_now().await;
    }
    assert!(world.server.subscriptions.is_idle());
}

#[tokio::test]
async fn notifications_have_addresses_of_this_network() {
    let mut world = World::start();
    // The prefix of a request is not checked, as in kaspad.
    let mainnet = KaspaAddress { prefix: Prefix::Mainnet, ..address(1) };
    let scope = Scope::UtxosChanged { addresses: vec![mainnet] };
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        client.subscribe(&scope).await.expect("room");
        world.chain.add_block(&[], &[pay(1, 5)]);
        world.publish();
        let Notification::UtxosChanged(changes) = client.notification().await else {
            panic!("another one")
        };
        let addresses: Vec<_> = changes.added.iter().map(|utxo| utxo.address).collect();
        assert_eq!(addresses, [Some(address(1))]);
    }
}

#[tokio::test]
async fn clients_with_equal_sets_get_equal_notifications() {
    let mut world = World::start();
    let mut clients = Vec::new();
    for encoding in [Encoding::Borsh, Encoding::Borsh, Encoding::Json, Encoding::Json] {
        let mut client = world.connect(encoding).await;
        client.subscribe(&set(&[1, 2])).await.expect("room");
        clients.push(client);
    }
    let stats = world.server.stats();
    // Shared by the clients of an encoding; an address counts once.
    assert_eq!((stats.subscriptions, stats.distinct_subscriptions), (4, 2));
    assert_eq!((stats.tracked_addresses, stats.tracked_pairs), (2, 4));
    world.chain.add_block(&[], &[pay(1, 1), pay(2, 2), pay(3, 3)]);
    world.publish();
    for client in &mut clients {
        let Notification::UtxosChanged(changes) = client.notification().await else {
            panic!("another one")
        };
        assert_eq!(changes.added.len(), 2);
        client.check_quiet().await;
    }
}

#[tokio::test]
async fn a_limit_of_addresses_refuses_all_of_a_list() {
    let limits = Limits { addresses_max: 3, ..config().limits };
    let config = websocket::Config { limits, ..config() };
    for encoding in Encoding::ALL {
        let mut world = World::new(Vec::new(), Settings::default(), config.clone());
        let mut first = world.connect(encoding).await;
        let mut second = world.connect(encoding).await;
        first.subscribe(&set(&[1, 2])).await.expect("room");
        let error = second.subscribe(&set(&[2, 3, 4])).await.expect_err("three are the limit");
        assert_eq!(error.to_string(), "the address store reached the maximum capacity");
        assert_eq!(notified_keys(&mut world, &mut second).await, NONE);
        // An address that another client has counts once.
        second.subscribe(&set(&[2, 3])).await.expect("room");
        let error = first.subscribe(&set(&[3, 4])).await.expect_err("the limit of all clients");
        assert_eq!(error.to_string(), "the address store reached the maximum capacity");
        // Of this block, and of the one above.
        assert_eq!(notified_keys(&mut world, &mut first).await, [1, 1, 2, 2]);
        first.unsubscribe(&set(&[1])).await;
        first.subscribe(&set(&[4])).await.expect("room again");
        drop((first, second));
        wait_until_empty(&world).await;
    }
}

#[tokio::test]
async fn a_set_larger_than_one_step_is_subscribed_to_and_ended() {
    let mut world = World::start();
    let addresses = many_addresses(5_000).chain([address(1)]).collect();
    let scope = Scope::UtxosChanged { addresses };
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        client.subscribe(&scope).await.expect("room");
        assert_eq!(world.server.stats().tracked_addresses, 5_001);
        assert_eq!(notified_keys(&mut world, &mut client).await, [1]);
        client.unsubscribe(&scope).await;
        assert_eq!(world.server.stats().tracked_addresses, 0);
        client.subscribe(&scope).await.expect("room");
        client.unsubscribe(&ALL).await;
        assert_eq!(world.server.stats().tracked_addresses, 0);
        assert_eq!(notified_keys(&mut world, &mut client).await, NONE);
    }
}

#[tokio::test]
async fn a_set_that_does_not_fit_leaves_nothing_behind() {
    let limits = Limits { addresses_max: 4_000, ..config().limits };
    let config = websocket::Config { limits, ..config() };
    let mut world = World::new(Vec::new(), Settings::default(), config);
    let many = many_addresses(5_000).collect();
    let mut client = world.connect(Encoding::Borsh).await;
    client.subscribe(&ALL).await.expect("room");
    let refused = client.subscribe(&Scope::UtxosChanged { addresses: many }).await;
    assert!(refused.is_err());
    // The subscription before is unchanged.
    assert_eq!(notified_keys(&mut world, &mut client).await, [1, 2, 3, 4]);
    assert_eq!(world.server.stats().tracked_addresses, 0);
    drop(client);
    wait_until_empty(&world).await;
}

#[tokio::test]
async fn the_last_addresses_of_the_table_are_left_to_the_chain() {
    let limits = Limits {
        addresses_max: 200_000,
        address_pairs_max: 400_000,
        addresses_per_owner_max: 200_000,
        addresses_per_listener_max: 200_000,
        ..config().limits
    };
    let config = websocket::Config { limits, ..config() };
    let mut world = World::new(Vec::new(), Settings::default(), config);
    let mut client = world.connect(Encoding::Borsh).await;
    // The table of the test's chain has 100,000.
    let addresses = many_addresses(95_000).collect();
    let error = client.subscribe(&Scope::UtxosChanged { addresses }).await.expect_err("too many");
    assert!(error.to_string().contains("address table is full"), "{error}");
    // The chain continues, and the ids of the refused list are free once no snapshot can have them.
    for _ in 0..4 {
        world.chain.add_block(&[], &[pay(5, 1)]);
        world.publish();
    }
    client.subscribe(&set(&[1])).await.expect("room");
    assert_eq!(notified_keys(&mut world, &mut client).await, [1]);
}

/// A copy of an address's UTXOs that is made of notifications only.
pub(crate) async fn mirror(client: &mut WrpcClient, copy: &mut BTreeMap<Outpoint, AddressUtxo>) {
    for _ in 0..2 {
        client.call(kaspa::Method::Ping).await.expect("a pong");
    }
    while let Some(notification) = client.take_early() {
        let Notification::UtxosChanged(UtxoChanges { added, removed }) = notification else {
            panic!("another one")
        };
        for utxo in removed {
            assert_eq!(copy.remove(&utxo.outpoint), Some(utxo));
        }
        for utxo in added {
            assert_eq!(copy.insert(utxo.outpoint, utxo), None);
        }
    }
}

#[tokio::test]
async fn a_subscriber_follows_reorganizations_of_any_depth() {
    let mut world = World::start();
    let mut client = world.connect(Encoding::Borsh).await;
    client.subscribe(&set(&[1])).await.expect("room");
    let mut copy = BTreeMap::new();
    for number in 0..=DEPTH as u64 {
        world.chain.add_block(&[], &[pay(1, number + 1), pay(2, 1)]);
        if number % 7 == 0 {
            world.publish();
        }
    }
    world.publish();
    for depth in [1, 5, 40, DEPTH] {
        let added = (0..=depth).map(|at| (Vec::new(), vec![pay(1, 1_000 + at as u64)])).collect();
        world.chain.replace_blocks(depth, added);
        world.publish();
        mirror(&mut client, &mut copy).await;
        let utxos: Vec<AddressUtxo> = copy.values().cloned().collect();
        assert!(utxos == world.chain.list_utxos(&address(1)), "depth {depth}");
        assert!(utxos == client.utxos(&[address(1)]).await, "depth {depth}");
    }
}

#[tokio::test]
async fn no_change_is_missed_while_a_subscription_is_replaced() {
    let mut world = World::start();
    let mut client = world.connect(Encoding::Borsh).await;
    let mut copy = BTreeMap::new();
    for round in 0..100 {
        let narrows = round % 2 == 0;
        let scope = if narrows { set(&[1]) } else { ALL };
        let id = client.allocate_id();
        client.send(scope.encode_borsh_subscribe(id)).await;
        if round > 0 {
            // The notification waits together with the request, or was just written.
            world.chain.add_block(&[], &[pay(1, round + 1)]);
            world.publish();
        }
        client.check_reply().await;
        for _ in 0..2 {
            client.call(kaspa::Method::Ping).await.expect("a pong");
        }
        // One may come twice, by both subscriptions, but not if all is narrowed to a list.
        let mut notifications = 0;
        while let Some(notification) = client.take_early() {
            let Notification::UtxosChanged(changes) = notification else { panic!("another one") };
            assert_eq!(changes.removed, []);
            notifications += 1;
            copy.extend(changes.added.into_iter().map(|utxo| (utxo.outpoint, utxo)));
        }
        let utxos: Vec<AddressUtxo> = copy.values().cloned().collect();
        assert!(utxos == world.chain.list_utxos(&address(1)), "round {round}");
        assert!(notifications <= if narrows { 1 } else { 2 }, "round {round}: {notifications}");
    }
}

#[tokio::test]
async fn a_gap_in_the_events_closes_all_and_later_events_continue() {
    let mut world = World::start();
    world.chain.add_block(&[], &[pay(1, 1)]);
    world.publish();
    let mut client = world.connect(Encoding::Borsh).await;
    client.subscribe(&ALL).await.expect("room");
    // The events of this publication are lost.
    world.chain.add_block(&[], &[pay(1, 2)]);
    drop(world.chain.chain.publish().expect("a publication"));
    world.chain.add_block(&[], &[pay(1, 3)]);
    world.publish();
    let closed = loop {
        if let Err(code) = client.receive().await {
            break code;
        }
    };
    assert_eq!(closed, 1013);
    let mut client = world.connect(Encoding::Borsh).await;
    client.subscribe(&set(&[1])).await.expect("room");
    assert_eq!(notified_keys(&mut world, &mut client).await, [1]);
    // Also beyond the depth, where the root passes the gap.
    for _ in 0..=DEPTH {
        world.chain.add_block(&[], &[pay(2, 1)]);
        world.publish();
    }
    assert_eq!(notified_keys(&mut world, &mut client).await, [1]);
}
