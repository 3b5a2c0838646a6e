//! REST over real loopback sockets, on the sample ledger of `testkit`.
//!
//! `state` tests accounts, `history` blocks and transactions, `caching` ETags, codings and pages, `revalidation` the
//! promise of a 304 against a model, `known_responses` repeated responses, `min_slot` requests that wait for a slot,
//! `replicas` clients that come from another node, `refusals` all errors, `transaction_status` clients that wait for a
//! transaction, `schemas` the description of responses. Tests that execute transactions need a real node:
//! `clients/rest`.

mod caching;
mod history;
mod known_responses;
mod min_slot;
mod refusals;
mod replicas;
mod revalidation;
mod schemas;
mod state;
mod transaction_status;

use std::sync::Arc;
use testkit::sample_ledger;

use rest::Rest;
use rest_solana::{SolanaRest, WaiterEvents};
use serde_json::Value;

use testkit::raw_http_client::{Client, Response};
use testkit::solana_node::SolanaNode;

/// A node with REST on its port, and the sink for its ledger's events.
struct Node {
    world: SolanaNode,
    rest: Arc<Rest<SolanaRest>>,
    events: WaiterEvents,
}

/// The settings of a node.
struct NodeConfig {
    rpc: rpc_solana::Config,
    pool: cpu_pool::Config,
    cache_bytes_max: u64,
}

impl Node {
    fn new() -> Self {
        Self::with_config(
            sample_ledger::ledger(query::IndexConfig::default()),
            rpc_solana::Config::default(),
        )
    }

    fn with_config(reader: chain_solana::Reader, config: rpc_solana::Config) -> Self {
        Self::with_pool(reader, config, cpu_pool::Config::default())
    }

    fn with_pool(
        reader: chain_solana::Reader,
        config: rpc_solana::Config,
        pool: cpu_pool::Config,
    ) -> Self {
        let config = NodeConfig { rpc: config, pool, cache_bytes_max: 1 << 24 };
        Self::from_rest(Rest::new(SolanaRest::default()), reader, config)
    }

    /// A node with these bytes of the ETag buffer and of the response cache.
    fn with_etag_buffer(
        reader: chain_solana::Reader,
        hold_bytes_max: usize,
        cache_bytes_max: u64,
    ) -> Self {
        // The accounts of a test are small, so inline responses are disabled.
        let rpc = rpc_solana::Config {
            inline_accounts_max: 0,
            inline_bytes_max: 0,
            ..rpc_solana::Config::default()
        };
        let config = NodeConfig { rpc, pool: cpu_pool::Config::default(), cache_bytes_max };
        let rest = Rest::new(SolanaRest::default()).with_etag_buffer(hold_bytes_max);
        Self::from_rest(rest, reader, config)
    }

    fn from_rest(rest: Rest<SolanaRest>, reader: chain_solana::Reader, config: NodeConfig) -> Self {
        Self::with_clock(rest, reader, config, Arc::new(jsonrpc::SystemClock::new()))
    }

    fn with_clock(
        rest: Rest<SolanaRest>,
        reader: chain_solana::Reader,
        config: NodeConfig,
        clock: Arc<dyn cpu_pool::Clock>,
    ) -> Self {
        let NodeConfig { rpc, pool, cache_bytes_max } = config;
        let rest = Arc::new(rest.with_known_responses(cache_bytes_max));
        let http_api = Arc::clone(&rest) as Arc<dyn jsonrpc::HttpApi<rpc_solana::SolanaApi>>;
        let world = SolanaNode::builder(reader)
            .config(rpc)
            .pool(pool)
            .http_api(http_api)
            .clock(clock, jsonrpc::Health::default())
            .cache_bytes_max(cache_bytes_max)
            .serve();
        world.server.context.metrics.add(Arc::clone(&rest) as Arc<dyn ::metrics::Collector>);
        let history = Arc::clone(&world.server.api.history);
        let events = rest.api().start_waker(history).expect("a thread");
        Self { world, rest, events }
    }

    fn client(&self) -> Client {
        self.world.client()
    }
}

/// Sends a request with headers, each a full line.
fn send_request(client: &mut Client, verb: &str, path: &str, headers: &str) -> Response {
    client.send(format!("{verb} {path} HTTP/1.1\r\nhost: test\r\n{headers}\r\n"));
    client.receive()
}

fn get(client: &mut Client, path: &str, headers: &str) -> Response {
    send_request(client, "GET", path, headers)
}

fn post_as(client: &mut Client, path: &str, media: &str, body: &[u8]) -> Response {
    let length = body.len();
    client.send(format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n"
    ));
    client.send(body);
    client.receive()
}

fn post(client: &mut Client, path: &str, body: &Value) -> Response {
    post_as(client, path, "application/json", body.to_string().as_bytes())
}

/// Sends a HEAD request and returns status and headers. Checks that no body follows.
fn head(node: &Node, path: &str) -> (u16, String) {
    let mut client = node.client();
    client.send(format!("HEAD {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n"));
    let text = String::from_utf8(client.receive_all()).expect("a head is text");
    assert!(text.ends_with("\r\n\r\n"), "no body: {text}");
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), text.to_ascii_lowercase())
}

/// A response with status 200, as JSON.
fn get_json(client: &mut Client, path: &str) -> Value {
    let response = get(client, path, "");
    assert_eq!(response.status, 200, "{path}: {}", response.body);
    response.json()
}

/// The decompressed body.
fn decoded_body(response: &Response) -> Vec<u8> {
    match response.header("content-encoding") {
        Some(coding) => decode(coding, &response.bytes),
        None => response.bytes.clone(),
    }
}

fn decode(coding: &str, bytes: &[u8]) -> Vec<u8> {
    use std::io::Read;
    match coding {
        "gzip" => {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).expect("gzip");
            plain
        }
        "zstd" => zstd::stream::decode_all(bytes).expect("zstd"),
        other => panic!("{other} was not requested"),
    }
}
