//! Requests that require a slot by their header: they wait for it, and no older response is sent, cached or not.

use solana_account::AccountSharedData;
use testkit::eventually::wait_until;
use testkit::sample_ledger::WALLET;
use testkit::test_ledger::{TestLedger, TestLedgerConfig, block_info};

use crate::{Node, get};

/// A ledger at slot 1, in which [`WALLET`] has as many lamports as the number of the slot.
fn start_ledger() -> TestLedger {
    let mut ledger = TestLedger::new(block_info(0), Vec::new(), TestLedgerConfig::default());
    add_block(&mut ledger, 1);
    ledger
}

fn add_block(ledger: &mut TestLedger, slot: u64) {
    ledger.open(slot);
    let wallet = AccountSharedData::new(slot, 0, &solana_sdk_ids::system_program::id());
    ledger.write(vec![(WALLET, Some(wallet))]);
    ledger.complete();
    ledger.confirm();
}

fn start_node(ledger: &TestLedger, min_slot_wait_ms: u64) -> Node {
    let min_slot_wait_ms = Some(min_slot_wait_ms);
    let config = rpc_solana::Config { min_slot_wait_ms, ..rpc_solana::Config::default() };
    Node::with_config(ledger.reader().clone(), config)
}

fn wait_waiting(node: &Node, requests: usize) {
    let waits = &node.world.server.context.slot_waits;
    wait_until(|| waits.len(), |len| *len == requests);
}

#[test]
fn a_request_waits_for_the_slot_of_its_header() {
    let mut ledger = start_ledger();
    let node = start_node(&ledger, 30_000);
    let account = format!("/v1/accounts/{WALLET}?commitment=confirmed");
    let first = get(&mut node.client(), &account, "hydrant-min-slot: 1\r\n");
    let etag = first.header("etag").expect("an ETag").to_owned();
    assert_eq!(first.header("hydrant-slot"), Some("1"));
    // A second conditional request is answered before it is parsed, unless it must wait.
    let known = format!("if-none-match: {etag}\r\n");
    for _ in 0..2 {
        assert_eq!(get(&mut node.client(), &account, &known).status, 304);
    }
    let requests = [
        (account.clone(), String::new()),
        (account, known),
        (format!("/v1/accounts?addresses={WALLET}&commitment=confirmed"), String::new()),
        ("/v1/ledger?commitment=confirmed".to_owned(), String::new()),
    ];
    let mut clients = Vec::new();
    for (path, headers) in &requests {
        let mut client = node.client();
        client.send(format!(
            "GET {path} HTTP/1.1\r\nhost: test\r\nhydrant-min-slot: 2\r\n{headers}\r\n"
        ));
        clients.push(client);
    }
    wait_waiting(&node, requests.len());
    add_block(&mut ledger, 2);
    for (client, (path, _)) in clients.iter_mut().zip(&requests) {
        let response = client.receive();
        assert_eq!(response.status, 200, "{path}: {}", response.body);
        assert_eq!(response.header("hydrant-slot"), Some("2"), "{path}");
        assert_eq!(response.header("hydrant-commitment"), Some("confirmed"), "{path}");
    }
    wait_waiting(&node, 0);
}

#[test]
fn a_slot_that_is_not_reached_is_a_conflict_with_both_slots() {
    let ledger = start_ledger();
    for wait_ms in [0, 20] {
        let node = start_node(&ledger, wait_ms);
        let mut client = node.client();
        let path = format!("/v1/accounts/{WALLET}?commitment=confirmed");
        let refused = get(&mut client, &path, "hydrant-min-slot: 5\r\n");
        assert_eq!(refused.status, 409, "{}", refused.body);
        let err = &refused.json()["error"];
        assert_eq!(err["name"], "min_context_slot_not_reached");
        assert_eq!(err["code"], -32016);
        let data = serde_json::json!({ "contextSlot": 1, "minSlot": 5, "minSlotWaitMs": wait_ms });
        assert_eq!(err["data"], data);
        let by_query = get(&mut client, &format!("{path}&minContextSlot=5"), "");
        assert_eq!(by_query.status, 409, "{}", by_query.body);
    }
}

#[test]
fn a_header_that_is_no_slot_is_a_bad_request() {
    let ledger = start_ledger();
    let node = start_node(&ledger, 30_000);
    let path = format!("/v1/accounts/{WALLET}");
    let response = get(&mut node.client(), &path, "hydrant-min-slot: -1\r\n");
    assert_eq!(response.status, 400);
    let message = response.json()["error"]["message"].to_string();
    assert!(message.contains("hydrant-min-slot is") && message.contains("-1"), "{message}");
}
