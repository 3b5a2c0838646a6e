//! The order of replies, first notifications and statuses.

use std::sync::Arc;
use std::time::Duration;

use chain_solana::{ExecutedTransaction, LedgerEvent};
use serde_json::{Value, json};
use testkit::clock::now;

use super::node::{Client, Node, Tx, key, signature};

/// Longer than any test, so a hold never expires.
const ENDLESS_HOLD_MS: u64 = 3_600_000;

async fn subscribe_signature(client: &mut Client, n: u8) -> u64 {
    let params = json!([signature(n).to_string(), { "commitment": "processed" }]);
    client.subscribe("signature", params).await
}

#[tokio::test]
async fn the_first_notification_comes_a_moment_after_the_reply() {
    let hold = Duration::from_millis(50);
    let mut node = Node::with_hold(50).await;
    let mut client = node.connect().await;
    node.block(Tx::new(1));
    let start = now();
    let id = subscribe_signature(&mut client, 1).await;
    let notification = client.notification().await;
    assert_eq!(notification["params"]["subscription"], id, "a signature that was there");
    assert!(start.elapsed() >= hold);

    let start = now();
    let id = client.subscribe("slot", json!([])).await;
    let slot = node.open();
    let notification = client.notification().await;
    assert_eq!(notification["params"]["subscription"], id, "an event after the reply");
    assert_eq!(notification["params"]["result"]["slot"], slot);
    assert!(start.elapsed() >= hold);
}

#[tokio::test]
async fn a_subscription_that_is_ended_on_hold_gets_nothing() {
    let mut node = Node::with_hold(ENDLESS_HOLD_MS).await;
    let mut client = node.connect().await;
    node.open();
    let live = subscribe_signature(&mut client, 1).await;
    let slots = client.subscribe("slot", json!([])).await;
    node.execute(Tx::new(1));
    node.complete();
    node.open();
    node.wait_until(|stats| stats.queue_messages == 1).await;
    // The slot waits. The signature was published, and its client catches up when the hold is over.
    for (kind, id) in [("signature", live), ("slot", slots)] {
        let ended = client.call(&format!("{kind}Unsubscribe"), json!([id])).await;
        assert_eq!(ended, Ok(json!(true)), "{kind}");
    }
    let again = client.call("signatureUnsubscribe", json!([live])).await;
    assert_eq!(again.expect_err("it has ended")["code"], -32602);
    drop(client);
    node.wait_until_empty().await;
}

#[tokio::test]
async fn a_closed_connection_leaves_nothing_that_is_held() {
    let mut node = Node::with_hold(ENDLESS_HOLD_MS).await;
    let mut client = node.connect().await;
    node.open();
    subscribe_signature(&mut client, 1).await;
    client.subscribe("slot", json!([])).await;
    node.execute(Tx::new(1));
    node.complete();
    node.open();
    node.wait_until(|stats| stats.queue_messages == 1).await;
    drop(client);
    node.wait_until_empty().await;
}

#[tokio::test]
async fn a_held_subscription_does_not_delay_others() {
    let mut node = Node::with_hold(200).await;
    let mut client = node.connect().await;
    let start = now();
    let slots = client.subscribe("slot", json!([])).await;
    node.open();
    assert_eq!(client.notification().await["params"]["subscription"], slots);
    assert!(start.elapsed() >= Duration::from_millis(200));
    // The signature is held from here on; the slots are not.
    let held = subscribe_signature(&mut client, 1).await;
    node.execute(Tx::new(1));
    node.complete();
    let next = node.open();
    let first = client.notification().await;
    assert_eq!(first["params"]["subscription"], slots);
    assert_eq!(first["params"]["result"]["slot"], next);
    assert_eq!(client.notification().await["params"]["subscription"], held);
}

/// Executes a transaction, checks that it has no status, and sends its event.
async fn status_when_notified(node: &mut Node, client: &mut Client, n: u8) -> (bool, Value) {
    let keys = [key(n)];
    let executed: Arc<ExecutedTransaction> =
        node.execute_silently(Tx { keys: &keys, logs: &["a line"], ..Tx::new(n) });
    assert!(!executed.has_status());
    node.send_event(&LedgerEvent::Executed([Arc::clone(&executed)].into()));
    node.complete();
    let notification = client.notification().await;
    (executed.has_status(), notification)
}

#[tokio::test]
async fn a_transaction_has_a_status_before_its_notification_is_sent() {
    let address = |n: u8| key(n).to_string();
    let kinds: [(&str, Value); 6] = [
        ("signature", json!([signature(1).to_string(), { "commitment": "processed" }])),
        (
            "signature",
            json!([signature(2).to_string(), { "commitment": "finalized",
                "enableReceivedNotification": true }]),
        ),
        ("signature", json!([signature(3).to_string(), { "commitment": "confirmed" }])),
        ("logs", json!([{ "mentions": [address(4)] }, { "commitment": "processed" }])),
        (
            "block",
            json!([{ "mentionsAccountOrProgram": address(5) }, { "commitment": "confirmed" }]),
        ),
        (
            "transaction",
            json!([{ "accountInclude": [address(6)] }, { "commitment": "processed",
                "maxSupportedTransactionVersion": 0 }]),
        ),
    ];
    for (n, (kind, params)) in (1..).zip(kinds) {
        let mut node = Node::start(Default::default()).await;
        let mut client = node.connect().await;
        client.subscribe(kind, params.clone()).await;
        node.open();
        let (has_status, notification) = status_when_notified(&mut node, &mut client, n).await;
        assert!(has_status, "{kind} {params}: {notification}");
    }
}

#[tokio::test]
async fn a_set_is_notified_about_a_transaction_with_a_status() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let options = json!({ "facet": "mentions", "commitment": "processed" });
    let reply = client.call("addressesSubscribe", json!([[key(1).to_string()], options])).await;
    reply.expect("it is right");
    node.open();
    let (has_status, notification) = status_when_notified(&mut node, &mut client, 1).await;
    assert!(has_status, "{notification}");
}

#[tokio::test]
async fn a_transaction_without_listener_remains_hidden() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    let params = json!([signature(1).to_string(), { "commitment": "finalized" }]);
    client.subscribe("signature", params).await;
    client.subscribe("logs", json!([{ "mentions": [key(9).to_string()] }])).await;
    node.open();
    let keys = [key(1)];
    let executed = node.execute_silently(Tx { keys: &keys, ..Tx::new(1) });
    node.send_event(&LedgerEvent::Executed([Arc::clone(&executed)].into()));
    node.complete();
    assert!(node.notifications(&mut client).await.is_empty());
    assert!(!executed.has_status(), "only its ledger shows it");
    node.finalize();
    assert_eq!(node.notifications(&mut client).await.len(), 1);
    assert!(executed.has_status());
}
