//! Accounts as they are: one, several, a program's, the richest, the supply.

use serde_json::json;
use solana_signer::Signer;

use super::stage::{SYSTEM, error, number, ok, stage, value};

const TOKEN: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

#[test]
fn method_getBalance() {
    let alice = stage().world.alice.pubkey().to_string();
    assert_eq!(value("getBalance", json!([alice])), 10_000_000_000u64);
    assert_eq!(value("getBalance", json!([solana_pubkey::Pubkey::new_unique().to_string()])), 0);
}

#[test]
fn method_getAccountInfo() {
    let alices = stage().alices.to_string();
    let parsed = value("getAccountInfo", json!([alices, {"encoding": "jsonParsed"}]));
    assert_eq!((&parsed["owner"], &parsed["space"]), (&json!(TOKEN), &json!(165)));
    assert_eq!(parsed["data"]["program"], "spl-token");
    assert_eq!(parsed["data"]["parsed"]["info"]["tokenAmount"]["amount"], "700");
    let sliced = value(
        "getAccountInfo",
        json!([alices, {"encoding": "base58", "dataSlice": {"offset": 64, "length": 8}}]),
    );
    assert_eq!(sliced["data"], json!([bs58::encode(700u64.to_le_bytes()).into_string(), "base58"]));
    assert_eq!(sliced["space"], 165, "the slice does not change the size");
    assert_eq!(
        value("getAccountInfo", json!([solana_pubkey::Pubkey::new_unique().to_string()])),
        json!(null)
    );
    assert_eq!(error("getAccountInfo", json!([alices, {"encoding": "base58"}]))["code"], -32600);
}

#[test]
fn method_getMultipleAccounts() {
    let stage = stage();
    let missing = solana_pubkey::Pubkey::new_unique();
    let addresses = json!([
        stage.world.alice.pubkey().to_string(),
        missing.to_string(),
        stage.mint.to_string()
    ]);
    let accounts = value("getMultipleAccounts", json!([addresses]));
    assert_eq!(
        (&accounts[0]["owner"], &accounts[1], &accounts[2]["owner"]),
        (&json!(SYSTEM), &json!(null), &json!(TOKEN))
    );
    assert_eq!(accounts[2]["data"][1], "base64", "the default of this method");
}

#[test]
fn method_getProgramAccounts() {
    let stage = stage();
    let of_mint = json!({"memcmp": {"offset": 0, "bytes": stage.mint.to_string()}});
    let holders = ok(
        "getProgramAccounts",
        json!([TOKEN, {"encoding": "base64", "filters": [of_mint, {"dataSize": 165}]}]),
    );
    let mut found: Vec<_> =
        holders.as_array().expect("a list").iter().map(|entry| entry["pubkey"].clone()).collect();
    let mut expected = [json!(stage.alices.to_string()), json!(stage.bobs.to_string())];
    found.sort_unstable_by_key(ToString::to_string);
    expected.sort_unstable_by_key(ToString::to_string);
    assert_eq!(found, expected);
    let counted = value(
        "getProgramAccounts",
        json!([TOKEN, {"withContext": true, "encoding": "base64", "filters": [of_mint]}]),
    );
    assert_eq!(counted.as_array().map(Vec::len), Some(2));
}

#[test]
fn method_getProgramAccountsV2() {
    let stage = stage();
    let of_mint = json!({"memcmp": {"offset": 0, "bytes": stage.mint.to_string()}});
    let mut config = json!({"limit": 1, "filters": [of_mint, {"dataSize": 165}]});
    let first = ok("getProgramAccountsV2", json!([TOKEN, config]));
    config["paginationKey"] = first["paginationKey"].clone();
    let second = ok("getProgramAccountsV2", json!([TOKEN, config]));
    assert_eq!(second["paginationKey"], json!(null));
    let mut found = [&first, &second].map(|page| page["accounts"][0]["pubkey"].to_string());
    let mut expected =
        [&stage.alices, &stage.bobs].map(|pubkey| json!(pubkey.to_string()).to_string());
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn method_getLargestAccounts() {
    let largest = value("getLargestAccounts", json!([]));
    let lamports: Vec<_> = largest
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| number(&entry["lamports"]))
        .collect();
    assert!(!lamports.is_empty() && lamports.len() <= 20);
    assert!(lamports.is_sorted_by(|richer, poorer| richer >= poorer), "{lamports:?}");
}

#[test]
fn method_getSupply() {
    let supply = value("getSupply", json!([]));
    let [total, circulating, rest] =
        ["total", "circulating", "nonCirculating"].map(|part| number(&supply[part]));
    assert_eq!(total, circulating + rest);
    assert!(supply["nonCirculatingAccounts"].is_array());
    let short = value("getSupply", json!([{"excludeNonCirculatingAccountsList": true}]));
    assert_eq!(short["nonCirculatingAccounts"], json!([]));
}
