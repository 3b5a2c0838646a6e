//! `/metrics` read with an independent parser, and request ids. Every request is counted exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use cpu_pool::Class;
use metrics::{Collector, Exposition};
use prometheus_parse::{LineInfo, SampleType, Scrape, Value};
use rpc_solana::Config;

use testkit::raw_http_client::{Client, post};
use testkit::sample_ledger::PROGRAM;
use testkit::solana_node::SolanaNode;

const SLOT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getSlot"}"#;
const SUPPLY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getVoteAccounts"}"#;
const SCRAPE: &str = "GET /metrics HTTP/1.1\r\nhost: test\r\n\r\n";

/// Values by name and labels, without buckets.
pub(crate) struct ScrapedMetrics(BTreeMap<String, f64>);

impl ScrapedMetrics {
    pub(crate) fn scrape(client: &mut Client) -> Self {
        client.send(SCRAPE);
        let response = client.receive();
        assert_eq!(response.status, 200);
        assert_eq!(
            response.header("content-type"),
            Some("text/plain; version=0.0.4; charset=utf-8")
        );
        check(&response.body);
        let lines = response.body.lines().map(|line| Ok(line.to_owned()));
        let scrape = Scrape::parse(lines).expect("it parses");
        let mut values = BTreeMap::new();
        for sample in scrape.samples {
            let name = match sample.labels.is_empty() {
                true => sample.metric,
                false => format!("{}{{{}}}", sample.metric, sample.labels),
            };
            match sample.value {
                Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => {
                    assert!(values.insert(name.clone(), value).is_none(), "{name} comes twice");
                }
                Value::Histogram(buckets) => {
                    let cumulative = buckets.windows(2).all(|two| {
                        two[0].less_than < two[1].less_than && two[0].count <= two[1].count
                    });
                    assert!(cumulative, "{name}: {buckets:?}");
                    let last = buckets.last().expect("buckets");
                    assert!(last.less_than.is_infinite(), "{name}: {buckets:?}");
                    values.insert(format!("buckets of {name}"), last.count);
                }
                Value::Summary(_) => panic!("{name} is a summary"),
            }
        }
        Self(values)
    }

    pub(crate) fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> &BTreeMap<String, f64> {
        &self.0
    }
}

/// Checks that every sample has exactly one HELP and one TYPE before it.
fn check(text: &str) {
    let mut helped = BTreeSet::new();
    let mut typed = BTreeSet::new();
    let mut kind = SampleType::Untyped;
    for line in text.lines() {
        match LineInfo::parse(line) {
            LineInfo::Doc { metric_name, doc } => {
                assert!(helped.insert(metric_name.to_owned()), "{line}: twice");
                assert!(doc.ends_with('.'), "{line}: a sentence");
            }
            LineInfo::Type { metric_name, sample_type, metric_alias } => {
                let name = metric_alias.unwrap_or(metric_name);
                assert!(helped.contains(&name), "{line}: no HELP before it");
                kind = sample_type;
                assert!(sample_type != SampleType::Untyped, "{line}");
                assert_eq!(name.ends_with("_total"), sample_type == SampleType::Counter, "{line}");
                assert!(typed.insert(name), "{line}: twice");
            }
            LineInfo::Sample { metric_name, .. } => {
                let family = match kind {
                    SampleType::Histogram => ["_bucket", "_sum", "_count"]
                        .iter()
                        .find_map(|suffix| metric_name.strip_suffix(suffix))
                        .unwrap_or_else(|| panic!("{line}: in a histogram")),
                    _ => metric_name,
                };
                assert!(typed.contains(family), "{line}: no TYPE before it");
                assert!(family.starts_with("hydrant_") || family.starts_with("process_"), "{line}");
            }
            LineInfo::Empty | LineInfo::Ignored => panic!("{line:?} is not of the format"),
        }
    }
    assert!(helped == typed && helped.len() > 40, "{helped:?} {typed:?}");
}

