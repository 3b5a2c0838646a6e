//! Blocks and the transactions in them.

use serde_json::{Value, json};

use super::stage::{error, number, ok, stage, value};

#[test]
fn method_getBlock() {
    let stage = stage();
    let config = |details| json!({"transactionDetails": details, "maxSupportedTransactionVersion": 0, "rewards": false});
    let full = ok("getBlock", json!([stage.slot, config("full")]));
    let mine = full["transactions"].as_array().expect("transactions").iter();
    let mine: Vec<_> = mine
        .filter(|each| each["transaction"]["signatures"][0] == stage.transfer.to_string())
        .collect();
    assert_eq!(mine.len(), 1);
    assert_eq!(mine[0]["meta"]["err"], json!(null));
    assert_eq!(full["parentSlot"], stage.slot - 1);
    let before = ok("getBlock", json!([stage.slot - 1, config("none")]));
    assert_eq!(full["previousBlockhash"], before["blockhash"]);
    let listed = ok("getBlock", json!([stage.slot, config("signatures")]));
    assert!(
        listed["signatures"]
            .as_array()
            .expect("signatures")
            .contains(&json!(stage.transfer.to_string()))
    );
    assert_eq!(error("getBlock", json!([1u64 << 40]))["code"], -32004);
}

#[test]
fn method_getBlocks() {
    let slot = stage().slot;
    assert_eq!(ok("getBlocks", json!([slot - 1, slot + 1])), json!([slot - 1, slot, slot + 1]));
}

#[test]
fn method_getBlocksWithLimit() {
    let slot = stage().slot;
    assert_eq!(ok("getBlocksWithLimit", json!([slot, 2])), json!([slot, slot + 1]));
}

#[test]
fn method_getBlockTime() {
    let block = ok("getBlock", json!([stage().slot, {"maxSupportedTransactionVersion": 0}]));
    let time = ok("getBlockTime", json!([stage().slot]));
    assert!(number(&time) > 1_600_000_000);
    assert_eq!(time, block["blockTime"]);
}

#[test]
fn method_getFirstAvailableBlock() {
    assert!(number(&ok("getFirstAvailableBlock", json!([]))) <= stage().slot);
}

#[test]
fn method_minimumLedgerSlot() {
    assert!(number(&ok("minimumLedgerSlot", json!([]))) <= stage().slot);
}

#[test]
fn method_getTransaction() {
    let signature = stage().transfer.to_string();
    let read = |encoding| {
        ok(
            "getTransaction",
            json!([signature, {"encoding": encoding, "maxSupportedTransactionVersion": 0}]),
        )
    };
    let parsed = read("jsonParsed");
    assert_eq!(parsed["slot"], stage().slot);
    let instruction = &parsed["transaction"]["message"]["instructions"][0];
    assert_eq!(
        (&instruction["program"], &instruction["parsed"]["type"]),
        (&json!("spl-token"), &json!("transferChecked"))
    );
    assert_eq!(instruction["parsed"]["info"]["tokenAmount"]["uiAmountString"], "3");
    let amounts = |list: &Value| -> Vec<Value> {
        list.as_array()
            .expect("balances")
            .iter()
            .map(|entry| entry["uiTokenAmount"]["amount"].clone())
            .collect()
    };
    let mut before = amounts(&parsed["meta"]["preTokenBalances"]);
    let mut after = amounts(&parsed["meta"]["postTokenBalances"]);
    before.sort_unstable_by_key(ToString::to_string);
    after.sort_unstable_by_key(ToString::to_string);
    assert_eq!(
        (before, after),
        (vec![json!("0"), json!("1000")], vec![json!("300"), json!("700")])
    );
    assert_eq!(
        (&read("base64")["transaction"][1], &read("base64")["version"]),
        (&json!("base64"), &json!(0))
    );
    let unknown = solana_signature::Signature::from([7; 64]).to_string();
    assert_eq!(ok("getTransaction", json!([unknown])), json!(null));
    assert_eq!(error("getTransaction", json!([signature]))["code"], -32015);
}

#[test]
fn method_getSignaturesForAddress() {
    let listed = ok("getSignaturesForAddress", json!([stage().bobs.to_string()]));
    let listed = listed.as_array().expect("a list");
    assert_eq!(listed.len(), 2, "created, then credited: {listed:?}");
    assert_eq!(listed[0]["signature"], stage().transfer.to_string());
    assert_eq!(
        (&listed[0]["err"], &listed[0]["confirmationStatus"]),
        (&json!(null), &json!("finalized"))
    );
    let before = ok(
        "getSignaturesForAddress",
        json!([stage().bobs.to_string(), {"before": stage().transfer.to_string()}]),
    );
    assert_eq!(before, json!([listed[1]]));
    assert_eq!(
        error("getSignaturesForAddress", json!([stage().bobs.to_string(), {"limit": 1_001}]))["code"],
        -32602
    );
}

#[test]
fn method_getSignatureStatuses() {
    let unknown = solana_signature::Signature::from([7; 64]).to_string();
    let statuses = value(
        "getSignatureStatuses",
        json!([[stage().transfer.to_string(), unknown], {"searchTransactionHistory": true}]),
    );
    assert_eq!(
        statuses[0],
        json!({
            "slot": stage().slot,
            "confirmations": null,
            "status": {"Ok": null},
            "err": null,
            "confirmationStatus": "finalized",
        })
    );
    assert_eq!(statuses[1], json!(null));
}
