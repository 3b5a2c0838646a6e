//! getTokenAccountBalance, getTokenSupply, getTokenLargestAccounts, getTokenAccountsByOwner,
//! getTokenAccountsByDelegate.

use serde_json::{Value, json};

use testkit::sample_ledger::{
    DELEGATE, MINT, NEW_MINT, NEW_TOKEN, ODD_TOKEN, OTHER_TOKEN, OTHER_WALLET, TOKEN, WALLET,
};
use testkit::solana_node::SolanaNode;

#[test]
fn a_balance_and_a_supply_are_amounts_with_decimals() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let amount = |amount: &str, ui: f64, text: &str| json!({ "amount": amount, "decimals": 2, "uiAmount": ui, "uiAmountString": text });
    let balance = client.result("getTokenAccountBalance", json!([TOKEN.to_string()]));
    assert_eq!(balance["value"], amount("700", 7.0, "7"));
    let supply =
        client.result("getTokenSupply", json!([MINT.to_string(), { "commitment": "processed" }]));
    assert_eq!(supply["value"], amount("1000", 10.0, "10"));
    assert_eq!(supply["context"]["slot"], json!(102));
}

#[test]
fn what_is_no_token_account_or_mint_is_refused() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let missing = DELEGATE.to_string();
    let mut refusals = |method: &str, pubkey: String| {
        let (code, message) = client.error(method, json!([pubkey]));
        assert_eq!(code, -32602);
        message
    };
    assert_eq!(
        refusals("getTokenAccountBalance", missing.clone()),
        "Invalid param: could not find account"
    );
    for wrong in [WALLET, MINT, ODD_TOKEN] {
        let message = refusals("getTokenAccountBalance", wrong.to_string());
        assert_eq!(message, "Invalid param: not a Token account", "{wrong}");
    }
    assert_eq!(
        refusals("getTokenSupply", missing.clone()),
        "Invalid param: could not find account"
    );
    assert_eq!(refusals("getTokenSupply", WALLET.to_string()), "Invalid param: not a Token mint");
    assert_eq!(
        refusals("getTokenSupply", TOKEN.to_string()),
        "Invalid param: mint could not be unpacked"
    );
    assert_eq!(refusals("getTokenLargestAccounts", missing), "Invalid param: could not find mint");
    assert_eq!(
        refusals("getTokenLargestAccounts", WALLET.to_string()),
        "Invalid param: Token mint could not be unpacked"
    );
}

#[test]
fn the_largest_holders_come_first() {
    let world = SolanaNode::new();
    let result = world.client().result("getTokenLargestAccounts", json!([MINT.to_string()]));
    assert_eq!(
        result["value"],
        json!([
            { "address": TOKEN.to_string(), "amount": "700", "decimals": 2, "uiAmount": 7.0, "uiAmountString": "7" },
            { "address": OTHER_TOKEN.to_string(), "amount": "300", "decimals": 2, "uiAmount": 3.0, "uiAmountString": "3" },
        ])
    );
}

fn keys(world: &SolanaNode, method: &str, params: Value) -> Vec<String> {
    let result = world.client().result(method, params);
    let pubkey = |keyed: &Value| keyed["pubkey"].as_str().map(str::to_owned);
    result["value"].as_array().expect("a list").iter().filter_map(pubkey).collect()
}

#[test]
fn a_wallets_accounts_are_found_by_mint_or_program() {
    let world = SolanaNode::new();
    let by_owner = |owner: String, filter: Value| {
        keys(
            &world,
            "getTokenAccountsByOwner",
            json!([owner, filter, { "encoding": "jsonParsed" }]),
        )
    };
    let old = spl_token_interface::id().to_string();
    let new = spl_token_2022_interface::id().to_string();
    assert_eq!(by_owner(WALLET.to_string(), json!({ "programId": old })), [TOKEN.to_string()]);
    assert_eq!(by_owner(WALLET.to_string(), json!({ "programId": new })), [NEW_TOKEN.to_string()]);
    assert_eq!(
        by_owner(WALLET.to_string(), json!({ "mint": MINT.to_string() })),
        [TOKEN.to_string()]
    );
    assert_eq!(
        by_owner(WALLET.to_string(), json!({ "mint": NEW_MINT.to_string() })),
        [NEW_TOKEN.to_string()]
    );
    assert_eq!(
        by_owner(OTHER_WALLET.to_string(), json!({ "mint": NEW_MINT.to_string() })),
        [""; 0]
    );
}

#[test]
fn a_delegates_accounts_are_found() {
    let world = SolanaNode::new();
    let by_delegate = |delegate: String, filter: Value| {
        keys(
            &world,
            "getTokenAccountsByDelegate",
            json!([delegate, filter, { "encoding": "base64" }]),
        )
    };
    let old = spl_token_interface::id().to_string();
    assert_eq!(by_delegate(DELEGATE.to_string(), json!({ "programId": old })), [TOKEN.to_string()]);
    assert_eq!(
        by_delegate(DELEGATE.to_string(), json!({ "mint": MINT.to_string() })),
        [TOKEN.to_string()]
    );
    assert_eq!(by_delegate(DELEGATE.to_string(), json!({ "mint": NEW_MINT.to_string() })), [""; 0]);
    assert_eq!(by_delegate(WALLET.to_string(), json!({ "programId": old })), [""; 0]);
}

#[test]
fn a_filter_must_name_a_token_program_or_a_mint() {
    let world = SolanaNode::new();
    let mut client = world.client();
    for method in ["getTokenAccountsByOwner", "getTokenAccountsByDelegate"] {
        let mut refusal = |filter: Value| {
            let (code, message) = client.error(method, json!([WALLET.to_string(), filter]));
            assert_eq!(code, -32602);
            message
        };
        let program = json!({ "programId": WALLET.to_string() });
        assert_eq!(refusal(program), "Invalid param: unrecognized Token program id");
        let mint = json!({ "mint": DELEGATE.to_string() });
        assert_eq!(refusal(mint), "Invalid param: could not find mint");
        let mint = json!({ "mint": TOKEN.to_string() });
        assert_eq!(refusal(mint), "Invalid param: Token mint could not be unpacked");
    }
}

#[test]
fn the_default_encoding_is_too_small_for_token_accounts() {
    let world = SolanaNode::new();
    let old = json!({ "programId": spl_token_interface::id().to_string() });
    let (code, message) =
        world.client().error("getTokenAccountsByOwner", json!([WALLET.to_string(), old]));
    assert_eq!(code, -32600);
    assert!(message.starts_with("Encoded binary (base 58) data"), "{message}");
}