#[test]
fn metrics_move_by_exactly_what_was_requested() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let before = ScrapedMetrics::scrape(&mut client);
    assert_eq!(before.get("hydrant_slot{commitment=\"processed\"}"), 102.0);
    assert_eq!(before.get("hydrant_verified_slot{level=\"computed\"}"), 101.0);
    assert_eq!(before.get("hydrant_http_connections_open"), 1.0);
    let accounts = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"getProgramAccounts","params":["{PROGRAM}",{{"encoding":"base64"}}]}}"#
    );
    let requests: [(&str, u16); 11] = [
        (SLOT, 200),
        (SLOT, 200),
        (SLOT, 200),
        (r#"{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[7]}"#, 200),
        (r#"{"jsonrpc":"2.0","id":1,"method":"getEverything"}"#, 200),
        (r#"{"jsonrpc":"2.0","id":1,"#, 200),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"getSlot"},{"jsonrpc":"2.0","id":2,"method":"getHealth"}]"#,
            200,
        ),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"getSlot"},{"jsonrpc":"2.0","id":2,"method":"getVoteAccounts"}]"#,
            200,
        ),
        (SUPPLY, 200),
        (&accounts, 200),
        (&accounts, 200),
    ];
    let mut sent = 0;
    for (body, status) in requests {
        let bytes = post(body);
        sent += bytes.len();
        client.send(bytes);
        assert_eq!(client.receive().status, status, "{body}");
    }
    client.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n");
    assert_eq!(client.receive().status, 405);
    world.wait_pool(|pool| pool.class(Class::Medium).completed == 3);
    let after = ScrapedMetrics::scrape(&mut client);
    let moved = |name: &str| after.get(name) - before.get(name);
    for (name, by) in [
        (
            "hydrant_requests_total{class=\"none\",method=\"getSlot\",path=\"inline\",transport=\"http\"}",
            5.0,
        ),
        // A batch is as heavy as the heaviest of its calls.
        (
            "hydrant_requests_total{class=\"medium\",method=\"getSlot\",path=\"pool\",transport=\"http\"}",
            1.0,
        ),
        (
            "hydrant_requests_total{class=\"none\",method=\"getHealth\",path=\"inline\",transport=\"http\"}",
            1.0,
        ),
        (
            "hydrant_requests_total{class=\"none\",method=\"other\",path=\"inline\",transport=\"http\"}",
            1.0,
        ),
        (
            "hydrant_requests_total{class=\"none\",method=\"none\",path=\"inline\",transport=\"http\"}",
            1.0,
        ),
        (
            "hydrant_requests_total{class=\"medium\",method=\"getVoteAccounts\",path=\"pool\",transport=\"http\"}",
            2.0,
        ),
        (
            "hydrant_requests_total{class=\"medium\",method=\"getProgramAccounts\",path=\"pool\",transport=\"http\"}",
            1.0,
        ),
        (
            "hydrant_requests_total{class=\"none\",method=\"getProgramAccounts\",path=\"cached\",transport=\"http\"}",
            1.0,
        ),
        (
            "hydrant_request_errors_total{code=\"-32602\",method=\"getSlot\",transport=\"http\"}",
            1.0,
        ),
        ("hydrant_request_errors_total{code=\"-32601\",method=\"other\",transport=\"http\"}", 1.0),
        ("hydrant_request_errors_total{code=\"-32700\",method=\"none\",transport=\"http\"}", 1.0),
        (
            "hydrant_request_duration_seconds_count{class=\"none\",method=\"getSlot\",path=\"inline\",transport=\"http\"}",
            5.0,
        ),
        (
            "buckets of hydrant_request_duration_seconds{class=\"none\",method=\"getSlot\",path=\"inline\",transport=\"http\"}",
            5.0,
        ),
        ("hydrant_slow_requests_total", 0.0),
        ("hydrant_cache_lookups_total{cache=\"responses\",result=\"hit\"}", 1.0),
        ("hydrant_cache_lookups_total{cache=\"responses\",result=\"miss\"}", 1.0),
        ("hydrant_cache_entries{cache=\"responses\"}", 1.0),
        ("hydrant_pool_tasks_total{class=\"medium\",result=\"completed\"}", 3.0),
        // The response of the first scrape is counted after it was sent.
        ("hydrant_http_responses_total{status=\"200\"}", 12.0),
        ("hydrant_http_responses_total{status=\"405\"}", 1.0),
        ("hydrant_http_connections_accepted_total", 0.0),
    ] {
        assert_eq!(moved(name), by, "{name}: {:?}", after.0);
    }
    let get = "GET / HTTP/1.1\r\nhost: test\r\n\r\n".len();
    let expected = (sent + get + SCRAPE.len()) as f64;
    assert_eq!(moved("hydrant_http_bytes_total{direction=\"in\"}"), expected);
    assert!(moved("hydrant_http_bytes_total{direction=\"out\"}") > 130_000.0);
    let all = |name: &str| -> f64 {
        let samples = after.0.iter().filter(|(sample, _)| sample.starts_with(name));
        samples.map(|(_, value)| value).sum()
    };
    assert_eq!(all("hydrant_requests_total"), 13.0, "no call is counted twice: {:?}", after.0);
    assert_eq!(all("hydrant_request_errors_total"), 3.0);
}

