//! getBalance, getAccountInfo, getMultipleAccounts, getMinimumBalanceForRentExemption,
//! getStakeMinimumDelegation.

use serde_json::{Value, json};

use testkit::sample_ledger::{DATA, PROGRAM, SOL, TOKEN, WALLET};
use testkit::solana_node::SolanaNode;

#[test]
fn a_balance_follows_its_commitment() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let mut balance = |params: Value| {
        let result = client.result("getBalance", params);
        (result["context"]["slot"].as_u64(), result["value"].as_u64())
    };
    let wallet = WALLET.to_string();
    assert_eq!(balance(json!([wallet])), (Some(100), Some(SOL)));
    assert_eq!(balance(json!([wallet, null])), (Some(100), Some(SOL)));
    for (commitment, slot, sol) in
        [("processed", 102, 3), ("confirmed", 101, 2), ("finalized", 100, 1)]
    {
        let config = json!({ "commitment": commitment });
        assert_eq!(balance(json!([wallet, config])), (Some(slot), Some(sol * SOL)), "{commitment}");
    }
    // As in Agave, an unknown commitment in a config is ignored.
    assert_eq!(balance(json!([wallet, { "commitment": "recent" }])), (Some(100), Some(SOL)));
    assert_eq!(balance(json!([PROGRAM.to_string()])), (Some(100), Some(0)));
}

#[test]
fn a_context_names_the_version_and_a_slot_to_come_is_refused() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let wallet = WALLET.to_string();
    let context = client.result("getBalance", json!([wallet]))["context"].take();
    assert!(
        context["apiVersion"].as_str().is_some_and(|version| version.starts_with("4.2")),
        "{context}"
    );
    assert_eq!(
        client.result("getBalance", json!([wallet, { "minContextSlot": 100 }]))["value"],
        json!(SOL)
    );
    let reply = client.call("getBalance", json!([wallet, { "minContextSlot": 101 }]));
    let message = "Minimum context slot has not been reached";
    assert_eq!(
        reply["error"],
        json!({ "code": -32016, "message": message, "data": { "contextSlot": 100 } })
    );
}

#[test]
fn an_account_has_all_its_fields() {
    let world = SolanaNode::new();
    let account = world.client().result("getAccountInfo", json!([DATA[0].to_string()]));
    assert_eq!(
        account["value"],
        json!({
            "data": "1An6UebxCZd", // the bytes 0 to 8 in base58, value only: the default encoding
            "executable": false,
            "lamports": 10_000_000,
            "owner": PROGRAM.to_string(),
            "rentEpoch": 0,
            "space": 9,
        })
    );
    let none = world.client().result("getAccountInfo", json!([PROGRAM.to_string()]));
    assert_eq!(none["value"], Value::Null);
}

#[test]
fn an_account_comes_in_every_encoding() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let mut data = |config: Value| {
        client.result("getAccountInfo", json!([DATA[0].to_string(), config]))["value"]["data"]
            .take()
    };
    assert_eq!(data(json!({ "encoding": "binary" })), json!("1An6UebxCZd"));
    assert_eq!(data(json!({ "encoding": "base58" })), json!(["1An6UebxCZd", "base58"]));
    assert_eq!(data(json!({ "encoding": "base64" })), json!(["AAECAwQFBgcI", "base64"]));
    assert_eq!(
        data(json!({ "encoding": "base64+zstd" })),
        json!(["KLUv/QBYSQAAAAECAwQFBgcI", "base64+zstd"])
    );
    assert_eq!(data(json!({ "encoding": "jsonParsed" })), json!(["AAECAwQFBgcI", "base64"]));
    let slice = |offset, length| json!({ "encoding": "base64", "dataSlice": { "offset": offset, "length": length } });
    assert_eq!(data(slice(3, 3)), json!(["AwQF", "base64"]));
    assert_eq!(data(slice(6, 100)), json!(["BgcI", "base64"]));
    assert_eq!(data(slice(100, 1)), json!(["", "base64"]));
}

