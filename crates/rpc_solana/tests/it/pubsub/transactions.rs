//! `transactionSubscribe` over WebSocket, in the form of the providers.

use rpc_solana::pubsub::Config;
use serde_json::{Value, json};
use solana_message::{VersionedMessage, v1};
use solana_transaction_error::TransactionError;

use super::node::{Node, Tx, key, signature};

#[tokio::test]
async fn transactions_are_sent_by_the_accounts_that_they_name() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let text = |n: u8| key(n).to_string();
    let filter = json!({
        "vote": false,
        "failed": false,
        "accountInclude": [text(1), text(2)],
        "accountRequired": [text(3)],
        "accountExclude": [text(4)],
    });
    let options = json!({
        "commitment": "confirmed",
        "transactionDetails": "full",
        "maxSupportedTransactionVersion": 0,
    });
    let id = client.subscribe("transaction", json!([filter, options])).await;
    let keys = |ns: &[u8]| ns.iter().map(|n| key(*n)).collect::<Vec<_>>();
    node.open();
    for (n, names) in [&[1, 3][..], &[1], &[3], &[2, 3, 4], &[2, 3]].into_iter().enumerate() {
        node.execute(Tx { keys: &keys(names), ..Tx::new(n as u8 + 1) });
    }
    let failed = Some(TransactionError::AccountNotFound);
    node.execute(Tx { keys: &keys(&[1, 3]), err: failed, ..Tx::new(6) });
    node.execute(Tx { keys: &keys(&[1, 3]), is_vote: true, ..Tx::new(7) });
    node.complete();
    let notifications = node.notifications(&mut client).await;
    let signatures: Vec<_> = notifications
        .iter()
        .map(|notification| notification["params"]["result"]["signature"].clone())
        .collect();
    assert_eq!(signatures, [json!(signature(1).to_string()), json!(signature(5).to_string())]);
    assert_eq!(notifications[0]["method"], "transactionNotification");
    assert_eq!(notifications[0]["params"]["subscription"], id);
    let result = &notifications[0]["params"]["result"];
    assert_eq!((&result["slot"], &result["transactionIndex"]), (&json!(1), &json!(0)));
    assert_eq!(result["transaction"]["transaction"][1], "base64");
    assert_eq!(result["transaction"]["meta"]["err"], json!(null));
    assert_eq!(client.call("transactionUnsubscribe", json!([id])).await, Ok(json!(true)));
}

#[tokio::test]
async fn processed_ones_are_sent_at_once_and_by_signature_too() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    let options = json!({ "commitment": "processed", "transactionDetails": "signatures" });
    let filter = json!({ "signature": signature(2).to_string() });
    client.subscribe("transaction", json!([filter, options])).await;
    client.subscribe("transaction", json!([{}, options])).await;
    node.open();
    node.execute(Tx::new(1));
    node.execute(Tx::new(2));
    let notifications = node.notifications(&mut client).await;
    let slots =
        notifications.iter().filter(|notification| notification["params"]["result"]["slot"] == 1);
    assert_eq!(slots.count(), 3, "before the block is complete");
    assert!(notifications[0]["params"]["result"].get("transaction").is_none());
    let err = client.call("transactionSubscribe", json!([{}])).await.expect_err("no version");
    assert_eq!(err["code"], -32602);
    let unknown = json!([{}, { "transactionDetails": "signatures", "detail": "full" }]);
    let err = client.call("transactionSubscribe", unknown).await.expect_err("no such option");
    let message = err["message"].as_str().expect("a message");
    assert!(message.contains("unknown field `detail`"), "{message}");
}

#[tokio::test]
async fn a_transaction_above_the_version_is_an_error_and_not_lost() {
    let mut node = Node::start(Config::default()).await;
    let mut client = node.connect().await;
    for commitment in ["processed", "confirmed"] {
        for details in ["full", "accounts"] {
            let options = json!({
                "commitment": commitment,
                "transactionDetails": details,
                "maxSupportedTransactionVersion": 0,
            });
            let id = client.subscribe("transaction", json!([{}, options])).await;
            let slot = node.open();
            node.execute(Tx {
                message: VersionedMessage::V1(v1::Message::default()),
                ..Tx::new(7)
            });
            node.execute(Tx::new(8));
            node.complete();
            let notifications = node.notifications(&mut client).await;
            let found = |n: u8| {
                let of = |it: &&Value| it["signature"] == json!(signature(n).to_string());
                let mut results = notifications.iter().map(|it| &it["params"]["result"]);
                results.find(of).cloned().expect("it is sent")
            };
            let expected = json!({
                "transaction": null,
                "signature": signature(7).to_string(),
                "slot": slot,
                "transactionIndex": 0,
                "err": { "UnsupportedTransactionVersion": 1 },
            });
            assert_eq!(found(7), expected, "{commitment} {details}");
            assert!(found(8)["transaction"].is_object(), "{commitment} {details}");
            assert_eq!(found(8).get("err"), None);
            assert_eq!(client.call("transactionUnsubscribe", json!([id])).await, Ok(json!(true)));
        }
    }
}

#[tokio::test]
async fn filter_addresses_count_for_their_connection() {
    let config = Config { tracked_addresses_per_connection_max: 50, ..Config::default() };
    let node = Node::start(config).await;
    let mut client = node.connect().await;
    let options = json!({ "commitment": "processed", "transactionDetails": "signatures" });
    let many: Vec<String> = (0..40).map(|n| key(n).to_string()).collect();
    for (nth, list) in
        ["accountInclude", "accountRequired", "accountExclude"].into_iter().enumerate()
    {
        let filter = json!({ (list): many });
        let id = client.subscribe("transaction", json!([filter, options])).await;
        assert!(node.pubsub.stats().tracked_addresses >= 40, "{list}");
        let more = json!({ (list): many[nth..], "vote": false });
        let refused = client.call("transactionSubscribe", json!([more, options])).await;
        let err = refused.expect_err("80 are too many");
        let setting = "pubsub.tracked_addresses_per_connection_max";
        assert!(
            err["message"].as_str().is_some_and(|text| text.contains(setting)),
            "{list}: {err}"
        );
        assert_eq!(client.call("transactionUnsubscribe", json!([id])).await, Ok(json!(true)));
        assert_eq!(node.pubsub.stats().tracked_addresses, 0, "{list}");
    }
    drop(client);
    node.wait_until_empty().await;
    assert!(node.reader.addresses().is_empty(), "nothing is left of them");
}