#[test]
fn rejected_and_waiting_requests_are_reported_by_their_cause() {
    let mut pool = cpu_pool::Config::default();
    pool.medium.tasks_max = 1;
    let world = SolanaNode::with_config(Config::default(), pool);
    let release = world.occupy_pool();
    let mut waiting = world.client();
    waiting.send(post(SUPPLY));
    world.wait_pool(|pool| pool.class(Class::Medium).queued == 1);
    let mut client = world.client();
    assert_eq!(client.post(SUPPLY).status, 429);
    assert_eq!(client.post(&format!("[{SUPPLY},{SUPPLY}]")).status, 429);
    let metrics = ScrapedMetrics::scrape(&mut client);
    for (name, value) in [
        ("hydrant_rejected_total{cause=\"queue_full\",class=\"medium\"}", 2.0),
        ("hydrant_rejected_total{cause=\"client_rate\",class=\"any\"}", 0.0),
        // Both calls of the batch failed.
        (
            "hydrant_request_errors_total{code=\"-32005\",method=\"getVoteAccounts\",transport=\"http\"}",
            3.0,
        ),
        ("hydrant_requests_in_flight{class=\"medium\"}", 1.0),
        ("hydrant_pool_tasks_queued{class=\"medium\"}", 1.0),
        ("hydrant_http_responses_total{status=\"429\"}", 2.0),
        ("hydrant_http_connections_open", 2.0),
    ] {
        assert_eq!(metrics.get(name), value, "{name}: {:?}", metrics.0);
    }
    // A client that disconnects is counted, too.
    drop(waiting);
    world.wait_pool(|pool| pool.class(Class::Medium).cancelled == 1);
    drop(release);
    let cut =
        "hydrant_request_errors_total{code=\"cut\",method=\"getVoteAccounts\",transport=\"http\"}";
    while ScrapedMetrics::scrape(&mut client).get(cut) < 1.0 {
        std::thread::yield_now();
    }
    let metrics = ScrapedMetrics::scrape(&mut client);
    assert_eq!(metrics.get("hydrant_pool_tasks_total{class=\"medium\",result=\"cancelled\"}"), 1.0);
    assert_eq!(metrics.get("hydrant_requests_in_flight{class=\"medium\"}"), 0.0);
    assert_eq!(metrics.get(cut), 1.0);
}

#[test]
fn a_slow_request_is_counted_unless_the_limit_is_0() {
    for (slow_request_ms, slow) in [(1, 1.0), (0, 0.0)] {
        let config = Config { slow_request_ms, ..Config::default() };
        let world = SolanaNode::with_config(config, cpu_pool::Config::default());
        let release = world.occupy_pool();
        let mut client = world.client();
        client.send(post(SUPPLY));
        world.wait_pool(|pool| pool.class(Class::Medium).queued == 1);
        let until = world.server.context.pool.now() + std::time::Duration::from_millis(2);
        while world.server.context.pool.now() < until {
            std::thread::yield_now();
        }
        drop(release);
        assert_eq!(client.receive().status, 200);
        assert_eq!(ScrapedMetrics::scrape(&mut client).get("hydrant_slow_requests_total"), slow);
    }
}

