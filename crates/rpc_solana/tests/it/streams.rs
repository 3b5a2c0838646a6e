//! Long responses: in chunks, at the client's rate, until it disconnects, compressed if it accepts it.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use cpu_pool::Class;
use hyper::header::HeaderName;
use rpc_solana::Config;
use serde_json::{Value, json};

use testkit::raw_http_client::{Client, Response, post};
use testkit::sample_ledger::PROGRAM;
use testkit::solana_node::SolanaNode;

/// Returns a batch of calls. Each has a result of 133 KB.
fn batch(calls: usize) -> String {
    let params = json!([PROGRAM.to_string(), { "encoding": "base64" }]);
    let call = |id| json!({ "jsonrpc": "2.0", "id": id, "method": "getProgramAccounts", "params": params });
    Value::from_iter((0..calls).map(call)).to_string()
}

fn with_headers(body: &str, headers: &str) -> String {
    post(body).replace("host: test", &format!("host: test\r\n{headers}"))
}

fn post_accepting(world: &SolanaNode, body: &str, accept: &str) -> Response {
    let mut client = world.client();
    client.send(with_headers(body, &format!("accept-encoding: {accept}")));
    client.receive()
}

/// Returns a config that allows bodies with a thousand such calls.
fn long_config() -> Config {
    Config { body_bytes_max: Some(1 << 20), ..Config::default() }
}

#[test]
fn a_long_response_comes_in_chunks_and_says_what_the_short_ones_say() {
    let world = SolanaNode::new();
    let one = world.client().post(&batch(1)).json();
    assert_eq!(one[0]["result"].as_array().map(Vec::len), Some(3));
    let mut client = world.client();
    let response = client.post(&batch(20));
    assert_eq!(response.header("transfer-encoding"), Some("chunked"));
    let replies = response.json();
    assert_eq!(replies.as_array().map(Vec::len), Some(20));
    for (id, reply) in replies.as_array().into_iter().flatten().enumerate() {
        assert_eq!((&reply["result"], &reply["id"]), (&one[0]["result"], &json!(id)));
    }
    assert!(response.body.ends_with("}]\n"), "like every response");
    // The connection remains open.
    assert_eq!(client.result("getSlot", json!([])), json!(100));
}

#[test]
fn a_response_is_compressed_as_the_client_accepts_it() {
    let world = SolanaNode::new();
    let plain = post_accepting(&world, &batch(5), "identity");
    assert_eq!(plain.header("content-encoding"), None);
    let gzip = post_accepting(&world, &batch(5), "gzip, deflate");
    assert_eq!(gzip.header("content-encoding"), Some("gzip"));
    assert_eq!(gzip.header("vary"), Some("accept-encoding"));
    let mut read = String::new();
    flate2::read::GzDecoder::new(&gzip.bytes[..]).read_to_string(&mut read).expect("gzip");
    assert_eq!(read, plain.body);
    let zstd = post_accepting(&world, &batch(5), "gzip, zstd");
    assert_eq!(zstd.header("content-encoding"), Some("zstd"));
    let read = zstd::stream::decode_all(&zstd.bytes[..]).expect("zstd");
    assert_eq!(read, plain.bytes);
    assert!(zstd.bytes.len() < plain.bytes.len() / 10);
    let without_list = json!([{ "excludeNonCirculatingAccountsList": true }]);
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "getSupply", "params": without_list });
    let short = post_accepting(&world, &call.to_string(), "gzip, zstd");
    assert_eq!(short.header("content-encoding"), None, "not worth it");
}

#[test]
fn an_unread_response_is_not_computed_and_costs_no_memory() {
    let world = SolanaNode::with_config(long_config(), cpu_pool::Config::default());
    let before = resident_bytes();
    let mut client = world.client();
    client.send(post(&batch(1_000)));
    world.wait_pool(|pool| pool.class(Class::Heavy).blocked == 1);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} bytes for a response of 133 MB");
    // Other clients can use the pool meanwhile.
    assert_eq!(world.client().post(&batch(1)).status, 200);
    assert_eq!(client.receive().json().as_array().map(Vec::len), Some(1_000));
    assert_eq!(world.class(Class::Heavy).completed, 1);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a rate is a matter of time")]
