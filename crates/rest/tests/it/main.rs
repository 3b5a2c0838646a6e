//! REST over real loopback sockets, on the ledger made by hand that `rpc` is tested with.
//!
//! What needs blocks and transactions is tested on a real node: `clients/rest`.

#[expect(dead_code, reason = "shared with the tests of rpc, which use more of it")]
#[path = "../../../rpc/tests/it/wire.rs"]
mod wire;
#[expect(dead_code, reason = "shared with the tests of rpc, which use more of it")]
#[path = "../../../rpc/tests/it/world.rs"]
mod world;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::wire::{Client, Response};
use crate::world::{
    CONFIRMED, DATA, DATA_BYTES, FINALIZED, MINT, OTHER_TOKEN, PROCESSED, PROGRAM, SOL, TOKEN,
    WALLET, World,
};

fn world() -> World {
    let reader = world::ledger(query::Indices::default());
    let web = Arc::new(rest::Rest::new());
    let (config, pool) = (rpc::Config::default(), pool::Config::default());
    let world = World::on_with(reader, config, pool, Some(Arc::clone(&web) as Arc<dyn rpc::Web>));
    world.node.metrics.add(web);
    world
}

fn get(client: &mut Client, path: &str, headers: &str) -> Response {
    client.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n{headers}\r\n"));
    client.receive()
}

fn post(client: &mut Client, path: &str, body: &Value) -> Response {
    let body = body.to_string();
    let length = body.len();
    client.send(format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    ));
    client.receive()
}

/// An answer that must be there, as JSON.
fn good(client: &mut Client, path: &str) -> Value {
    let response = get(client, path, "");
    assert_eq!(response.status, 200, "{path}: {}", response.body);
    response.json()
}

#[test]
fn an_account_is_told_with_slot_and_commitment_of_its_state() {
    let world = world();
    let mut client = world.client();
    for (commitment, slot, sol) in
        [("finalized", FINALIZED, 1), ("confirmed", CONFIRMED, 2), ("processed", PROCESSED, 3)]
    {
        let path = format!("/v1/accounts/{WALLET}?commitment={commitment}");
        let response = get(&mut client, &path, "");
        assert_eq!(response.status, 200);
        assert_eq!(response.json()["lamports"], sol * SOL);
        assert_eq!(response.header("hydrant-slot"), Some(slot.to_string().as_str()));
        assert_eq!(response.header("hydrant-commitment"), Some(commitment));
        assert_eq!(response.header("cache-control"), Some("no-cache"));
    }
}

#[test]
fn an_answer_is_what_the_method_answers() {
    let world = world();
    let mut client = world.client();
    let base64 = json!({ "encoding": "base64" });
    let paged = json!({ "encoding": "base64", "withContext": true });
    let mint = MINT.to_string();
    let cases = [
        (format!("/v1/accounts/{TOKEN}"), "getAccountInfo", json!([TOKEN.to_string(), base64])),
        (
            format!("/v1/accounts?addresses={TOKEN},{MINT}"),
            "getMultipleAccounts",
            json!([[TOKEN.to_string(), mint], base64]),
        ),
        ("/v1/supply".to_owned(), "getSupply", json!([])),
        (format!("/v1/mints/{MINT}/supply"), "getTokenSupply", json!([mint])),
        (format!("/v1/mints/{MINT}/holders"), "getTokenAccountsByMint", json!([mint, paged])),
        (
            format!("/v1/owners/{WALLET}/tokens?mint={MINT}"),
            "getTokenAccountsByOwnerV2",
            json!([WALLET.to_string(), { "mint": mint }, paged]),
        ),
        (
            format!("/v1/programs/{PROGRAM}/accounts"),
            "getProgramAccountsV2",
            json!([PROGRAM.to_string(), paged]),
        ),
    ];
    for (path, method, params) in cases {
        let told = good(&mut client, &path);
        assert_eq!(told, client.result(method, params)["value"], "{path}");
    }
    let ledger = good(&mut client, "/v1/ledger");
    assert_eq!(ledger["processedSlot"], PROCESSED);
    assert_eq!(ledger["finalizedSlot"], FINALIZED);
    let genesis = client.result("getGenesisHash", json!([]));
    assert_eq!(good(&mut client, "/v1/node")["genesisHash"], genesis);
}

#[test]
fn lists_may_be_posted() {
    let world = world();
    let mut client = world.client();
    let several = json!({ "addresses": [TOKEN.to_string(), WALLET.to_string()] });
    let response = post(&mut client, "/v1/accounts", &several);
    assert_eq!(
        response.json(),
        good(&mut client, &format!("/v1/accounts?addresses={TOKEN},{WALLET}"))
    );
    let filters = json!({ "filters": [{ "dataSize": DATA_BYTES[1] }] });
    let path = format!("/v1/programs/{PROGRAM}/accounts");
    let found = post(&mut client, &path, &filters).json();
    assert_eq!(found["accounts"][0]["pubkey"], DATA[1].to_string());
    assert_eq!(found, good(&mut client, &format!("{path}?dataSize={}", DATA_BYTES[1])));
}