#[test]
fn a_request_has_an_id_which_is_sent_where_it_costs_nothing() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let mut id = |body: &str, header: &str| {
        client.send(post(body).replacen("\r\n", &format!("\r\n{header}"), 1));
        client.receive().header("x-request-id").map(str::to_owned)
    };
    assert_eq!(id(SLOT, ""), None, "the request had none");
    assert_eq!(id(SLOT, "x-request-id: abc-1\r\n").as_deref(), Some("abc-1"));
    let made = id(SLOT, "x-request-id: a\"b\r\n");
    assert_eq!(made, None, "not valid in a log");
    assert_eq!(id(SUPPLY, "x-request-id: abc-2\r\n").as_deref(), Some("abc-2"));
    let made = [id(SUPPLY, ""), id(SUPPLY, "")].map(|id| id.expect("the pool computed it"));
    assert!(made[0].ends_with("-0-4") && made[1].ends_with("-0-5"), "{made:?}");
    client.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n");
    assert!(client.receive().header("x-request-id").is_some(), "every refusal has one");
}

/// A slow part of the metrics. It counts how many collections run at once.
#[derive(Default)]
struct SlowCollector {
    concurrent: AtomicUsize,
    concurrent_max: AtomicUsize,
    collections: AtomicUsize,
    /// Never notified: it is only used to wait with a timeout.
    nothing: (Mutex<()>, Condvar),
}

impl Collector for SlowCollector {
    fn write(&self, _: &mut Exposition) {
        let concurrent = self.concurrent.fetch_add(1, Ordering::SeqCst) + 1;
        self.concurrent_max.fetch_max(concurrent, Ordering::SeqCst);
        let lock = self.nothing.0.lock().expect("not poisoned");
        let _ = self.nothing.1.wait_timeout(lock, Duration::from_millis(20));
        self.concurrent.fetch_sub(1, Ordering::SeqCst);
        self.collections.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn concurrent_scrapes_share_one_collection() {
    let world = SolanaNode::new();
    let collector = Arc::new(SlowCollector::default());
    world.server.context.metrics.add(collector.clone());
    let mut clients: Vec<Client> = (0..50).map(|_| world.client()).collect();
    clients.iter_mut().for_each(|client| client.send(SCRAPE));
    // A client that disconnects does not permit another collection.
    let mut gone = world.client();
    gone.send(SCRAPE);
    drop(gone);
    for client in &mut clients {
        assert_eq!(client.receive().status, 200);
    }
    assert_eq!(collector.concurrent_max.load(Ordering::SeqCst), 1);
    let collections = collector.collections.load(Ordering::SeqCst);
    assert!(collections < 50, "{collections} collections");
}

#[test]
fn a_scrape_counts_as_its_clients_request() {
    let mut pool = cpu_pool::Config::default();
    pool.clients.requests_per_s = 2;
    let world = SolanaNode::with_config(Config::default(), pool);
    let mut client = world.client();
    let statuses: Vec<u16> = (0..4)
        .map(|_| {
            client.send(SCRAPE);
            client.receive().status
        })
        .collect();
    assert_eq!((statuses[0], statuses[3]), (200, 429), "{statuses:?}");
}

#[test]
fn a_connection_refused_before_its_first_request_is_counted() {
    let world = SolanaNode::new();
    for wrong in [
        "hello\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nlong: {}\r\n\r\n", "x".repeat(70_000)),
        format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000)),
    ] {
        let mut client = world.client();
        client.send(wrong);
        client.receive_all();
    }
    let metrics = ScrapedMetrics::scrape(&mut world.client());
    assert_eq!(metrics.get("hydrant_http_responses_total{status=\"400\"}"), 1.0, "{:?}", metrics.0);
    assert_eq!(metrics.get("hydrant_http_responses_total{status=\"431\"}"), 2.0, "{:?}", metrics.0);
}

#[test]
fn metrics_allow_reads_only() {
    let world = SolanaNode::new();
    let mut client = world.client();
    for path in ["/metrics", "/ready"] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n"));
        let head = client.receive_all();
        assert!(head.starts_with(b"HTTP/1.1 200") && head.ends_with(b"\r\n\r\n"), "{head:?}");
        client = world.client();
        client.send(format!("DELETE {path} HTTP/1.1\r\nhost: test\r\n\r\n"));
        assert_eq!(client.receive().status, 405);
    }
}
