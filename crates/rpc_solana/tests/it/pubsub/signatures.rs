//! signatureSubscribe: exactly one notification, however the subscription and the transaction race.

use std::sync::Arc;

use chain_solana::LedgerEvent;
use jsonrpc::Health;
use serde_json::{Value, json};
use solana_transaction_error::TransactionError;

use super::node::{Client, Node, Tx, signature};

async fn subscribe(client: &mut Client, n: u8, commitment: &str, received: bool) -> u64 {
    let config = json!({ "commitment": commitment, "enableReceivedNotification": received });
    client.subscribe("signature", json!([signature(n).to_string(), config])).await
}

fn values(notifications: &[Value]) -> Vec<(u64, Value)> {
    notifications
        .iter()
        .map(|notification| {
            let params = &notification["params"];
            let id = params["subscription"].as_u64().expect("an id");
            (id, params["result"]["value"].clone())
        })
        .collect()
}

#[tokio::test]
async fn a_signature_is_notified_once_at_its_commitment() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let processed = subscribe(&mut client, 1, "processed", false).await;
    let confirmed = subscribe(&mut client, 1, "confirmed", false).await;
    let finalized = subscribe(&mut client, 1, "finalized", false).await;
    let done = json!({ "err": null });
    let slot = node.open();
    node.execute(Tx::new(1));
    let notifications = node.notifications(&mut client).await;
    assert_eq!(values(&notifications), [(processed, done.clone())], "at once, in the open block");
    assert_eq!(notifications[0]["params"]["result"]["context"], json!({ "slot": slot }));
    node.complete();
    assert_eq!(values(&node.notifications(&mut client).await), [(confirmed, done.clone())]);
    node.block(Tx::new(2));
    assert!(node.notifications(&mut client).await.is_empty());
    node.finalize();
    assert_eq!(values(&node.notifications(&mut client).await), [(finalized, done)]);
    node.finalize();
    assert!(node.notifications(&mut client).await.is_empty());
    for id in [processed, confirmed, finalized] {
        let err = client.call("signatureUnsubscribe", json!([id])).await;
        let expected = json!({ "code": -32602, "message": "Invalid subscription id." });
        assert_eq!(err, Err(expected), "it ended by itself");
    }
}

#[tokio::test]
async fn received_is_sent_before_processed_if_requested() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let processed = subscribe(&mut client, 1, "processed", true).await;
    let finalized = subscribe(&mut client, 1, "finalized", true).await;
    let failed = Some(TransactionError::AccountNotFound);
    node.block(Tx { err: failed, ..Tx::new(1) });
    node.finalize();
    let mut notifications = values(&node.notifications(&mut client).await);
    notifications.sort_by_key(|(id, _)| *id);
    let received = json!("receivedSignature");
    let done = json!({ "err": "AccountNotFound" });
    let expected = [
        (processed, received.clone()),
        (processed, done.clone()),
        (finalized, received),
        (finalized, done),
    ];
    assert_eq!(notifications, expected);
}

#[tokio::test]
async fn a_signature_that_is_there_already_is_notified() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    node.block(Tx::new(1));
    let done = json!({ "err": null });
    let processed = subscribe(&mut client, 1, "processed", false).await;
    let confirmed = subscribe(&mut client, 1, "confirmed", false).await;
    let finalized = subscribe(&mut client, 1, "finalized", false).await;
    let expected = [(processed, done.clone()), (confirmed, done.clone())];
    assert_eq!(values(&node.notifications(&mut client).await), expected);
    node.finalize();
    assert_eq!(values(&node.notifications(&mut client).await), [(finalized, done)]);
    assert_eq!(node.pubsub.stats().subscriptions, 1, "the one to slots");
}

#[tokio::test]
async fn a_signature_of_a_withheld_state_is_not_notified() {
    let mut node = Node::start(Default::default()).await;
    let health = Arc::new(Health::default());
    node.pubsub.set_health(Arc::clone(&health));
    let mut client = node.connect().await;
    node.block(Tx::new(1));
    node.finalize();
    health.withhold_state(true);
    let params = json!([signature(1).to_string(), { "commitment": "finalized" }]);
    let refused = client.call("signatureSubscribe", params).await.expect_err("it is withheld");
    assert_eq!(refused["code"], -32005, "{refused}");
    health.withhold_state(false);
    let finalized = subscribe(&mut client, 1, "finalized", false).await;
    let done = json!({ "err": null });
    assert_eq!(values(&node.notifications(&mut client).await), [(finalized, done)]);
}

/// The reply with the id comes first: without it a client cannot assign the notification.
#[tokio::test]
async fn the_id_is_sent_before_the_signature() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    node.block(Tx::new(1));
    let params = json!([signature(1).to_string(), { "commitment": "confirmed" }]);
    let request =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "signatureSubscribe", "params": params });
    client.send(request.to_string()).await;
    let reply = client.message().await.expect("it comes").expect("it is text");
    assert_eq!(reply.as_str(), r#"{"jsonrpc":"2.0","result":1,"id":7}"#);
    let notification = client.message().await.expect("it comes").expect("it is text");
    assert!(notification.contains("signatureNotification"), "{notification}");
}

/// The event is published while the client subscribes: before, after or in the middle of it. In each case exactly one
/// notification comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribing_races_with_executing_and_nothing_is_lost_or_doubled() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    node.open();
    for n in 0..=200 {
        let executed = node.execute_silently(Tx::new(n));
        let event = LedgerEvent::Executed([Arc::clone(&executed)].into());
        let (id, ()) = tokio::join!(subscribe(&mut client, n, "processed", false), async {
            // The event comes at different times within the round trip.
            for _ in 0..n % 7 {
                tokio::task::yield_now().await;
            }
            node.send_event(&event);
        });
        let notifications = node.notifications(&mut client).await;
        assert_eq!(values(&notifications), [(id, json!({ "err": null }))], "transaction {n}");
    }
}

/// The transaction becomes visible while the client subscribes: before, after or in the middle of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribing_races_with_becoming_visible() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    for n in 0..=100 {
        node.open();
        let (id, ()) = tokio::join!(subscribe(&mut client, n, "confirmed", false), async {
            for _ in 0..n % 7 {
                tokio::task::yield_now().await;
            }
            node.execute(Tx::new(n));
            node.complete();
        });
        let notifications = node.notifications(&mut client).await;
        assert_eq!(values(&notifications), [(id, json!({ "err": null }))], "transaction {n}");
    }
}
