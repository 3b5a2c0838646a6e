//! One client cannot take all connections, or all time of the thread that polls them.
//!
//! Every test that serves clients checks the budget of a poll: a poll that takes too long panics (`SolanaNode`).

use rpc_solana::Config;
use serde_json::json;

use crate::metrics::ScrapedMetrics;
use testkit::raw_http_client::{Client, post};
use testkit::sample_ledger::PROGRAM;
use testkit::solana_node::SolanaNode;

const SLOT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getSlot"}"#;
const SLOT_REPLY: &str = "{\"jsonrpc\":\"2.0\",\"result\":100,\"id\":1}\n";

fn yields(world: &SolanaNode) -> f64 {
    ScrapedMetrics::scrape(&mut world.client()).get("hydrant_http_yields_total")
}

#[test]
fn a_connection_that_pipelines_yields_after_some_requests() {
    let world = SolanaNode::new();
    assert_eq!(yields(&world), 0.0);
    let mut client = world.client();
    let with_id = |id| post(&SLOT.replace("\"id\":1", &format!("\"id\":{id}")));
    client.send((0..500).map(with_id).collect::<String>());
    for id in 0..500 {
        assert_eq!(client.receive().json()["id"], json!(id), "in order");
    }
    // The connection may yield once more after its last response: this one comes after that.
    assert_eq!(client.post(SLOT).body, SLOT_REPLY);
    let yielded = yields(&world);
    assert!(yielded > 0.0, "500 requests at once");
    let metrics = ScrapedMetrics::scrape(&mut world.client());
    assert_eq!(metrics.get("hydrant_http_connections_yielded"), 0.0);
    // One request at a time is within the budget of a poll.
    for _ in 0..20 {
        assert_eq!(client.post(SLOT).body, SLOT_REPLY);
    }
    assert_eq!(yields(&world), yielded);
}

#[test]
fn a_large_response_is_written_in_chunks_with_others_in_between() {
    let world = SolanaNode::new();
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"getProgramAccounts","params":["{PROGRAM}",{{"encoding":"base64"}}]}}"#
    );
    let mut client = world.client();
    let first = client.post(&call).bytes;
    assert!(first.len() > 128 * 1024, "{}", first.len());
    let before = yields(&world);
    // The responses come from the cache, one after another, as fast as the client reads.
    client.send(post(&call).repeat(160));
    for _ in 0..160 {
        assert!(client.receive().bytes == first);
    }
    // The responses have 21 MB. One poll writes a megabyte of them, and a round has eight such polls on two IO threads.
    let yielded = yields(&world) - before;
    assert!(yielded >= 8.0, "{yielded} yields for 160 responses of {} bytes", first.len());
}

#[test]
fn an_address_that_takes_all_connections_leaves_some_to_others() {
    let config = Config { connections_max: 40, ..Config::default() };
    let world = SolanaNode::with_config(config, cpu_pool::Config::default());
    let mut clients = Vec::new();
    for _ in 0..36 {
        let mut client = world.client();
        assert_eq!(client.post(SLOT).body, SLOT_REPLY);
        clients.push(client);
    }
    for _ in 0..10 {
        let mut client = world.client();
        let response = client.receive();
        assert_eq!((response.status, response.header("retry-after")), (429, Some("1")));
        let text = "this address has 36 connections, and the last 4 of 40 are for addresses that have fewer \
                    (rpc.connections_max, rpc.connections_per_address_max)\n";
        assert_eq!(response.body, text);
    }
    let mut other = Client::connect_from([127, 0, 0, 9], world.rpc);
    assert_eq!(other.post(SLOT).body, SLOT_REPLY);
    let mut second = Client::connect_from([127, 0, 0, 9], world.pubsub);
    assert_eq!(second.post(SLOT).status, 426);
    // Connections 36 and 2 are served. A connection that closes frees a permit.
    assert_eq!(Client::connect_from([127, 0, 0, 9], world.rpc).receive().status, 429);
    drop(clients);
    assert_eq!(other.post(SLOT).body, SLOT_REPLY);
    let metrics = ScrapedMetrics::scrape(&mut other);
    assert_eq!(metrics.get("hydrant_http_connections_rejected_total"), 11.0);
}

#[test]
fn an_address_with_all_connections_waits_until_one_closes() {
    let config =
        Config { connections_max: 20, connections_per_address_max: Some(20), ..Config::default() };
    let world = SolanaNode::with_config(config, cpu_pool::Config::default());
    let mut clients: Vec<_> = (0..20).map(|_| world.client()).collect();
    for client in &mut clients {
        assert_eq!(client.post(SLOT).body, SLOT_REPLY);
    }
    drop(clients.pop());
    assert_eq!(world.client().post(SLOT).body, SLOT_REPLY);
}
