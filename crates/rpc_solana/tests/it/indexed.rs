//! Lists of accounts when an index is off, or excludes a key.

use std::collections::HashSet;
use std::sync::Arc;

use ledger::{Address, KeyKind};
use query::{IndexConfig, IndexKeyFilter};
use rpc_solana::Config;
use serde_json::{Value, json};
use solana::key_kind;
use solana_pubkey::Pubkey;

use testkit::sample_ledger::{
    self, DELEGATE, MINT, NEW_MINT, NEW_TOKEN, OTHER_TOKEN, OTHER_WALLET, PROGRAM, TOKEN, WALLET,
};
use testkit::solana_node::SolanaNode;

const KINDS: [KeyKind; 4] =
    [key_kind::PROGRAM, key_kind::OWNER, key_kind::MINT, key_kind::DELEGATE];

type Request = (&'static str, Value);

fn token_program() -> Pubkey {
    spl_token_interface::id()
}

fn program_accounts(method: &'static str, program: Pubkey, filters: Value) -> Request {
    let config = json!({ "encoding": "base64", "filters": filters, "commitment": "processed" });
    (method, json!([program.to_string(), config]))
}

fn token_accounts(method: &'static str, wallet: Pubkey, filter: Value) -> Request {
    (method, json!([wallet.to_string(), filter, { "encoding": "base64" }]))
}

fn by_mint(method: &'static str) -> Request {
    (method, json!([MINT.to_string(), { "commitment": "confirmed" }]))
}

fn at(offset: usize, key: Pubkey) -> Value {
    json!({ "memcmp": { "offset": offset, "bytes": key.to_string() } })
}

fn program_filter() -> Value {
    json!({ "programId": token_program().to_string() })
}

fn mint_filter() -> Value {
    json!({ "mint": MINT.to_string() })
}

/// Returns a request of every method that reads an index, with every kind of key.
fn requests() -> Vec<Request> {
    let size = json!({ "dataSize": 165 });
    let is_some = json!({ "memcmp": { "offset": 72, "bytes": [1, 0, 0, 0] } });
    let mut requests = vec![
        by_mint("getTokenLargestAccounts"),
        by_mint("getTokenAccountsByMint"),
        ("getSupply", json!([])),
        ("getLargestAccounts", json!([{ "filter": "circulating" }])),
        ("getVoteAccounts", json!([])),
    ];
    for method in ["getProgramAccounts", "getProgramAccountsV2"] {
        requests.extend([
            program_accounts(method, PROGRAM, json!([])),
            program_accounts(method, PROGRAM, json!([{ "dataSize": 9 }])),
            program_accounts(method, token_program(), json!([])),
            program_accounts(method, token_program(), json!([at(32, WALLET), size])),
            program_accounts(method, token_program(), json!([at(0, MINT), size])),
            program_accounts(method, token_program(), json!([at(32, WALLET), at(0, MINT), size])),
            program_accounts(method, token_program(), json!([at(76, DELEGATE), is_some, size])),
        ]);
    }
    for filter in [program_filter(), mint_filter()] {
        requests.extend([
            token_accounts("getTokenAccountsByOwner", WALLET, filter.clone()),
            token_accounts("getTokenAccountsByOwner", OTHER_WALLET, filter.clone()),
            token_accounts("getTokenAccountsByOwnerV2", WALLET, filter.clone()),
            token_accounts("getTokenAccountsByDelegate", DELEGATE, filter.clone()),
            token_accounts("getTokenAccountsByDelegate", WALLET, filter),
        ]);
    }
    requests
}

/// Returns the response of a node to each request.
fn responses(indices: IndexConfig) -> Vec<(Request, Value)> {
    let world = SolanaNode::builder(sample_ledger::ledger(indices)).serve();
    let mut client = world.client();
    let respond = |request: Request| {
        let mut reply = client.call(request.0, request.1.clone());
        let member = if reply.get("error").is_some() { "error" } else { "result" };
        let response = json!({ member: reply[member].take() });
        (request, response)
    };
    requests().into_iter().map(respond).collect()
}

fn list(keys: &[Pubkey]) -> Arc<HashSet<Address>> {
    Arc::new(keys.iter().map(|key| Address::from(key.to_bytes())).collect())
}

/// Returns a configuration with these indices on, with these keys, and the others off.
fn only(kinds: &[KeyKind], keys: &IndexKeyFilter) -> IndexConfig {
    KINDS.iter().fold(IndexConfig::default(), |indices, kind| {
        let is_on = kinds.contains(kind);
        indices.with(*kind, if is_on { keys.clone() } else { IndexKeyFilter::Off })
    })
}

/// Returns the refusals of a node with the indices `kinds` for `keys`, as request and key. A request that is not
/// refused must have the same response as if everything was indexed.
fn refusals(kinds: &[KeyKind], keys: &IndexKeyFilter) -> Vec<(Request, String)> {
    let everything = responses(IndexConfig::default());
    let mut refusals = Vec::new();
    for ((request, response), (_, expected)) in
        responses(only(kinds, keys)).into_iter().zip(everything)
    {
        if response.get("error").is_none() {
            assert_eq!(response, expected, "{request:?}");
            continue;
        }
        assert_eq!(response["error"]["code"], json!(-32010), "{request:?}: {response}");
        let message = response["error"]["message"].as_str().expect("a message");
        let key = message.strip_suffix(
            " excluded from account secondary indexes; this RPC method unavailable for key",
        );
        refusals.push((request, key.expect("Agave's message").to_owned()));
    }
    refusals
}

#[test]
fn responses_are_the_same_whichever_index_is_off() {
    for (_, response) in responses(IndexConfig::default()) {
        assert!(response.get("error").is_none(), "{response}");
    }
    for on in 0..1 << KINDS.len() {
        let kinds: Vec<KeyKind> =
            (0..KINDS.len()).filter(|n| on >> n & 1 == 1).map(|n| KINDS[n]).collect();
        assert_eq!(refusals(&kinds, &IndexKeyFilter::All), []);
    }
}

#[test]
fn an_excluded_owner_is_refused_wherever_the_query_is_by_owner() {
    let owners = IndexKeyFilter::AllBut(list(&[WALLET]));
    let refused = refusals(&[key_kind::PROGRAM, key_kind::OWNER, key_kind::MINT], &owners);
    let names_wallet = |(method, params): &Request| {
        let params = params.to_string();
        match *method {
            "getTokenAccountsByOwner" | "getTokenAccountsByOwnerV2" => {
                params.starts_with(&format!("[\"{WALLET}\""))
            }
            _ => params.contains("\"offset\":32") && params.contains(&WALLET.to_string()),
        }
    };
    let expected: Vec<(Request, String)> =
        requests().into_iter().filter(names_wallet).map(|it| (it, WALLET.to_string())).collect();
    assert_eq!(refused, expected);
    assert_eq!(expected.len(), 8);
}

#[test]
fn an_excluded_mint_is_refused_where_agave_looks_it_up() {
    let mints = IndexKeyFilter::AllBut(list(&[MINT]));
    let refused = refusals(&[key_kind::PROGRAM, key_kind::OWNER, key_kind::MINT], &mints);
    let size = json!({ "dataSize": 165 });
    let mint = json!([at(0, MINT), size]);
    let expected = [
        by_mint("getTokenLargestAccounts"),
        by_mint("getTokenAccountsByMint"),
        program_accounts("getProgramAccounts", token_program(), mint.clone()),
        program_accounts("getProgramAccountsV2", token_program(), mint),
        token_accounts("getTokenAccountsByDelegate", DELEGATE, mint_filter()),
        token_accounts("getTokenAccountsByDelegate", WALLET, mint_filter()),
    ];
    assert_eq!(refused, expected.map(|request| (request, MINT.to_string())));
}

#[test]
fn an_excluded_program_is_refused_unless_another_index_answers() {
    let programs = IndexKeyFilter::AllBut(list(&[token_program()]));
    let excluded = |kinds: &[KeyKind]| -> Vec<Request> {
        let refused = refusals(kinds, &programs);
        assert!(refused.iter().all(|(_, key)| *key == token_program().to_string()));
        refused.into_iter().map(|(request, _)| request).collect()
    };
    let is_some = json!({ "memcmp": { "offset": 72, "bytes": [1, 0, 0, 0] } });
    let delegated = json!([at(76, DELEGATE), is_some, { "dataSize": 165 }]);
    let all_of = |method| program_accounts(method, token_program(), json!([]));
    let delegated_of = |method| program_accounts(method, token_program(), delegated.clone());
    let first = "getProgramAccounts";
    let second = "getProgramAccountsV2";
    assert_eq!(excluded(&KINDS), [all_of(first), all_of(second)]);
    assert_eq!(
        excluded(&[key_kind::PROGRAM, key_kind::OWNER, key_kind::MINT]),
        [
            all_of(first),
            delegated_of(first),
            all_of(second),
            delegated_of(second),
            token_accounts("getTokenAccountsByDelegate", DELEGATE, program_filter()),
            token_accounts("getTokenAccountsByDelegate", WALLET, program_filter()),
        ]
    );
    let alone = excluded(&[key_kind::PROGRAM]);
    assert_eq!(alone.len(), requests().len() - 3 - 4, "all requests for the token program");
}

#[test]
fn an_excluded_delegate_is_refused_by_its_own_index_alone() {
    let delegates = IndexKeyFilter::AllBut(list(&[DELEGATE]));
    let refused = refusals(&KINDS, &delegates);
    let by_delegate = |filter| token_accounts("getTokenAccountsByDelegate", DELEGATE, filter);
    let expected = [by_delegate(program_filter()), by_delegate(mint_filter())];
    assert_eq!(refused, expected.map(|request| (request, DELEGATE.to_string())));
}

#[test]
fn keys_outside_an_include_list_are_refused() {
    let keys = IndexKeyFilter::Only(list(&[WALLET, MINT, token_program(), DELEGATE]));
    let refused = refusals(&KINDS, &keys);
    let keys: Vec<&str> = refused.iter().map(|(_, key)| key.as_str()).collect();
    let program = PROGRAM.to_string();
    let other = OTHER_WALLET.to_string();
    let wallet = WALLET.to_string();
    assert_eq!(keys, [&program; 4].into_iter().chain([&other; 2]).collect::<Vec<_>>());
    assert!(!keys.contains(&wallet.as_str()), "one list for all, as in Agave");
}

#[test]
fn reading_all_accounts_is_heavy() {
    let heavy = |indices: IndexConfig| {
        let config = Config { inline_accounts_max: 3, ..Config::default() };
        let mut pool = cpu_pool::Config::default();
        pool.medium.tasks_max = 0;
        let world =
            SolanaNode::builder(sample_ledger::ledger(indices)).config(config).pool(pool).serve();
        let (method, params) = token_accounts("getTokenAccountsByOwner", WALLET, program_filter());
        let reply = world.client().call(method, params);
        reply["error"]["code"] == json!(-32005)
    };
    assert!(!heavy(IndexConfig::default()));
    assert!(!heavy(only(&[key_kind::OWNER], &IndexKeyFilter::All)));
    assert!(
        heavy(only(&[key_kind::PROGRAM], &IndexKeyFilter::All)),
        "four accounts have this program"
    );
    assert!(heavy(only(&[], &IndexKeyFilter::All)));
}

#[test]
fn pages_without_an_index_follow_each_other() {
    let world = SolanaNode::builder(sample_ledger::ledger(only(&[], &IndexKeyFilter::All))).serve();
    let mut client = world.client();
    let mut found = Vec::new();
    let mut key = Value::Null;
    loop {
        let config = json!({ "limit": 1, "paginationKey": key });
        let page = client.result("getTokenAccountsByMint", json!([MINT.to_string(), config]));
        let accounts = page["value"].as_array().expect("a list");
        assert!(accounts.len() <= 1);
        found.extend(accounts.iter().map(|it| it["pubkey"].as_str().map(str::to_owned)));
        key = page["paginationKey"].clone();
        if key.is_null() {
            break;
        }
    }
    found.sort();
    assert_eq!(found, [TOKEN, OTHER_TOKEN].map(|key| Some(key.to_string())));
    let config = json!({ "limit": 1 });
    let page = client.result("getTokenAccountsByMint", json!([NEW_MINT.to_string(), config]));
    assert_eq!(page["value"][0]["pubkey"], json!(NEW_TOKEN.to_string()));
}