#[test]
fn base58_is_for_little_data() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let large = DATA[1].to_string();
    let message =
        "Encoded binary (base 58) data should be less than 128 bytes, please use Base64 encoding.";
    let refusal = (-32600, message.to_owned());
    assert_eq!(client.error("getAccountInfo", json!([large])), refusal);
    assert_eq!(client.error("getAccountInfo", json!([large, { "encoding": "base58" }])), refusal);
    assert_eq!(
        client.error("getMultipleAccounts", json!([[large], { "encoding": "binary" }])),
        refusal
    );
    let slice = json!({ "dataSlice": { "offset": 1, "length": 4 } });
    assert_eq!(
        client.result("getAccountInfo", json!([large, slice]))["value"]["data"],
        json!("2VfUX")
    );
}

#[test]
fn a_large_account_comes_whole() {
    let world = SolanaNode::new();
    let config = json!({ "encoding": "base64" });
    let account = world.client().result("getAccountInfo", json!([DATA[2].to_string(), config]));
    assert_eq!(account["value"]["data"][0].as_str().map(str::len), Some(133_336));
    world.wait_pool(|pool| pool.class(cpu_pool::Class::Medium).completed == 1);
}

#[test]
fn a_token_account_is_parsed_with_its_mints_decimals() {
    let world = SolanaNode::new();
    let config = json!({ "encoding": "jsonParsed" });
    let account = world.client().result("getAccountInfo", json!([TOKEN.to_string(), config]));
    let data = &account["value"]["data"];
    assert_eq!((&data["program"], &data["space"]), (&json!("spl-token"), &json!(165)));
    let info = &data["parsed"]["info"];
    assert_eq!(info["owner"], json!(WALLET.to_string()));
    assert_eq!(
        info["tokenAmount"],
        json!({ "amount": "700", "decimals": 2, "uiAmount": 7.0, "uiAmountString": "7" })
    );
    assert_eq!(info["delegatedAmount"]["uiAmountString"], json!("0.5"));
}

#[test]
fn several_accounts_come_in_the_order_requested() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let pubkeys = [WALLET, PROGRAM, DATA[0], WALLET].map(|pubkey| pubkey.to_string());
    let result =
        client.result("getMultipleAccounts", json!([pubkeys, { "commitment": "processed" }]));
    assert_eq!(result["context"]["slot"], json!(102));
    let value = result["value"].as_array().expect("a list");
    assert_eq!(value.len(), 4);
    assert_eq!(value[0]["lamports"], json!(3 * SOL));
    assert_eq!(value[1], Value::Null);
    assert_eq!(value[2]["data"], json!(["AAECAwQFBgcI", "base64"]));
    assert_eq!(value[3], value[0]);
    assert_eq!(client.result("getMultipleAccounts", json!([[]]))["value"], json!([]));
    let many = vec![pubkeys[0].clone(); 101];
    assert_eq!(
        client.error("getMultipleAccounts", json!([many])),
        (-32602, "Too many inputs provided; max 100".into())
    );
}

#[test]
fn an_account_has_a_minimum_balance() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let mut minimum =
        |bytes: u64| client.result("getMinimumBalanceForRentExemption", json!([bytes]));
    assert_eq!(minimum(0), json!(890_880));
    assert_eq!(minimum(165), json!(2_039_280));
    assert_eq!(minimum(10 * 1024 * 1024), json!(72_981_780_480_u64));
    assert_eq!(
        client.error("getMinimumBalanceForRentExemption", json!([10 * 1024 * 1024 + 1])),
        (-32600, "Invalid request".into())
    );
}

#[test]
fn the_minimum_stake_is_a_lamport_until_the_feature_is_on() {
    let world = SolanaNode::new();
    let result = world.client().result("getStakeMinimumDelegation", json!([]));
    assert_eq!((&result["value"], &result["context"]["slot"]), (&json!(1), &json!(100)));
}
