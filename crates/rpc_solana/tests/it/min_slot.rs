//! The slot of every response, and calls that wait for a slot: on a ledger that the test writes block by block.

use std::sync::Arc;

use rpc_solana::Config;
use serde_json::{Value, json};
use solana_account::AccountSharedData;
use testkit::raw_http_client::{Client, Response};
use testkit::sample_ledger::{PROGRAM, WALLET};
use testkit::solana_node::SolanaNode;
use testkit::test_ledger::{TestLedger, TestLedgerConfig, block_info};

/// Longer than any test.
const LONG_MS: u64 = 30_000;

/// A node, and the ledger that it serves. Blocks are confirmed at once, and final on request.
struct World {
    ledger: TestLedger,
    node: SolanaNode,
}

impl World {
    /// A node at slot 0 whose calls wait for this time.
    fn new(min_slot_wait_ms: u64) -> Self {
        Self::with_config(Config { min_slot_wait_ms: Some(min_slot_wait_ms), ..Config::default() })
    }

    fn with_config(config: Config) -> Self {
        let mut ledger = TestLedger::new(block_info(0), Vec::new(), TestLedgerConfig::default());
        let node = SolanaNode::builder(ledger.reader().clone())
            .history(Arc::clone(ledger.history()))
            .config(config)
            .serve();
        add_block(&mut ledger, 1);
        Self { ledger, node }
    }

    fn client(&self) -> Client {
        self.node.client()
    }

    /// Waits until this number of requests wait for a slot.
    fn wait_waiting(&self, requests: usize) {
        let waits = &self.node.server.context.slot_waits;
        testkit::eventually::wait_until(|| waits.len(), |len| *len == requests);
    }
}

/// Adds a confirmed block, in which an account of a program and a wallet change.
fn add_block(ledger: &mut TestLedger, slot: u64) {
    ledger.open(slot);
    let mut account = AccountSharedData::new(1, 0, &PROGRAM);
    account.set_data_from_slice(&slot.to_le_bytes());
    let wallet = AccountSharedData::new(slot, 0, &solana_sdk_ids::system_program::id());
    let program_account = solana_pubkey::Pubkey::new_from_array([77; 32]);
    ledger.write(vec![(program_account, Some(account)), (WALLET, Some(wallet))]);
    ledger.complete();
    ledger.confirm();
}

fn balance(commitment: &str, min_slot: Option<u64>) -> Value {
    let mut config = json!({ "commitment": commitment });
    if let Some(slot) = min_slot {
        config["minContextSlot"] = slot.into();
    }
    json!({ "jsonrpc": "2.0", "id": 1, "method": "getBalance",
            "params": [WALLET.to_string(), config] })
}

/// A request that posts JSON with more headers, each a full line.
fn post_with(headers: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n{headers}\
         content-length: {length}\r\n\r\n{body}"
    )
}

fn state(response: &Response) -> (Option<&str>, Option<&str>) {
    (response.header("hydrant-slot"), response.header("hydrant-commitment"))
}

