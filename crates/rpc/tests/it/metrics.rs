//! `/metrics` as a stranger's parser reads it, and request ids: what was asked is counted, once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pool::Class;
use prometheus_parse::{LineInfo, SampleType, Scrape, Value};
use rpc::Config;

use crate::wire::{Client, post};
use crate::world::{PROGRAM, World};

const SLOT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getSlot"}"#;
const SUPPLY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getVoteAccounts"}"#;
const SCRAPE: &str = "GET /metrics HTTP/1.1\r\nhost: test\r\n\r\n";

/// Figures by their name and labels as they are written, buckets left out.
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
        let scrape = Scrape::parse(lines).expect("it can be read");
        let mut figures = BTreeMap::new();
        for sample in scrape.samples {
            let name = match sample.labels.is_empty() {
                true => sample.metric,
                false => format!("{}{{{}}}", sample.metric, sample.labels),
            };
            match sample.value {
                Value::Counter(figure) | Value::Gauge(figure) | Value::Untyped(figure) => {
                    assert!(figures.insert(name.clone(), figure).is_none(), "{name} comes twice");
                }
                Value::Histogram(buckets) => {
                    let cumulative = buckets.windows(2).all(|two| {
                        two[0].less_than < two[1].less_than && two[0].count <= two[1].count
                    });
                    assert!(cumulative, "{name}: {buckets:?}");
                    let last = buckets.last().expect("buckets");
                    assert!(last.less_than.is_infinite(), "{name}: {buckets:?}");
                    figures.insert(format!("buckets of {name}"), last.count);
                }
                Value::Summary(_) => panic!("{name} is a summary"),
            }
        }
        Self(figures)
    }

    pub(crate) fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> &BTreeMap<String, f64> {
        &self.0
    }
}

/// Every figure is of a family that has a HELP and a TYPE before it, each once.
fn check(text: &str) {
    let (mut helped, mut typed) = (BTreeSet::new(), BTreeSet::new());
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
    let world = World::new();
    let mut client = world.client();
    let before = ScrapedMetrics::scrape(&mut client);
    assert_eq!(before.get("hydrant_slot{commitment=\"processed\"}"), 102.0);
    assert_eq!(before.get("hydrant_http_connections_open"), 1.0);
    let accounts = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"getProgramAccounts","params":["{PROGRAM}",{{"encoding":"base64"}}]}}"#
    );
    let asked: [(&str, u16); 11] = [
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
    for (body, status) in asked {
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
        ("hydrant_requests_total{class=\"inline\",method=\"getSlot\",transport=\"http\"}", 5.0),
        // A batch is as heavy as the heaviest of its calls.
        ("hydrant_requests_total{class=\"medium\",method=\"getSlot\",transport=\"http\"}", 1.0),
        ("hydrant_requests_total{class=\"inline\",method=\"getHealth\",transport=\"http\"}", 1.0),
        ("hydrant_requests_total{class=\"inline\",method=\"other\",transport=\"http\"}", 1.0),
        ("hydrant_requests_total{class=\"inline\",method=\"none\",transport=\"http\"}", 1.0),
        (
            "hydrant_requests_total{class=\"medium\",method=\"getVoteAccounts\",transport=\"http\"}",
            2.0,
        ),
        (
            "hydrant_requests_total{class=\"medium\",method=\"getProgramAccounts\",transport=\"http\"}",
            1.0,
        ),
        (
            "hydrant_requests_total{class=\"cached\",method=\"getProgramAccounts\",transport=\"http\"}",
            1.0,
        ),
        (
            "hydrant_request_errors_total{code=\"-32602\",method=\"getSlot\",transport=\"http\"}",
            1.0,
        ),
        ("hydrant_request_errors_total{code=\"-32601\",method=\"other\",transport=\"http\"}", 1.0),
        ("hydrant_request_errors_total{code=\"-32700\",method=\"none\",transport=\"http\"}", 1.0),
        (
            "hydrant_request_duration_seconds_count{class=\"inline\",method=\"getSlot\",transport=\"http\"}",
            5.0,
        ),
        (
            "buckets of hydrant_request_duration_seconds{class=\"inline\",method=\"getSlot\",transport=\"http\"}",
            5.0,
        ),
        ("hydrant_slow_requests_total", 0.0),
        ("hydrant_cache_lookups_total{cache=\"answers\",result=\"hit\"}", 1.0),
        ("hydrant_cache_lookups_total{cache=\"answers\",result=\"miss\"}", 1.0),
        ("hydrant_cache_entries{cache=\"answers\"}", 1.0),
        ("hydrant_pool_done_total{class=\"medium\"}", 3.0),
        // The first scrape's own answer is counted after it was told.
        ("hydrant_http_responses_total{status=\"200\"}", 12.0),
        ("hydrant_http_responses_total{status=\"405\"}", 1.0),
        ("hydrant_http_connections_accepted_total", 0.0),
    ] {
        assert_eq!(moved(name), by, "{name}: {:?}", after.0);
    }
    let get = "GET / HTTP/1.1\r\nhost: test\r\n\r\n".len();
    let wanted = (sent + get + SCRAPE.len()) as f64;
    assert_eq!(moved("hydrant_http_bytes_total{direction=\"in\"}"), wanted);
    assert!(moved("hydrant_http_bytes_total{direction=\"out\"}") > 130_000.0);
    let all = |name: &str| -> f64 {
        let figures = after.0.iter().filter(|(figure, _)| figure.starts_with(name));
        figures.map(|(_, figure)| figure).sum()
    };
    assert_eq!(all("hydrant_requests_total"), 13.0, "no call is counted twice: {:?}", after.0);
    assert_eq!(all("hydrant_request_errors_total"), 3.0);
}

