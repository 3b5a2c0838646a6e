//! A ledger that jumps over blocks: subscribers get the differences between the two states, and no unknown block.

use serde_json::{Value, json};

use super::node::{Node, key};

fn slot_and_lamports(notification: &Value) -> (u64, u64) {
    let result = &notification["params"]["result"];
    let value = &result["value"];
    let account = if value["account"].is_null() { value } else { &value["account"] };
    let number = |value: &Value| value.as_u64().expect("a number");
    (number(&result["context"]["slot"]), number(&account["lamports"]))
}

#[tokio::test]
async fn subscribers_get_each_account_that_differs_once_and_no_unknown_block() {
    let mut node = Node::start(Default::default()).await;
    let mut client = node.connect().await;
    for n in 1..=4 {
        node.write(n, u64::from(n) * 10);
    }
    for commitment in ["processed", "confirmed", "finalized"] {
        let options = json!({ "commitment": commitment });
        for n in 1..=4 {
            client.subscribe("account", json!([key(n).to_string(), options])).await;
        }
        client.subscribe("program", json!([key(200).to_string(), options])).await;
    }
    for commitment in ["confirmed", "finalized"] {
        client.subscribe("block", json!(["all", { "commitment": commitment }])).await;
    }
    client.subscribe("root", json!([])).await;
    node.notifications(&mut client).await;
    // Blocks that were not final are final first.
    let before = node.pending();
    node.jump(60, &[(1, Some(11)), (2, None), (5, Some(50))]);
    let notifications = node.notifications(&mut client).await;
    let of = |method: &str| {
        let all = notifications.iter().filter(|it| it["method"] == method).cloned();
        all.collect::<Vec<Value>>()
    };
    let at_60 = |method: &str| {
        let mut all: Vec<u64> = of(method)
            .iter()
            .map(slot_and_lamports)
            .filter(|(slot, _)| *slot == 60)
            .map(|(_, lamports)| lamports)
            .collect();
        all.sort_unstable();
        all
    };
    // At each commitment: the closed account is empty, and a program's subscribers do not get it.
    assert_eq!(at_60("accountNotification"), [0, 0, 0, 11, 11, 11]);
    assert_eq!(at_60("programNotification"), [11, 11, 11, 50, 50, 50]);
    let roots: Vec<u64> =
        of("rootNotification").iter().filter_map(|it| it["params"]["result"].as_u64()).collect();
    assert_eq!(roots.last(), Some(&60));
    assert_eq!(roots.len(), before + 1);
    let blocks: Vec<Value> = of("blockNotification");
    let is_jump = |it: &Value| it["params"]["result"]["value"]["slot"] == 60;
    assert!(!blocks.iter().any(is_jump), "its transactions are not known");
    // The next block is an ordinary one.
    let slot = node.write(3, 33);
    assert_eq!(slot, 61);
    let notifications = node.notifications(&mut client).await;
    let blocks: Vec<_> = notifications
        .iter()
        .filter(|it| it["method"] == "blockNotification")
        .map(|it| it["params"]["result"]["value"]["slot"].as_u64())
        .collect();
    assert_eq!(blocks, [Some(61)]);
}
