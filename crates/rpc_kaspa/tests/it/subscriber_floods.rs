//! Subscribers that never read, and those that subscribe as fast as they can: neither delays another client.

use std::collections::BTreeMap;

use kaspa::Encoding;
use rpc_kaspa::Settings;
use subscriptions::Limits;
use testkit::kaspa_chain::{DEPTH, TestChain, address, pay};

use crate::subscriptions::{ALL, mirror, set, wait_until_empty};
use crate::world::{World, config};

#[tokio::test]
async fn a_client_that_never_reads_during_reorganizations_is_closed() {
    // A reorganization of all is a message of 600 KB.
    let limits = Limits { queue_bytes_max: 1 << 20, queues_bytes_max: 8 << 20, ..config().limits };
    let config = websocket::Config { limits, ..config() };
    let mut world = World::new(Vec::new(), Settings::default(), config);
    let mut slow = world.connect_with_buffer(Encoding::Borsh, 1_024).await;
    slow.subscribe(&ALL).await.expect("room");
    let mut fast = world.connect(Encoding::Borsh).await;
    fast.subscribe(&set(&[1])).await.expect("room");
    let payments: Vec<_> = (0..20).map(|_| pay(1, 1)).collect();
    for _ in 0..DEPTH {
        world.chain.add_block(&[], &payments);
    }
    world.publish();
    let mut copy = BTreeMap::new();
    for _ in 0..4 {
        let added = (0..DEPTH).map(|_| (Vec::new(), payments.clone())).collect();
        world.chain.replace_blocks(DEPTH, added);
        world.publish();
        let stats = world.server.stats();
        assert!(stats.notification_bytes <= 4 << 20, "{stats:?}");
        mirror(&mut fast, &mut copy).await;
    }
    assert_eq!(copy.len(), 20 * DEPTH);
    // The slow one gets what was being written, and a reason.
    let closed = loop {
        if let Err(code) = slow.receive().await {
            break code;
        }
    };
    assert_eq!(closed, 1008);
}

#[tokio::test]
async fn a_client_that_never_reads_during_a_reorganization_of_1000_blocks_is_closed() {
    const BLOCKS: usize = 1_000;
    // The message of the reorganization has some 70 KB for the client of all UTXOs, and 7 KB for the other one.
    let limits = Limits { queue_bytes_max: 32 << 10, ..config().limits };
    let config = websocket::Config { limits, ..config() };
    let chain = TestChain::with_depth(Vec::new(), BLOCKS);
    let mut world = World::with_chain(chain, Settings::default(), config);
    let payments = |number: usize| match number % 40 {
        0 => vec![pay(2, 1)],
        rest if rest % 4 == 0 => vec![pay(1, 1)],
        _ => Vec::new(),
    };
    for number in 0..BLOCKS {
        world.chain.add_block(&[], &payments(number));
    }
    world.publish();
    let mut slow = world.connect_with_buffer(Encoding::Borsh, 1_024).await;
    slow.subscribe(&ALL).await.expect("room");
    let mut fast = world.connect(Encoding::Borsh).await;
    fast.subscribe(&set(&[2])).await.expect("room");
    let utxos = world.chain.list_utxos(&address(2)).into_iter();
    let mut copy: BTreeMap<_, _> = utxos.map(|utxo| (utxo.outpoint, utxo)).collect();
    let added = (0..=BLOCKS).map(|number| (Vec::new(), payments(number))).collect();
    world.chain.replace_blocks(BLOCKS, added);
    world.publish();
    let stats = world.server.stats();
    assert!(stats.notification_bytes <= 32 << 10, "{stats:?}");
    // Another client is served, and follows the reorganization.
    mirror(&mut fast, &mut copy).await;
    assert!(copy.into_values().eq(world.chain.list_utxos(&address(2))));
    let closed = loop {
        if let Err(code) = slow.receive().await {
            break code;
        }
    };
    assert_eq!(closed, 1008);
}

#[tokio::test]
async fn many_subscribes_and_unsubscribes_leave_nothing_behind() {
    let mut world = World::start();
    let mut client = world.connect(Encoding::Borsh).await;
    for round in 0..2_000_u32 {
        let keys = [(round % 5) as u8 + 1, (round % 3) as u8 + 1];
        if round % 2 == 0 {
            client.subscribe(&set(&keys)).await.expect("room");
        } else {
            client.unsubscribe(&set(&keys)).await;
        }
        if round % 100 == 0 {
            world.chain.add_block(&[], &[pay(1, 1)]);
            world.publish();
        }
    }
    client.unsubscribe(&ALL).await;
    let stats = world.server.stats();
    assert_eq!((stats.subscriptions, stats.tracked_addresses), (0, 0));
    drop(client);
    wait_until_empty(&world).await;
}

#[tokio::test]
async fn a_flood_of_100000_subscribes_is_answered_beside_another_client() {
    const BURSTS: usize = 200;
    const BURST: usize = 500;
    let world = World::start();
    let mut flooding = world.connect(Encoding::Borsh).await;
    let mut other = world.connect(Encoding::Borsh).await;
    let scopes = [set(&[1]), set(&[2, 3]), ALL];
    for _ in 0..BURSTS {
        for number in 0..BURST {
            let id = flooding.allocate_id();
            flooding.send(scopes[number % scopes.len()].encode_borsh_subscribe(id)).await;
        }
        other.call(kaspa::Method::Ping).await.expect("a pong");
        for _ in 0..BURST {
            flooding.receive_reply().await;
        }
    }
    let stats = world.server.stats();
    assert!(stats.subscriptions <= 2 && stats.tracked_addresses <= 3, "{stats:?}");
    flooding.unsubscribe(&ALL).await;
    let stats = world.server.stats();
    assert_eq!((stats.subscriptions, stats.tracked_addresses), (0, 0));
    drop((flooding, other));
    wait_until_empty(&world).await;
}