#[test]
fn refusals_and_what_waits_are_reported_by_their_cause() {
    let mut pool = pool::Config::default();
    pool.medium.tasks_max = 1;
    let world = World::with(Config::default(), pool);
    let release = world.occupy_pool();
    let mut waiting = world.client();
    waiting.send(post(SUPPLY));
    world.wait_pool(|pool| pool.class(Class::Medium).queued == 1);
    let mut client = world.client();
    assert_eq!(client.post(SUPPLY).status, 429);
    assert_eq!(client.post(&format!("[{SUPPLY},{SUPPLY}]")).status, 429);
    let figures = ScrapedMetrics::scrape(&mut client);
    for (name, figure) in [
        ("hydrant_rejected_total{cause=\"queue_full\",class=\"medium\"}", 2.0),
        ("hydrant_rejected_total{cause=\"client_rate\",class=\"any\"}", 0.0),
        // Both calls of the batch were answered with an error.
        (
            "hydrant_request_errors_total{code=\"-32005\",method=\"getVoteAccounts\",transport=\"http\"}",
            3.0,
        ),
        ("hydrant_requests_in_flight{class=\"medium\"}", 1.0),
        ("hydrant_pool_queue_depth{class=\"medium\"}", 1.0),
        ("hydrant_http_responses_total{status=\"429\"}", 2.0),
        ("hydrant_http_connections_open", 2.0),
    ] {
        assert_eq!(figures.get(name), figure, "{name}: {:?}", figures.0);
    }
    // Who leaves is counted as well.
    drop(waiting);
    world.wait_pool(|pool| pool.class(Class::Medium).cancelled == 1);
    drop(release);
    let cut =
        "hydrant_request_errors_total{code=\"cut\",method=\"getVoteAccounts\",transport=\"http\"}";
    while ScrapedMetrics::scrape(&mut client).get(cut) < 1.0 {
        std::thread::yield_now();
    }
    let figures = ScrapedMetrics::scrape(&mut client);
    assert_eq!(figures.get("hydrant_pool_cancelled_total{class=\"medium\"}"), 1.0);
    assert_eq!(figures.get("hydrant_requests_in_flight{class=\"medium\"}"), 0.0);
    assert_eq!(figures.get(cut), 1.0);
}