#[test]
fn an_etag_is_of_the_value_and_is_answered_with_304() {
    let world = world();
    let mut client = world.client();
    let at = |commitment| format!("/v1/accounts/{TOKEN}?commitment={commitment}");
    let first = get(&mut client, &at("finalized"), "");
    let etag = first.header("etag").expect("an ETag").to_owned();
    // The account is the same at a later slot, and so is its tag.
    let later = get(&mut client, &at("processed"), &format!("if-none-match: \"x\", {etag}\r\n"));
    assert_eq!((later.status, later.body.as_str()), (304, ""));
    assert_eq!(later.header("etag"), Some(etag.as_str()));
    assert_eq!(later.header("hydrant-slot"), Some(PROCESSED.to_string().as_str()));
    let path = format!("/v1/accounts/{WALLET}?commitment=");
    let one = get(&mut client, &format!("{path}finalized"), "");
    let other = get(&mut client, &format!("{path}processed"), "");
    assert_ne!(one.header("etag"), other.header("etag"), "it has changed");
}

#[test]
fn account_data_comes_as_it_is_if_asked_for() {
    let world = world();
    let mut client = world.client();
    for (address, bytes) in DATA.iter().zip(DATA_BYTES) {
        let path = format!("/v1/accounts/{address}");
        let response = get(&mut client, &path, "accept: application/octet-stream\r\n");
        assert_eq!(response.header("content-type"), Some("application/octet-stream"));
        let wanted: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
        assert_eq!(response.bytes, wanted, "{bytes} bytes");
        assert_eq!(response.header("hydrant-owner"), Some(PROGRAM.to_string().as_str()));
        assert_eq!(response.header("hydrant-lamports"), Some("10000000"));
        assert!(response.header("etag").is_some());
    }
    let path = format!("/v1/accounts/{}?dataOffset=2&dataLength=3", DATA[0]);
    let response = get(&mut client, &path, "accept: application/octet-stream\r\n");
    assert_eq!(response.bytes, [2, 3, 4]);
}

#[test]
fn pages_follow_each_other() {
    let world = world();
    let mut client = world.client();
    let mut found = Vec::new();
    let mut cursor = String::new();
    for _ in 0..DATA.len() {
        let path = format!("/v1/programs/{PROGRAM}/accounts?limit=1{cursor}");
        let page = good(&mut client, &path);
        found.extend(
            page["accounts"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|it| it["pubkey"].as_str().expect("an address").to_owned()),
        );
        match page["paginationKey"].as_str() {
            Some(key) => cursor = format!("&cursor={key}"),
            None => break,
        }
    }
    found.sort_unstable();
    let mut wanted = DATA.map(|address| address.to_string());
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    let holders = good(&mut client, &format!("/v1/mints/{MINT}/holders"));
    let holders: Vec<_> =
        holders["accounts"].as_array().expect("a list").iter().map(|it| &it["pubkey"]).collect();
    assert_eq!(holders.len(), 2);
    assert!([TOKEN, OTHER_TOKEN].iter().all(|it| holders.contains(&&json!(it.to_string()))));
}