#[test]
fn every_response_names_a_slot_that_its_client_can_require() {
    let mut world = World::new(LONG_MS);
    for slot in 2..6 {
        add_block(&mut world.ledger, slot);
    }
    world.ledger.finalize();
    world.ledger.finalize();
    world.ledger.open(6);
    let call = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let program = PROGRAM.to_string();
    let of = |commitment: &str| json!({ "commitment": commitment });
    let get_slot = call("getSlot", json!([of("confirmed")]));
    for (body, expected) in [
        (balance("processed", None), ("6", "processed")),
        (balance("confirmed", None), ("5", "confirmed")),
        (balance("finalized", None), ("2", "finalized")),
        (get_slot.clone(), ("5", "confirmed")),
        (call("getSlot", json!([])), ("2", "finalized")),
        (call("getProgramAccounts", json!([program, of("confirmed")])), ("5", "confirmed")),
        (call("getBlock", json!([4, of("confirmed")])), ("5", "confirmed")),
        // Errors: of a method, of its parameters, of the request.
        (call("getBlock", json!([1_000, of("confirmed")])), ("5", "confirmed")),
        (call("getBalance", json!(["no key", of("confirmed")])), ("5", "confirmed")),
        (call("getNothing", json!([])), ("2", "finalized")),
        (call("getVersion", json!([])), ("2", "finalized")),
        (json!([]), ("2", "finalized")),
        // A batch has the lowest slot of its calls.
        (json!([get_slot, balance("processed", None)]), ("5", "confirmed")),
        (json!([get_slot, call("getNothing", json!([]))]), ("2", "finalized")),
        (json!(vec![get_slot; 100]), ("5", "confirmed")),
        (json!({ "jsonrpc": "2.0", "method": "getSlot" }), ("2", "finalized")),
    ] {
        let mut client = world.client();
        for round in 0..3 {
            let response = client.post(&body.to_string());
            assert_eq!(response.status, 200, "{body}: {}", response.body);
            let expected = (Some(expected.0), Some(expected.1));
            assert_eq!(state(&response), expected, "{body} {round}");
            // It is never too high for the same request.
            let slot = response.header("hydrant-slot").expect("a slot");
            client.send(post_with(&format!("hydrant-min-slot: {slot}\r\n"), &body));
            assert_eq!(client.receive().body, response.body, "{body}");
        }
    }
    for head in [
        "GET /health HTTP/1.1\r\nhost: test\r\n\r\n",
        "GET /nothing HTTP/1.1\r\nhost: test\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: test\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n\r\n",
    ] {
        let mut client = world.client();
        client.send(head);
        assert_eq!(state(&client.receive()), (Some("2"), Some("finalized")), "{head}");
    }
}

#[test]
fn a_call_waits_for_the_slot_at_its_commitment() {
    let mut world = World::new(LONG_MS);
    let header = |slot: u64| format!("hydrant-min-slot: {slot}\r\n");
    let requests = [
        post_with("", &balance("confirmed", Some(2))),
        post_with(&header(2), &balance("confirmed", None)),
        // The higher one counts.
        post_with(&header(1), &balance("confirmed", Some(2))),
        post_with(&header(2), &balance("confirmed", Some(1))),
        post_with("", &json!([balance("confirmed", None), balance("confirmed", Some(2))])),
        post_with(&header(2), &json!(vec![balance("confirmed", None); 40])),
    ];
    let mut clients: Vec<_> = requests.iter().map(|_| world.client()).collect();
    for (client, request) in clients.iter_mut().zip(&requests) {
        client.send(request);
    }
    let mut last = world.client();
    last.send(post_with(&header(2), &balance("finalized", None)));
    world.wait_waiting(requests.len() + 1);
    assert_eq!(world.node.server.context.pool.counters().class(cpu_pool::Class::Medium).active, 0);
    add_block(&mut world.ledger, 2);
    for (client, request) in clients.iter_mut().zip(&requests) {
        let response = client.receive();
        assert_eq!(state(&response), (Some("2"), Some("confirmed")), "{request}");
        let body = response.json();
        let first = if body.is_array() { &body[0] } else { &body };
        assert_eq!(first["result"]["value"], 2, "{request}: {body}");
    }
    // Slot 2 is confirmed and not final.
    world.wait_waiting(1);
    world.ledger.finalize();
    world.ledger.finalize();
    let response = last.receive();
    assert_eq!(state(&response), (Some("2"), Some("finalized")));
    assert_eq!(response.json()["result"]["value"], 2);
    world.wait_waiting(0);
}

#[test]
fn a_slot_that_is_not_reached_in_time_is_refused() {
    for wait_ms in [0, 20] {
        let world = World::new(wait_ms);
        let mut client = world.client();
        let reply = client.post(&balance("confirmed", Some(9)).to_string()).json();
        assert_eq!(reply["error"]["code"], -32016);
        assert_eq!(reply["error"]["data"], json!({ "contextSlot": 1 }), "as Agave");
        let all = json!([balance("confirmed", None), balance("processed", None)]);
        for body in [balance("confirmed", None), all] {
            client.send(post_with("hydrant-min-slot: 9\r\n", &body));
            let response = client.receive();
            assert_eq!(response.status, 200);
            let reply = response.json();
            let err = if reply.is_array() { &reply[1]["error"] } else { &reply["error"] };
            assert_eq!(err["code"], -32016, "{reply}");
            let data = json!({ "contextSlot": 1, "minSlot": 9, "minSlotWaitMs": wait_ms });
            assert_eq!(err["data"], data);
            let message = err["message"].as_str().expect("a message");
            assert!(message.contains("rpc.min_slot_wait_ms"), "{message}");
        }
        // A method without a state does not wait.
        let version = json!({ "jsonrpc": "2.0", "id": 1, "method": "getVersion" });
        client.send(post_with("hydrant-min-slot: 9\r\n", &version));
        assert!(client.receive().json().get("result").is_some());
    }
}

