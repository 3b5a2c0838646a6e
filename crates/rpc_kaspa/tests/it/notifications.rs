//! The nine notifications: their bytes, their order, and their receivers.

use std::sync::Arc;

use chain_kaspa::ChainEvent;
use kaspa::{
    AcceptedIds, BorshServerMessage, ChainChange, Encoding, Event, JsonServerMessage, Notification,
    Scope, UtxoChanges,
};
use testkit::kaspa_chain::{address, pay};

use crate::golden;
use crate::world::World;

fn decode(encoding: Encoding, message: &[u8]) -> Notification {
    match encoding {
        Encoding::Borsh => {
            let message = BorshServerMessage::parse(message).expect("a message");
            message.decode_notification().expect("a notification").expect("it is whole")
        }
        Encoding::Json => {
            let text = std::str::from_utf8(message).expect("UTF-8");
            let params = JsonServerMessage::parse(text).expect("a message").params;
            Notification::decode_json(params.expect("parameters").get()).expect("a notification")
        }
    }
}

/// The scopes of all events, that of UTXOs to all.
fn all_scopes() -> Vec<Scope> {
    let scope = |event: &Event| match event {
        Event::UtxosChanged => Scope::UtxosChanged { addresses: Vec::new() },
        Event::VirtualChainChanged => {
            Scope::VirtualChainChanged { include_accepted_transaction_ids: true }
        }
        event => Scope::Other(*event),
    };
    Event::ALL.iter().map(scope).collect()
}

#[tokio::test]
async fn notifications_are_those_of_kaspad_byte_by_byte() {
    let mut world = World::start();
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        for scope in all_scopes() {
            client.subscribe(&scope).await.expect("room");
        }
        let mut events = Vec::new();
        let goldens = golden::messages(encoding).filter(|golden| golden.kind == "notification");
        for golden in goldens {
            let notification = decode(encoding, &golden.bytes);
            let event = match &notification {
                Notification::UtxosChanged(_) => continue,
                Notification::VirtualChainChanged(change) => {
                    Some(ChainEvent::ChainChanged(Arc::new(change.clone())))
                }
                Notification::SinkBlueScoreChanged { sink_blue_score: blue_score } => {
                    Some(ChainEvent::SinkBlueScoreChanged { blue_score: *blue_score })
                }
                Notification::VirtualDaaScoreChanged { virtual_daa_score: daa_score } => {
                    Some(ChainEvent::VirtualDaaScoreChanged { daa_score: *daa_score })
                }
                Notification::PruningPointUtxoSetOverride => Some(ChainEvent::UtxoSetReplaced),
                _ => None,
            };
            match event {
                Some(event) => world.publisher.publish_chain(&[event]),
                None => world.publisher.publish_upstream(encoding, &notification),
            }
            let received = client.receive().await.expect("a notification");
            assert!(received == golden.bytes, "{} in {encoding:?}", golden.name);
            events.push(notification.event());
        }
        events.sort();
        events.dedup();
        assert_eq!(events.len(), 8);
    }
}

#[tokio::test]
async fn a_notification_of_the_upstream_is_passed_on_in_its_encoding_only() {
    let mut world = World::start();
    let mut borsh = world.connect(Encoding::Borsh).await;
    let mut json = world.connect(Encoding::Json).await;
    for client in [&mut borsh, &mut json] {
        client.subscribe(&Scope::Other(Event::BlockAdded)).await.expect("room");
        client.subscribe(&Scope::Other(Event::NewBlockTemplate)).await.expect("room");
    }
    world.publisher.publish_upstream(Encoding::Borsh, &Notification::BlockAdded(vec![1, 0, 7]));
    // What the chain says itself is not taken from the upstream.
    let score = Notification::VirtualDaaScoreChanged { virtual_daa_score: 1 };
    world.publisher.publish_upstream(Encoding::Borsh, &score);
    world.publisher.publish_upstream(Encoding::Borsh, &Notification::NewBlockTemplate);
    assert_eq!(borsh.notification().await, Notification::BlockAdded(vec![1, 0, 7]));
    assert_eq!(borsh.notification().await, Notification::NewBlockTemplate);
    assert_eq!(json.notification().await, Notification::NewBlockTemplate);
    borsh.check_quiet().await;
    json.check_quiet().await;
}