fn long_responses_are_computed_and_sent_at_their_clients_rate() {
    let mut config = cpu_pool::Config::default();
    config.clients.bytes_per_s = 12_000_000;
    let world = SolanaNode::with_config(long_config(), config);
    let mut clients = [world.client(), world.client()];
    let started = std::time::Instant::now();
    clients.iter_mut().for_each(|client| client.send(post(&batch(100))));
    // The clients do not read yet, and sockets accept less than the bytes after the first second's worth.
    world.wait_pool(|pool| pool.class(Class::Heavy).blocked == 2);
    for client in &mut clients {
        assert_eq!(client.receive().json().as_array().map(Vec::len), Some(100));
    }
    let took = started.elapsed().as_secs_f64();
    // More than two seconds' worth of bytes. One second's worth may be sent at once. The next request is not refused for it.
    assert!(took > 1.0, "27 MB in {took} s");
    assert_eq!(world.client().post(&batch(1)).status, 200);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a rate is a matter of time")]
fn a_cached_response_is_sent_at_its_clients_rate_too() {
    let mut config = cpu_pool::Config::default();
    config.clients.bytes_per_s = 200_000;
    let world = SolanaNode::with_config(Config::default(), config);
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "getProgramAccounts",
        "params": [PROGRAM.to_string(), { "encoding": "base64" }],
    })
    .to_string();
    let started = std::time::Instant::now();
    for _ in 0..4 {
        assert_eq!(world.client().post(&call).status, 200);
    }
    // The four responses have 533 KB.
    let took = started.elapsed().as_secs_f64();
    assert!(took > 0.9, "{took} s");
    assert!(
        world.server.context.response_cache.counters().hits >= 3,
        "{:?}",
        world.server.context.response_cache.counters()
    );
    assert_eq!(world.server.context.clients.rejected(), (0, 0));
}

#[test]
fn a_client_that_disconnects_ends_its_task() {
    let world = SolanaNode::with_config(long_config(), cpu_pool::Config::default());
    for disconnect_after in [0, 1_000_000] {
        let before = world.class(Class::Heavy);
        let mut client = world.client();
        client.send(post(&batch(1_000)));
        client.read_at_least(disconnect_after);
        world.wait_pool(|pool| pool.class(Class::Heavy).active == 1);
        drop(client);
        world.wait_pool(|pool| pool.class(Class::Heavy).cancelled == before.cancelled + 1);
        let after = world.class(Class::Heavy);
        assert_eq!((after.active, after.running, after.completed), (0, 0, before.completed));
    }
}

#[test]
fn a_response_that_is_not_finished_at_its_deadline_is_cut_off() {
    let mut config = cpu_pool::Config::default();
    config.heavy.deadline_ms = 300;
    let world = SolanaNode::with_config(long_config(), config);
    let mut client = world.client();
    client.send(post(&batch(1_000)));
    world.wait_pool(|pool| pool.class(Class::Heavy).expired == 1);
    let read = client.receive_all();
    assert!(read.starts_with(b"HTTP/1.1 200"));
    assert!(!read.ends_with(b"0\r\n\r\n"), "the last chunk is missing");
}

#[test]
fn a_client_with_one_scan_is_not_delayed_by_one_with_many() {
    let config =
        Config { client_header: Some(HeaderName::from_static("x-api-key")), ..long_config() };
    let world = SolanaNode::with_config(config, cpu_pool::Config::default());
    let stop = AtomicBool::new(false);
    let mut modest = world.client();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let mut client = world.client();
            client.send(with_headers(&batch(1_000), "x-api-key: greedy"));
            let stop = &stop;
            scope.spawn(move || read_until(&mut client, stop));
        }
        world.wait_pool(|pool| pool.class(Class::Heavy).active == 8);
        modest.send(with_headers(&batch(17), "x-api-key: modest"));
        let replies = modest.receive().json();
        let counters = world.class(Class::Heavy);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(replies.as_array().map(Vec::len), Some(17));
        // The task of the modest client may not be counted yet.
        assert!(
            counters.completed <= 1 && counters.active >= 8,
            "the tasks of the greedy client are not completed: {counters:?}"
        );
    });
}

fn read_until(client: &mut Client, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) && client.skip() > 0 {}
}

/// Returns the resident memory of this process in bytes.
pub(crate) fn resident_bytes() -> usize {
    process_usage::Process::current().resident_bytes().expect("Linux") as usize
}
