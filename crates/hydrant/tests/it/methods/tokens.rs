//! Token balances, supplies and holders.

use serde_json::json;
use solana_signer::Signer;

use super::stage::{error, ok, stage, value};

#[test]
fn method_getTokenAccountBalance() {
    let balance = value("getTokenAccountBalance", json!([stage().bobs.to_string()]));
    assert_eq!(
        balance,
        json!({"amount": "300", "decimals": 2, "uiAmount": 3.0, "uiAmountString": "3"})
    );
    assert_eq!(error("getTokenAccountBalance", json!([stage().mint.to_string()]))["code"], -32602);
}

#[test]
fn method_getTokenSupply() {
    let supply = value("getTokenSupply", json!([stage().mint.to_string()]));
    assert_eq!(
        supply,
        json!({"amount": "1000", "decimals": 2, "uiAmount": 10.0, "uiAmountString": "10"})
    );
}

#[test]
fn method_getTokenLargestAccounts() {
    let largest = value("getTokenLargestAccounts", json!([stage().mint.to_string()]));
    let named: Vec<_> = largest
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| (&entry["address"], &entry["amount"]))
        .collect();
    let alices = json!(stage().alices.to_string());
    let bobs = json!(stage().bobs.to_string());
    assert_eq!(named, [(&alices, &json!("700")), (&bobs, &json!("300"))]);
}

#[test]
fn method_getTokenAccountsByOwner() {
    let owner = stage().world.bob.pubkey().to_string();
    let owned = value(
        "getTokenAccountsByOwner",
        json!([owner, {"mint": stage().mint.to_string()}, {"encoding": "jsonParsed"}]),
    );
    assert_eq!(owned.as_array().map(Vec::len), Some(1));
    assert_eq!(owned[0]["pubkey"], stage().bobs.to_string());
    assert_eq!(owned[0]["account"]["data"]["parsed"]["info"]["tokenAmount"]["amount"], "300");
    let by_program = json!({"programId": spl_token_interface::ID.to_string()});
    let owned =
        value("getTokenAccountsByOwner", json!([owner, by_program, {"encoding": "base64"}]));
    assert_eq!(owned[0]["account"]["data"][1], "base64");
}

#[test]
fn method_getTokenAccountsByDelegate() {
    let delegate = stage().world.bob.pubkey().to_string();
    let spendable = value(
        "getTokenAccountsByDelegate",
        json!([delegate, {"mint": stage().mint.to_string()}, {"encoding": "jsonParsed"}]),
    );
    assert_eq!(spendable.as_array().map(Vec::len), Some(1));
    assert_eq!(spendable[0]["pubkey"], stage().alices.to_string());
    assert_eq!(
        spendable[0]["account"]["data"]["parsed"]["info"]["delegatedAmount"]["amount"],
        "200"
    );
}

#[test]
fn method_getTokenAccountsByOwnerV2() {
    let owner = stage().world.bob.pubkey().to_string();
    let mint = json!({"mint": stage().mint.to_string()});
    let owned = ok("getTokenAccountsByOwnerV2", json!([owner, mint, {"limit": 10}]));
    assert_eq!(owned["value"].as_array().map(Vec::len), Some(1));
    assert_eq!(owned["value"][0]["pubkey"], stage().bobs.to_string());
    assert_eq!(owned["paginationKey"], json!(null));
}

#[test]
fn method_getTokenAccountsByMint() {
    let mint = stage().mint.to_string();
    let first = ok("getTokenAccountsByMint", json!([mint, {"limit": 1}]));
    assert_eq!(first["value"].as_array().map(Vec::len), Some(1));
    let key = &first["paginationKey"];
    let second = ok("getTokenAccountsByMint", json!([mint, {"limit": 1, "paginationKey": key}]));
    assert_eq!(second["value"].as_array().map(Vec::len), Some(1));
    assert_ne!(first["value"][0]["pubkey"], second["value"][0]["pubkey"]);
    let none_since = json!([mint, {"changedSinceSlot": u64::MAX}]);
    assert_eq!(ok("getTokenAccountsByMint", none_since)["value"], json!([]));
}