#[tokio::test]
async fn notifications_of_one_publication_come_in_order_and_after_the_state() {
    let mut world = World::start();
    for encoding in Encoding::ALL {
        let mut client = world.connect(encoding).await;
        for scope in all_scopes() {
            client.subscribe(&scope).await.expect("room");
        }
        let key = 1 + encoding as u8;
        world.chain.add_block(&[], &[pay(key, 100)]);
        world.publish();
        let sink = world.chain.sink_hash();
        let utxos = world.chain.list_utxos(&address(key));
        let changes = UtxoChanges { added: utxos.clone(), removed: Vec::new() };
        assert_eq!(client.notification().await, Notification::UtxosChanged(changes));
        let score = 1 + encoding as u64;
        let expected = Notification::SinkBlueScoreChanged { sink_blue_score: score };
        assert_eq!(client.notification().await, expected);
        // The virtual block of a chain without messages is one above the sink.
        let Notification::VirtualDaaScoreChanged { virtual_daa_score } =
            client.notification().await
        else {
            panic!("the DAA score comes next")
        };
        assert_eq!(virtual_daa_score, world.daa_score());
        let Notification::VirtualChainChanged(ChainChange { removed, added, accepted }) =
            client.notification().await
        else {
            panic!("the chain comes last")
        };
        assert_eq!((removed, added), (vec![], vec![sink]));
        let ids = vec![utxos[0].outpoint.transaction_id];
        assert_eq!(accepted, [AcceptedIds { accepting_block: sink, transaction_ids: ids }]);
        client.check_quiet().await;
        assert_eq!(client.utxos(&[address(key)]).await, utxos);
    }
}

#[tokio::test]
async fn ids_are_sent_to_those_that_asked_for_them_last() {
    let mut world = World::start();
    let scope = |ids: bool| Scope::VirtualChainChanged { include_accepted_transaction_ids: ids };
    let mut client = world.connect(Encoding::Borsh).await;
    let mine = |world: &mut World| {
        world.chain.add_block(&[], &[pay(1, 1)]);
        world.publish();
    };
    for (ids, accepted_len) in [(false, 0), (true, 1), (true, 1), (false, 0)] {
        client.subscribe(&scope(ids)).await.expect("room");
        mine(&mut world);
        let Notification::VirtualChainChanged(change) = client.notification().await else {
            panic!("another notification")
        };
        assert_eq!((change.added.len(), change.accepted.len()), (1, accepted_len));
        client.check_quiet().await;
    }
    client.unsubscribe(&scope(true)).await;
    mine(&mut world);
    client.check_quiet().await;
}

#[tokio::test]
async fn entries_flap_as_in_kaspad() {
    let mut world = World::start();
    let mut client = world.connect(Encoding::Borsh).await;
    client.subscribe(&Scope::UtxosChanged { addresses: vec![address(1)] }).await.expect("room");
    // The virtual block makes an output, and is made again with another score.
    let first = world.chain.virtual_utxo(60, &pay(1, 10));
    let mut second = first.clone();
    second.entry.block_daa_score += 1;
    let changes = UtxoChanges { added: vec![first.clone()], removed: Vec::new() };
    world.chain.change_virtual(&changes);
    world.publish();
    assert_eq!(client.notification().await, Notification::UtxosChanged(changes));
    let changes = UtxoChanges { added: vec![second], removed: vec![first] };
    world.chain.change_virtual(&changes);
    world.publish();
    // The outpoint is in both lists.
    assert_eq!(client.notification().await, Notification::UtxosChanged(changes));
    client.check_quiet().await;
}

#[tokio::test]
async fn moves_without_changed_utxos_notify_no_subscriber() {
    let mut world = World::start();
    let mut all = world.connect(Encoding::Json).await;
    let mut set = world.connect(Encoding::Json).await;
    all.subscribe(&Scope::UtxosChanged { addresses: Vec::new() }).await.expect("room");
    set.subscribe(&Scope::UtxosChanged { addresses: vec![address(1)] }).await.expect("room");
    world.chain.change_virtual(&UtxoChanges::default());
    world.publish();
    all.check_quiet().await;
    set.check_quiet().await;
}
