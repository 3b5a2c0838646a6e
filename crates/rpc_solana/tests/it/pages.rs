//! getProgramAccountsV2, getTokenAccountsByOwnerV2, getTokenAccountsByMint.

use serde_json::{Value, json};

use testkit::sample_ledger::{
    DATA, MINT, NEW_MINT, NEW_TOKEN, OTHER_TOKEN, OTHER_WALLET, PROGRAM, TOKEN, WALLET,
};
use testkit::solana_node::SolanaNode;

fn pubkeys(list: &Value) -> Vec<String> {
    let pubkey = |keyed: &Value| keyed["pubkey"].as_str().map(str::to_owned);
    list.as_array().expect("a list").iter().filter_map(pubkey).collect()
}

/// Returns every page of a list. `name` is the field with the accounts.
fn pages(world: &SolanaNode, method: &str, params: &Value, name: &str) -> Vec<Vec<String>> {
    let mut client = world.client();
    let mut pages = Vec::new();
    let mut params = params.clone();
    loop {
        let result = client.result(method, params.clone());
        pages.push(pubkeys(&result[name]));
        if result["paginationKey"].is_null() {
            return pages;
        }
        let config = params.as_array_mut().and_then(|params| params.last_mut()).expect("a config");
        config["paginationKey"] = result["paginationKey"].clone();
    }
}

fn sort_pages(pages: Vec<Vec<String>>) -> Vec<String> {
    let mut all = pages.concat();
    all.sort();
    all
}

#[test]
fn a_programs_accounts_come_in_pages() {
    let world = SolanaNode::new();
    let of = |limit: usize| {
        let config = json!({ "limit": limit, "dataSlice": { "offset": 0, "length": 2 } });
        pages(&world, "getProgramAccountsV2", &json!([PROGRAM.to_string(), config]), "accounts")
    };
    let mut all = DATA.map(|pubkey| pubkey.to_string());
    all.sort();
    for (limit, lens) in [(1, vec![1, 1, 1]), (2, vec![2, 1]), (3, vec![3]), (10_000, vec![3])] {
        let pages = of(limit);
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), lens);
        assert_eq!(sort_pages(pages), all);
    }
    let mut client = world.client();
    let none = client.result("getProgramAccountsV2", json!([WALLET.to_string()]));
    assert_eq!(none, json!({ "accounts": [], "paginationKey": null }));
    let config =
        json!({ "withContext": true, "commitment": "confirmed", "filters": [{ "dataSize": 9 }] });
    let result = client.result("getProgramAccountsV2", json!([PROGRAM.to_string(), config]));
    assert_eq!(result["context"]["slot"], json!(101));
    assert_eq!(result["value"]["paginationKey"], json!(null));
    assert_eq!(pubkeys(&result["value"]["accounts"]), [DATA[0].to_string()]);
    assert_eq!(
        result["value"]["accounts"][0]["account"]["data"],
        json!(["AAECAwQFBgcI", "base64"]),
        "the default encoding has no limit"
    );
}

#[test]
fn a_page_may_have_changed_accounts_only() {
    let world = SolanaNode::new();
    let system = solana_sdk_ids::system_program::id().to_string();
    let since = |slot: u64, commitment: &str| {
        let config = json!({ "changedSinceSlot": slot, "commitment": commitment });
        sort_pages(pages(&world, "getProgramAccountsV2", &json!([system, config]), "accounts"))
    };
    let wallet = WALLET.to_string();
    let other = OTHER_WALLET.to_string();
    assert_eq!(since(100, "finalized"), [wallet.clone(), other.clone()]);
    assert_eq!(since(100, "processed"), [wallet.clone(), other]);
    assert_eq!(since(101, "finalized"), [""; 0]);
    assert_eq!(since(101, "confirmed"), [wallet.as_str()]);
    assert_eq!(since(102, "confirmed"), [""; 0]);
    assert_eq!(since(102, "processed"), [wallet]);
}