#[test]
fn a_slow_request_is_counted_and_a_limit_of_0_counts_none() {
    for (slow_request_ms, slow) in [(1, 1.0), (0, 0.0)] {
        let config = Config { slow_request_ms, ..Config::default() };
        let world = World::with(config, pool::Config::default());
        let release = world.occupy_pool();
        let mut client = world.client();
        client.send(post(SUPPLY));
        world.wait_pool(|pool| pool.class(Class::Medium).queued == 1);
        let until = world.node.pool.now() + std::time::Duration::from_millis(2);
        while world.node.pool.now() < until {
            std::thread::yield_now();
        }
        drop(release);
        assert_eq!(client.receive().status, 200);
        assert_eq!(ScrapedMetrics::scrape(&mut client).get("hydrant_slow_requests_total"), slow);
    }
}

#[test]
fn a_request_has_an_id_which_is_sent_where_it_costs_nothing() {
    let world = World::new();
    let mut client = world.client();
    let mut id = |body: &str, header: &str| {
        client.send(post(body).replacen("\r\n", &format!("\r\n{header}"), 1));
        client.receive().header("x-request-id").map(str::to_owned)
    };
    assert_eq!(id(SLOT, ""), None, "nobody asked for it");
    assert_eq!(id(SLOT, "x-request-id: abc-1\r\n").as_deref(), Some("abc-1"));
    let made = id(SLOT, "x-request-id: a\"b\r\n");
    assert_eq!(made, None, "not one for a log");
    assert_eq!(id(SUPPLY, "x-request-id: abc-2\r\n").as_deref(), Some("abc-2"));
    let made = [id(SUPPLY, ""), id(SUPPLY, "")].map(|id| id.expect("it came from the pool"));
    assert!(made[0].ends_with("-0-4") && made[1].ends_with("-0-5"), "{made:?}");
    client.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n");
    assert!(client.receive().header("x-request-id").is_some(), "it is refused");
}

/// A part whose figures take a while, and that knows how many ask for them at once.
#[derive(Default)]
struct SlowCollector {
    concurrent: AtomicUsize,
    concurrent_max: AtomicUsize,
    collections: AtomicUsize,
    /// Never notified: only what waits with a limit.
    nothing: (Mutex<()>, Condvar),
}

impl rpc::metrics::Collector for SlowCollector {
    fn write(&self, _: &mut rpc::metrics::Exposition) {
        let asking = self.concurrent.fetch_add(1, Ordering::SeqCst) + 1;
        self.concurrent_max.fetch_max(asking, Ordering::SeqCst);
        let lock = self.nothing.0.lock().expect("no panic before");
        let _ = self.nothing.1.wait_timeout(lock, Duration::from_millis(20));
        self.concurrent.fetch_sub(1, Ordering::SeqCst);
        self.collections.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn concurrent_scrapes_share_one_collection() {
    let world = World::new();
    let patient = Arc::new(SlowCollector::default());
    world.node.metrics.add(patient.clone());
    let mut clients: Vec<Client> = (0..50).map(|_| world.client()).collect();
    clients.iter_mut().for_each(|client| client.send(SCRAPE));
    // One who leaves makes no room for another walk.
    let mut gone = world.client();
    gone.send(SCRAPE);
    drop(gone);
    for client in &mut clients {
        assert_eq!(client.receive().status, 200);
    }
    assert_eq!(patient.concurrent_max.load(Ordering::SeqCst), 1);
    let told = patient.collections.load(Ordering::SeqCst);
    assert!(told < 50, "{told} walks");
}

#[test]
fn a_scrape_counts_as_a_request_of_its_client() {
    let mut pool = pool::Config::default();
    pool.clients.requests_per_s = 2;
    let world = World::with(Config::default(), pool);
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
fn what_is_refused_before_it_is_a_request_is_counted() {
    let world = World::new();
    for wrong in [
        "hello\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nlong: {}\r\n\r\n", "x".repeat(70_000)),
        format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000)),
    ] {
        let mut client = world.client();
        client.send(wrong);
        client.receive_all();
    }
    let figures = ScrapedMetrics::scrape(&mut world.client());
    assert_eq!(figures.get("hydrant_http_responses_total{status=\"400\"}"), 1.0, "{:?}", figures.0);
    assert_eq!(figures.get("hydrant_http_responses_total{status=\"431\"}"), 2.0, "{:?}", figures.0);
}

#[test]
fn metrics_are_read_and_nothing_else() {
    let world = World::new();
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