#[test]
fn what_is_wrong_is_refused_in_one_shape() {
    let world = world();
    let mut client = world.client();
    let account = format!("/v1/accounts/{WALLET}");
    let nobody = solana_pubkey::Pubkey::new_from_array([200; 32]);
    let cases = [
        ("/v1/nothing".to_owned(), 404, -32601, "no_such_path"),
        (format!("{account}/"), 404, -32601, "no_such_path"),
        ("/v1/accounts/abc".to_owned(), 400, -32602, "invalid_params"),
        ("/v1/accounts/%ff".to_owned(), 400, -32602, "invalid_params"),
        ("/v1/accounts".to_owned(), 400, -32602, "invalid_params"),
        (format!("/v1/accounts/{nobody}"), 404, -32044, "not_found"),
        (format!("{account}?commitment=soon"), 400, -32602, "invalid_params"),
        (
            format!("{account}?commitment=processed&commitment=processed"),
            400,
            -32602,
            "invalid_params",
        ),
        (format!("{account}?colour=red"), 400, -32602, "invalid_params"),
        (format!("{account}?dataOffset=1"), 400, -32602, "invalid_params"),
        (format!("{account}?minContextSlot=1000"), 409, -32016, "min_context_slot_not_reached"),
        (format!("{account}?minContextSlot=-1"), 400, -32602, "invalid_params"),
        (format!("/v1/programs/{PROGRAM}/accounts?limit=0"), 400, -32602, "invalid_params"),
        (format!("/v1/programs/{PROGRAM}/accounts?cursor=abc"), 400, -32602, "invalid_params"),
        (
            format!("/v1/owners/{WALLET}/tokens?mint={MINT}&program={MINT}"),
            400,
            -32602,
            "invalid_params",
        ),
        ("/v1/blocks/5".to_owned(), 404, -32007, "slot_skipped"),
        ("/v1/blocks/5000".to_owned(), 404, -32004, "block_not_available"),
        ("/v1/blocks/x".to_owned(), 400, -32602, "invalid_params"),
        ("/v1/transactions/abc".to_owned(), 400, -32602, "invalid_params"),
        (format!("/v1/transactions/{}", "1".repeat(64)), 404, -32044, "not_found"),
        (format!("/v1/transactions/{}/status?waitMs=1", "1".repeat(64)), 404, -32044, "not_found"),
    ];
    for (path, status, code, name) in cases {
        let response = get(&mut client, &path, "");
        assert_eq!(response.status, status, "{path}: {}", response.body);
        let err = &response.json()["error"];
        assert_eq!((&err["code"], &err["name"]), (&json!(code), &json!(name)), "{path}");
        assert!(err["message"].as_str().is_some_and(|it| !it.is_empty()), "{path}");
        assert_eq!(response.header("cache-control"), Some("no-store"), "{path}");
    }
    let posts = [
        ("/v1/accounts", json!({}), 400),
        ("/v1/accounts", json!({ "addresses": "x" }), 400),
        ("/v1/accounts", json!({ "addresses": [1] }), 400),
        ("/v1/accounts", json!([]), 400),
        ("/v1/transactions", json!({ "transaction": "AAAA" }), 400),
        ("/v1/transactions/simulate", json!({ "transaction": "****" }), 400),
        ("/v1/supply", json!({}), 405),
        ("/v1/openapi.json", json!({}), 405),
    ];
    for (path, body, status) in posts {
        let response = post(&mut client, path, &body);
        assert_eq!(response.status, status, "{path} {body}: {}", response.body);
        assert!(response.json()["error"]["name"].is_string());
        assert_eq!(response.header("allow"), (status == 405).then_some("GET, HEAD"));
    }
}

#[test]
fn a_full_pool_is_told_with_retry_after() {
    let mut config = pool::Config { threads: 1, ..pool::Config::default() };
    config.medium.tasks_max = 0;
    let reader = world::ledger(query::Indices::default());
    let web = Arc::new(rest::Rest::new());
    let world = World::on_with(reader, rpc::Config::default(), config, Some(web));
    let occupied = world.occupy_pool();
    let response = get(&mut world.client(), "/v1/supply", "");
    assert_eq!(response.status, 429, "{}", response.body);
    assert_eq!(response.header("retry-after"), Some("1"));
    assert_eq!(response.json()["error"]["name"], "too_busy");
    drop(occupied);
}

#[test]
fn the_description_the_page_and_the_figures_are_served() {
    let world = world();
    let mut client = world.client();
    let openapi = good(&mut client, "/v1/openapi.json");
    assert_eq!(openapi["openapi"], "3.1.0");
    let page = get(&mut client, "/v1/", "");
    assert!(page.body.contains("/v1/accounts/{address}"));
    assert!(!page.body.contains("src="), "nothing from elsewhere");
    let etag = page.header("etag").expect("an ETag").to_owned();
    assert_eq!(get(&mut client, "/v1/", &format!("if-none-match: {etag}\r\n")).status, 304);
    let metrics = get(&mut client, "/metrics", "").body;
    assert!(metrics.contains("hydrant_slot{commitment=\"processed\"} 102\n"), "{metrics}");
    // What is no route is one name; it does not matter which path it was.
    for line in [
        "hydrant_rest_requests_total{route=\"other\",status=\"2xx\"} 2\n",
        "hydrant_rest_requests_total{route=\"other\",status=\"3xx\"} 1\n",
        "hydrant_rest_request_duration_seconds_count{route=\"other\"} 3\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
    let path = format!("/v1/accounts/{WALLET}");
    let id = "x-request-id: mine-1\r\n";
    assert_eq!(get(&mut client, &path, id).header("x-request-id"), Some("mine-1"));
    assert!(get(&mut client, "/v1/accounts/x", "").header("x-request-id").is_some());
    let metrics = get(&mut client, "/metrics", "").body;
    for line in [
        "hydrant_rest_requests_total{route=\"GET /v1/accounts/:address\",status=\"2xx\"} 1\n",
        "hydrant_rest_requests_total{route=\"GET /v1/accounts/:address\",status=\"4xx\"} 1\n",
        "hydrant_requests_total{method=\"getAccountInfo\",class=\"inline\"} ",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
}
