//! getProgramAccounts.

use serde_json::{Value, json};

use testkit::sample_ledger::{
    DATA, DELEGATE, MINT, NEW_TOKEN, ODD_TOKEN, OTHER_TOKEN, OTHER_WALLET, PROGRAM, TOKEN, WALLET,
};
use testkit::solana_node::SolanaNode;

fn pubkeys(list: &Value) -> Vec<String> {
    let pubkey = |keyed: &Value| keyed["pubkey"].as_str().map(str::to_owned);
    list.as_array().expect("a list").iter().filter_map(pubkey).collect()
}

fn found(world: &SolanaNode, program: &str, config: Value) -> Vec<String> {
    pubkeys(&world.client().result("getProgramAccounts", json!([program, config])))
}

#[test]
fn a_programs_accounts_come_in_order_with_or_without_context() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let program = PROGRAM.to_string();
    let all: Vec<String> = DATA.iter().map(ToString::to_string).collect();
    let config = json!({ "encoding": "base64", "dataSlice": { "offset": 0, "length": 2 } });
    let list = client.result("getProgramAccounts", json!([program, config]));
    assert_eq!(pubkeys(&list), all);
    assert_eq!(list[0]["account"]["data"], json!(["AAE=", "base64"]));
    assert_eq!(list[2]["account"]["space"], json!(100_000));
    let config = json!({ "encoding": "base64", "withContext": true, "commitment": "confirmed" });
    let result = client.result("getProgramAccounts", json!([program, config]));
    assert_eq!(result["context"]["slot"], json!(101));
    assert_eq!(pubkeys(&result["value"]), all);
    assert_eq!(client.result("getProgramAccounts", json!([WALLET.to_string()])), json!([]));
    assert_eq!(
        client.error("getProgramAccounts", json!([program])).0,
        -32600,
        "too long for base58"
    );
    let config = json!({ "minContextSlot": 101 });
    assert_eq!(client.error("getProgramAccounts", json!([program, config])).0, -32016);
}

#[test]
fn filters_must_all_let_an_account_pass() {
    let world = SolanaNode::new();
    let program = PROGRAM.to_string();
    let with = |filters: Value| {
        found(&world, &program, json!({ "encoding": "base64", "filters": filters }))
    };
    let small = DATA[0].to_string();
    let large = DATA[2].to_string();
    assert_eq!(with(json!([{ "dataSize": 9 }])), [small.as_str()]);
    assert_eq!(with(json!([{ "dataSize": 8 }])), [""; 0]);
    assert_eq!(with(json!([{ "memcmp": { "offset": 255, "bytes": [255, 0] } }])), [large.as_str()]);
    let same = json!([{ "memcmp": { "offset": 1, "bytes": "AQI=", "encoding": "base64" } }, { "dataSize": 9 }]);
    assert_eq!(with(same), [small.as_str()]);
    assert_eq!(with(json!([{ "dataSize": 9 }, { "dataSize": 129 }])), [""; 0]);
    assert_eq!(with(json!(["tokenAccountState"])), [""; 0]);
}

#[test]
fn token_accounts_are_found_by_owner_and_by_mint() {
    let world = SolanaNode::new();
    let program = spl_token_interface::id().to_string();
    let with = |filters: Value| {
        found(&world, &program, json!({ "encoding": "base64", "filters": filters }))
    };
    let owner = |owner: String| json!({ "memcmp": { "offset": 32, "bytes": owner } });
    let mint = json!({ "memcmp": { "offset": 0, "bytes": MINT.to_string() } });
    let size = json!({ "dataSize": 165 });
    let token = TOKEN.to_string();
    let other = OTHER_TOKEN.to_string();
    assert_eq!(with(json!([owner(WALLET.to_string()), size])), [token.as_str()]);
    assert_eq!(with(json!([owner(OTHER_WALLET.to_string()), mint, size])), [other.as_str()]);
    assert_eq!(with(json!([mint, "tokenAccountState"])), [token.as_str(), other.as_str()]);
    let size = json!({ "dataSize": 165 });
    let is_some = json!({ "memcmp": { "offset": 72, "bytes": [1, 0, 0, 0] } });
    let delegate = |of: String| json!([size, is_some, { "memcmp": { "offset": 76, "bytes": of } }]);
    assert_eq!(with(delegate(DELEGATE.to_string())), [token.as_str()]);
    assert_eq!(with(delegate(WALLET.to_string())), [""; 0]);
    let both = json!([owner(OTHER_WALLET.to_string()), mint, is_some, size]);
    assert_eq!(with(both), [""; 0]);
    // Without the size the index cannot be used; the result is the same.
    assert_eq!(with(json!([owner(WALLET.to_string())])), [token.as_str()]);
    let short = json!({ "filters": [{ "memcmp": { "offset": 32, "bytes": [1] } }, size] });
    assert_eq!(
        world.client().error("getProgramAccounts", json!([program, short])),
        (-32602, "Incorrect byte length 1 for SPL token owner filter, expected 32".into())
    );
}

#[test]
fn parsed_tokens_leave_out_what_cannot_be_parsed() {
    let world = SolanaNode::new();
    let program = spl_token_interface::id().to_string();
    let all = [MINT, TOKEN, OTHER_TOKEN, ODD_TOKEN].map(|pubkey| pubkey.to_string());
    assert_eq!(found(&world, &program, json!({ "encoding": "base64" })), all);
    assert_eq!(found(&world, &program, json!({ "encoding": "jsonParsed" })), all[..3]);
    let new = spl_token_2022_interface::id().to_string();
    let config = json!({ "encoding": "jsonParsed", "filters": ["tokenAccountState"] });
    let list = world.client().result("getProgramAccounts", json!([new, config]));
    assert_eq!(pubkeys(&list), [NEW_TOKEN.to_string()]);
    assert_eq!(list[0]["account"]["data"]["parsed"]["info"]["tokenAmount"]["amount"], json!("5"));
}