#[test]
fn a_value_that_is_no_slot_is_a_bad_request() {
    let world = World::new(LONG_MS);
    for header in ["hydrant-min-slot: latest\r\n", "hydrant-min-slot: 1\r\nhydrant-min-slot: 2\r\n"]
    {
        let mut client = world.client();
        client.send(post_with(header, &balance("confirmed", None)));
        let response = client.receive();
        assert_eq!(response.status, 400);
        assert!(response.body.starts_with("hydrant-min-slot is "), "{}", response.body);
        assert!(response.header("hydrant-slot").is_some());
    }
}

#[test]
fn a_cached_response_is_not_served_below_the_required_slot() {
    let mut world = World::new(LONG_MS);
    let program = PROGRAM.to_string();
    let list = |min_slot: Option<u64>| {
        let mut config = json!({ "commitment": "confirmed", "withContext": true });
        if let Some(slot) = min_slot {
            config["minContextSlot"] = slot.into();
        }
        json!({ "jsonrpc": "2.0", "id": 1, "method": "getProgramAccounts",
                "params": [program, config] })
    };
    let mut client = world.client();
    for _ in 0..3 {
        assert_eq!(client.post(&list(None).to_string()).json()["result"]["context"]["slot"], 1);
    }
    let mut waiting = [world.client(), world.client(), world.client()];
    waiting[0].send(post_with("hydrant-min-slot: 2\r\n", &list(None)));
    waiting[1].send(post_with("", &list(Some(2))));
    waiting[2].send(post_with("hydrant-min-slot: 2\r\n", &json!([list(None), list(None)])));
    world.wait_waiting(3);
    add_block(&mut world.ledger, 2);
    for client in &mut waiting {
        let reply = client.receive().json();
        let first = if reply.is_array() { &reply[0] } else { &reply };
        assert_eq!(first["result"]["context"]["slot"], 2, "{reply}");
    }
}

#[test]
fn the_wait_of_a_client_ends_when_it_disconnects() {
    let world = World::new(LONG_MS);
    let mut client = world.client();
    client.send(post_with("", &balance("confirmed", Some(9))));
    world.wait_waiting(1);
    drop(client);
    world.wait_waiting(0);
}

#[test]
fn a_client_that_fills_its_share_leaves_room_for_another() {
    let mut world = World::with_config(Config {
        min_slot_wait_ms: Some(LONG_MS),
        min_slot_waits_max: 20,
        ..Config::default()
    });
    let address = world.node.rpc;
    // The last tenth is for others: one client has 18 of 20.
    let mut hostile: Vec<_> =
        (0..18).map(|_| Client::connect_from([127, 0, 0, 2], address)).collect();
    for client in &mut hostile {
        client.send(post_with("", &balance("finalized", Some(1_000_000))));
    }
    world.wait_waiting(18);
    let mut one_more = Client::connect_from([127, 0, 0, 2], address);
    let refused = one_more.post(&balance("confirmed", Some(2)).to_string());
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert!(refused.body.contains("rpc.min_slot_waits_max"), "{}", refused.body);
    assert!(refused.header("retry-after").is_some());
    // What does not wait is served as ever.
    assert_eq!(one_more.post(&balance("confirmed", None).to_string()).status, 200);
    let mut honest = Client::connect_from([127, 0, 0, 3], address);
    honest.send(post_with("", &balance("confirmed", Some(2))));
    world.wait_waiting(19);
    add_block(&mut world.ledger, 2);
    assert_eq!(honest.receive().json()["result"]["value"], 2);
    drop(hostile);
    world.wait_waiting(0);
}
