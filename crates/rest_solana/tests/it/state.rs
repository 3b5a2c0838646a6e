//! Accounts, tokens and the ledger: routes return the results of the methods.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ledger::Commitment;
use query::{Ledger, LedgerConfig};
use rest::Rest;
use rest_solana::SolanaRest;
use serde_json::json;
use solana::Account;

use crate::{Node, NodeConfig, get, get_json, post};
use testkit::sample_ledger::{
    CONFIRMED, DATA, DATA_BYTES, FINALIZED, MINT, PROCESSED, PROGRAM, SOL, TOKEN, WALLET, bank,
    block,
};

#[test]
fn an_account_comes_with_slot_and_commitment_of_its_state() {
    let node = Node::new();
    let mut client = node.client();
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
fn a_response_is_the_methods_result() {
    let node = Node::new();
    let mut client = node.client();
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
        let value = get_json(&mut client, &path);
        assert_eq!(value, client.result(method, params)["value"], "{path}");
    }
    let ledger = get_json(&mut client, "/v1/ledger");
    assert_eq!(ledger["processedSlot"], PROCESSED);
    assert_eq!(ledger["finalizedSlot"], FINALIZED);
    let genesis = client.result("getGenesisHash", json!([]));
    assert_eq!(get_json(&mut client, "/v1/node")["genesisHash"], genesis);
}

/// A ledger with a complete and finalized block 100.
fn short_ledger() -> (Ledger<Account, chain_solana::BlockInfo>, chain_solana::Reader) {
    Ledger::new(LedgerConfig::new(100), block(100), bank(100))
}

/// Publishes the next block as processed and confirmed, and the one before it as finalized, in one.
fn publish_next_block(ledger: &mut Ledger<Account, chain_solana::BlockInfo>, slot: u64) {
    ledger.open(block(slot), block(slot - 1), bank(slot)).expect("open");
    ledger.complete(block(slot), bank(slot)).expect("complete");
    ledger.confirm(block(slot)).expect("it is complete");
    if slot > 101 {
        ledger.finalize(block(slot - 1)).expect("finalize");
    }
    ledger.publish();
}

/// A clock that advances the ledger: after each read of the time, as at each call, there is one more block.
struct AdvancingClock(Mutex<(Ledger<Account, chain_solana::BlockInfo>, u64)>, jsonrpc::SystemClock);

impl cpu_pool::Clock for AdvancingClock {
    fn now(&self) -> Duration {
        let mut state = self.0.lock().expect("not poisoned");
        let (ledger, slot) = &mut *state;
        *slot += 1;
        publish_next_block(ledger, *slot);
        self.1.now()
    }
}

#[test]
fn each_response_has_the_newest_verified_slot_and_its_level() {
    let node = Node::new();
    let mut client = node.client();
    let verified = CONFIRMED.to_string();
    for path in ["/v1/ledger", "/v1/nothing", &format!("/v1/accounts/{WALLET}")] {
        let response = get(&mut client, path, "");
        assert_eq!(response.header("hydrant-verified-slot"), Some(&*verified), "{path}");
        assert_eq!(response.header("hydrant-verified-level"), Some("computed"), "{path}");
    }
    let ledger = get(&mut client, "/v1/ledger", "").json();
    let verification = &ledger["verification"];
    assert_eq!(verification["verifiedSlot"], CONFIRMED, "{ledger}");
    assert_eq!(verification["requiredLevel"], "computed", "{ledger}");
}