#[test]
fn a_wallets_token_accounts_come_in_pages() {
    let world = SolanaNode::new();
    let of = |owner: String, filter: Value| {
        let params = json!([owner, filter, { "limit": 1, "encoding": "jsonParsed" }]);
        sort_pages(pages(&world, "getTokenAccountsByOwnerV2", &params, "value"))
    };
    let new = json!({ "programId": spl_token_2022_interface::id().to_string() });
    let old = json!({ "programId": spl_token_interface::id().to_string() });
    let mint = json!({ "mint": MINT.to_string() });
    assert_eq!(of(WALLET.to_string(), new.clone()), [NEW_TOKEN.to_string()]);
    assert_eq!(of(WALLET.to_string(), old), [TOKEN.to_string()]);
    assert_eq!(of(OTHER_WALLET.to_string(), mint.clone()), [OTHER_TOKEN.to_string()]);
    assert_eq!(of(OTHER_WALLET.to_string(), new), [""; 0]);
    let params = json!([WALLET.to_string(), mint, { "withContext": true }]);
    let result = world.client().result("getTokenAccountsByOwnerV2", params);
    assert_eq!(result["context"]["slot"], json!(100));
    assert_eq!(result["value"]["paginationKey"], json!(null));
    assert_eq!(pubkeys(&result["value"]["accounts"]), [TOKEN.to_string()]);
}

#[test]
fn a_mints_token_accounts_come_in_pages() {
    let world = SolanaNode::new();
    let of = |mint: String, limit: usize| {
        let params = json!([mint, { "limit": limit }]);
        pages(&world, "getTokenAccountsByMint", &params, "value")
    };
    let holders = [TOKEN.to_string(), OTHER_TOKEN.to_string()];
    assert_eq!(of(MINT.to_string(), 1).len(), 2);
    assert_eq!(sort_pages(of(MINT.to_string(), 1)), holders);
    assert_eq!(sort_pages(of(MINT.to_string(), 2)), holders);
    assert_eq!(sort_pages(of(NEW_MINT.to_string(), 2)), [NEW_TOKEN.to_string()]);
    let refusal = |mint: String| world.client().error("getTokenAccountsByMint", json!([mint]));
    let not_there = (-32602, "Invalid param: could not find mint".to_owned());
    assert_eq!(refusal(PROGRAM.to_string()), not_there);
    let no_mint = (-32602, "Invalid param: Token mint could not be unpacked".to_owned());
    assert_eq!(refusal(TOKEN.to_string()), no_mint);
}

#[test]
fn a_page_of_a_mint_is_empty_for_another_token_program() {
    let world = SolanaNode::new();
    let of = |program: &str| {
        let params = json!([MINT.to_string(), { "programId": program }]);
        pages(&world, "getTokenAccountsByMint", &params, "value").concat().len()
    };
    assert_eq!(of("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"), 2);
    assert_eq!(of("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"), 0);
}

#[test]
fn an_unknown_page_member_is_refused_by_name() {
    let world = SolanaNode::new();
    let owned = json!({ "mint": MINT.to_string() });
    let calls = [
        ("getProgramAccountsV2", json!([PROGRAM.to_string()]), "programId"),
        ("getTokenAccountsByOwnerV2", json!([WALLET.to_string(), owned]), "filters"),
        ("getTokenAccountsByMint", json!([MINT.to_string()]), "filters"),
    ];
    for (method, params, of_another) in calls {
        let refusal = |name: &str, value: Value| {
            let mut params = params.clone();
            params.as_array_mut().expect("a list").push(json!({ (name): value }));
            let (code, message) = world.client().error(method, params);
            assert_eq!(code, -32602, "{method}: {message}");
            message
        };
        let message = refusal("cursor", json!(1));
        assert!(message.contains("unknown field `cursor`"), "{method}: {message}");
        let value = if of_another == "filters" { json!([]) } else { json!("x") };
        let message = refusal(of_another, value);
        assert!(message.contains(&format!("has {of_another}")), "{method}: {message}");
    }
}

#[test]
fn invalid_page_parameters_are_refused() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let mut refusal = |config: Value| {
        let (code, message) =
            client.error("getProgramAccountsV2", json!([PROGRAM.to_string(), config]));
        assert_eq!(code, -32602);
        message
    };
    for limit in [0, 10_001] {
        let message = format!("Invalid param: limit {limit} is not from 1 to 10000");
        assert_eq!(refusal(json!({ "limit": limit })), message);
    }
    for key in ["", "0", &WALLET.to_string(), "11"] {
        let message = "Invalid param: paginationKey is not one of ours";
        assert_eq!(refusal(json!({ "paginationKey": key })), message);
    }
    assert_eq!(
        refusal(json!({ "paginationKey": "111111111111" })),
        "Invalid param: paginationKey: this page cursor was made by another node, or by an earlier run of this one; \
         start with the first page"
    );
    let config = json!({ "minContextSlot": 101 });
    let params = json!([PROGRAM.to_string(), config]);
    assert_eq!(client.error("getProgramAccountsV2", params).0, -32016);
}
