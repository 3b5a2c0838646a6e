//! The thread that publishes: its order, its bound, and its end.

use std::sync::Arc;

use kaspa::{Encoding, Event, Notification, Scope, UtxoChanges};
use rpc_kaspa::{PublisherInput, start_publisher};
use testkit::kaspa_chain::{address, pay};

use crate::world::World;

/// Mines a block, and sends its events.
fn mine(world: &mut World, input: &PublisherInput) {
    world.chain.add_block(&[], &[pay(1, 1)]);
    let publication = world.chain.chain.publish().expect("a publication");
    input.send_chain(publication.events);
}

#[tokio::test]
async fn events_are_published_in_their_order() {
    let mut world = World::start();
    let input = start_publisher(Arc::clone(&world.server), 100).expect("a thread");
    let mut client = world.connect(Encoding::Borsh).await;
    client.subscribe(&Scope::UtxosChanged { addresses: vec![address(1)] }).await.expect("room");
    client.subscribe(&Scope::Other(Event::NewBlockTemplate)).await.expect("room");
    for _ in 0..20 {
        mine(&mut world, &input);
        input.send_upstream(Encoding::Borsh, Notification::NewBlockTemplate);
    }
    for _ in 0..20 {
        let changes = client.notification().await;
        let Notification::UtxosChanged(UtxoChanges { added, .. }) = changes else {
            panic!("{changes:?}")
        };
        assert_eq!(added.len(), 1);
        assert_eq!(client.notification().await, Notification::NewBlockTemplate);
    }
    // The end of the input is the end of the server.
    drop(input);
    assert_eq!(client.receive().await, Err(1001));
}

#[tokio::test]
async fn lost_events_close_all_clients() {
    let mut world = World::start();
    let input = start_publisher(Arc::clone(&world.server), 1).expect("a thread");
    let mut client = world.connect(Encoding::Json).await;
    client.subscribe(&Scope::Other(Event::SinkBlueScoreChanged)).await.expect("room");
    // Nothing is published while the subscriptions are locked.
    let server = Arc::clone(&world.server);
    let matches = server.subscriptions.matches();
    for _ in 0..3 {
        mine(&mut world, &input);
    }
    drop(matches);
    // The next events find that some were lost.
    while world.server.stats().connections > 0 {
        mine(&mut world, &input);
        tokio::task::yield_now().await;
    }
    let closed = loop {
        if let Err(code) = client.receive().await {
            break code;
        }
    };
    assert_eq!(closed, 1013);
}