#[test]
fn the_ledger_is_read_at_one_version_though_it_advances_between_the_calls() {
    let (mut ledger, reader) = short_ledger();
    publish_next_block(&mut ledger, 101);
    let clock = Arc::new(AdvancingClock(Mutex::new((ledger, 101)), jsonrpc::SystemClock::new()));
    let config = NodeConfig {
        rpc: rpc_solana::Config::default(),
        pool: cpu_pool::Config::default(),
        cache_bytes_max: 0,
    };
    let node = Node::with_clock(Rest::new(SolanaRest::default()), reader, config, clock);
    let mut client = node.client();
    let mut last = 0;
    for n in 0..30 {
        let commitment = ["processed", "confirmed", "finalized"][n % 3];
        let response = get(&mut client, &format!("/v1/ledger?commitment={commitment}"), "");
        let ledger = response.json();
        let slot = |name: &str| ledger[name].as_u64().expect("a slot");
        let epoch = |name: &str| ledger["epochInfo"][name].as_u64().expect("a number");
        let at = slot(&format!("{commitment}Slot"));
        assert_eq!(response.header("hydrant-slot"), Some(at.to_string().as_str()), "{ledger}");
        assert_eq!(epoch("absoluteSlot"), at, "{ledger}");
        assert_eq!(slot("processedSlot"), slot("confirmedSlot"), "{ledger}");
        assert_eq!(slot("finalizedSlot") + 1, slot("confirmedSlot"), "{ledger}");
        let valid = ledger["latestBlockhash"]["lastValidBlockHeight"].as_u64();
        assert_eq!(valid, Some(epoch("blockHeight") + 150), "{ledger}");
        assert!(at > last, "the ledger went on");
        last = at;
    }
}

#[test]
fn a_pinned_node_reads_the_version_at_its_creation() {
    let (mut ledger, reader) = short_ledger();
    let node = Node::with_config(reader, rpc_solana::Config::default());
    let still = node.world.server.pinned();
    publish_next_block(&mut ledger, 101);
    let slot =
        |node: &rpc_solana::SolanaServer| node.api.reader.view(Commitment::Processed).block().slot;
    assert_eq!((slot(&still), slot(&node.world.server)), (100, 101));
    assert_eq!(slot(&node.world.server.pinned()), 101);
}

#[test]
fn lists_may_be_posted() {
    let node = Node::new();
    let mut client = node.client();
    let several = json!({ "addresses": [TOKEN.to_string(), WALLET.to_string()] });
    let response = post(&mut client, "/v1/accounts", &several);
    assert_eq!(
        response.json(),
        get_json(&mut client, &format!("/v1/accounts?addresses={TOKEN},{WALLET}"))
    );
    let filters = json!({ "filters": [{ "dataSize": DATA_BYTES[1] }] });
    let path = format!("/v1/programs/{PROGRAM}/accounts");
    let found = post(&mut client, &path, &filters).json();
    assert_eq!(found["accounts"][0]["pubkey"], DATA[1].to_string());
    assert_eq!(found, get_json(&mut client, &format!("{path}?dataSize={}", DATA_BYTES[1])));
}

#[test]
fn account_data_comes_raw_if_requested() {
    let node = Node::new();
    let mut client = node.client();
    for (address, bytes) in DATA.iter().zip(DATA_BYTES) {
        let path = format!("/v1/accounts/{address}");
        let response = get(&mut client, &path, "accept: application/octet-stream\r\n");
        assert_eq!(response.header("content-type"), Some("application/octet-stream"));
        let expected: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
        assert_eq!(response.bytes, expected, "{bytes} bytes");
        assert_eq!(response.header("hydrant-owner"), Some(PROGRAM.to_string().as_str()));
        assert_eq!(response.header("hydrant-lamports"), Some("10000000"));
        assert!(response.header("etag").is_some());
    }
    let path = format!("/v1/accounts/{}?dataOffset=2&dataLength=3", DATA[0]);
    let response = get(&mut client, &path, "accept: application/octet-stream\r\n");
    assert_eq!(response.bytes, [2, 3, 4]);
}

#[test]
fn the_openapi_document_the_explorer_and_the_metrics_are_served() {
    let node = Node::new();
    let mut client = node.client();
    let openapi = get_json(&mut client, "/v1/openapi.json");
    assert_eq!(openapi["openapi"], "3.1.0");
    let page = get(&mut client, "/v1/", "");
    assert!(page.body.contains("/v1/accounts/{address}"));
    assert!(!page.body.contains("src="), "nothing is loaded from other servers");
    let etag = page.header("etag").expect("an ETag").to_owned();
    assert_eq!(get(&mut client, "/v1/", &format!("if-none-match: {etag}\r\n")).status, 304);
    let metrics = get(&mut client, "/metrics", "").body;
    assert!(metrics.contains("hydrant_slot{commitment=\"processed\"} 102\n"), "{metrics}");
    // All paths without a route have one label.
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
        "hydrant_requests_total{method=\"getAccountInfo\",path=\"inline\",class=\"none\",transport=\"http\"} ",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
}
