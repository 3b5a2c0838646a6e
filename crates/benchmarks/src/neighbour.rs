//! A key at its limit and the latency of another key's requests, and the memory of keys: `keys [--toy] [--rounds N]`.
//!
//! Shape: one node with two keys. One sends getAccountInfo at a constant rate: alone, then while the other sends as fast as
//! it gets responses, over JSON-RPC, REST, WebSocket, and all three at once. A round has all of them, each round in another
//! order. A ratio is taken within its round, and the median of the rounds is reported. The flood's threads have a nice
//! value: in production they are on other machines.
//! Not here: memory (`key_memory`), the flood over WebSocket (`websocket_flood`).

mod key_memory;
mod key_text;
mod websocket_flood;

use std::path::Path;
use std::time::Duration;

use ::loadgen::{LoadPlan, Run, RunLength, Stream, status_ok};
use anyhow::{Context, Result, ensure};
use http_client::Endpoint;
use process_usage::Process;
use serde_json::json;
use testkit::node::Node;

use self::websocket_flood::{Flooded, WebSocketFlood};
use crate::arguments::value_of;
use crate::median::median;
use crate::{node, threshold};

/// Requests a second of the measured key, and those that the other key's tier admits.
const RATE: f64 = 1_000.0;
const LIMIT: u32 = 100;
/// Connections of each stream.
const CONNECTIONS: usize = 16;
/// Sockets of the flood over WebSocket.
const SOCKETS: usize = 8;
/// The nice value of the flood.
const NICE: u8 = 10;
/// "A key at its limit does not move another's p99 by more than a tenth".
const RATIO_MAX: f64 = 1.1;
/// The account that is read: the token program.
const ACCOUNT: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

/// The load of the other key.
struct Case {
    name: &'static str,
    bar: Option<&'static str>,
    json_rpc: bool,
    rest: bool,
    websocket: bool,
}

const CASES: [Case; 5] = [
    Case { name: "alone", bar: None, json_rpc: false, rest: false, websocket: false },
    Case {
        name: "beside JSON-RPC",
        bar: Some("keys_p99_beside_json_rpc"),
        json_rpc: true,
        rest: false,
        websocket: false,
    },
    Case {
        name: "beside REST",
        bar: Some("keys_p99_beside_rest"),
        json_rpc: false,
        rest: true,
        websocket: false,
    },
    Case {
        name: "beside WebSocket",
        bar: Some("keys_p99_beside_websocket"),
        json_rpc: false,
        rest: false,
        websocket: true,
    },
    Case {
        name: "beside all three",
        bar: Some("keys_p99_beside_all"),
        json_rpc: true,
        rest: true,
        websocket: true,
    },
];

/// One run of a case.
struct Measured {
    p50_ms: f64,
    p99_ms: f64,
    /// Admitted and refused requests of the flood, a second.
    admitted: f64,
    refused: f64,
    /// Cores that the node used.
    cores: f64,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let rounds = value_of(args, "--rounds")?.map(str::parse::<usize>).transpose();
    let rounds = rounds.context("--rounds")?.unwrap_or(if is_toy { 1 } else { 11 });
    ensure!(rounds > 0, "--rounds must be at least 1");
    let ms = Duration::from_millis;
    let (warm_up, measured) = if is_toy { (ms(20), ms(100)) } else { (ms(300), ms(2_000)) };
    key_memory::run(is_toy)?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("keys.toml");
    let keys = write_keys(&path)?;
    let node = node::dev(&["--api-keys", &path.to_string_lossy()])?.start()?;
    println!(
        "\n{RATE}/s of one key in {CONNECTIONS} connections, {rounds} rounds of {measured:?} each; the other key, \
         whose tier admits {LIMIT}/s, floods"
    );
    let mut runs: [Vec<Measured>; CASES.len()] = Default::default();
    for round in 0..rounds {
        for nth in 0..CASES.len() {
            let at = (nth + round) % CASES.len();
            runs[at].push(run_case(&node, &keys, &CASES[at], (warm_up, measured))?);
        }
        let p99s: Vec<String> =
            runs.iter().map(|runs| format!("{:.3}", runs[round].p99_ms)).collect();
        println!("round {}: p99 ms {}", round + 1, p99s.join(" "));
    }
    print_results(&runs);
    Ok(())
}

fn run_case(
    node: &Node,
    keys: &[String; 2],
    case: &Case,
    (warm_up, measured): (Duration, Duration),
) -> Result<Measured> {
    let endpoint = Endpoint::from(node.rpc);
    let request =
        |key: &str| endpoint.request_with("POST", "/", &[("x-api-key", key)], Some(&call()));
    let mut streams =
        vec![Stream::open_loop("measured", vec![request(&keys[0])], RATE, CONNECTIONS)];
    if case.json_rpc {
        let flood = Stream::closed_loop("JSON-RPC", vec![request(&keys[1])], CONNECTIONS);
        streams.push(flood.with_nice(NICE));
    }
    if case.rest {
        let path = format!("/v1/accounts/{ACCOUNT}");
        let request = endpoint.request_with("GET", &path, &[("x-api-key", &keys[1])], None);
        let flood = Stream::closed_loop("REST", vec![request], CONNECTIONS).with_nice(NICE);
        streams.push(Stream { classifier: status_ok, ..flood });
    }
    let sockets = if case.websocket { SOCKETS } else { 0 };
    let websockets = WebSocketFlood::start(node.ws, &keys[1], &call(), (sockets, NICE))?;
    let run_length = RunLength::Time { warm_up, measured };
    let process = Some(Process::with_id(node.pid()));
    let plan = LoadPlan { endpoint, streams, run_length, timeout: None, process };
    let run = plan.run();
    let flooded = websockets.stop();
    measured_of(&run?, &flooded?, measured)
}

/// The JSON-RPC call of every client.
fn call() -> String {
    let params =
        json!([ACCOUNT, { "encoding": "base64", "dataSlice": { "offset": 0, "length": 32 } }]);
    json!({ "jsonrpc": "2.0", "id": 1, "method": "getAccountInfo", "params": params }).to_string()
}

fn measured_of(run: &Run, flooded: &Flooded, measured: Duration) -> Result<Measured> {
    let (own, floods) = run.stats.split_first().context("the measured stream")?;
    ensure!(own.counts.ok == own.counts.total(), "the measured key: {}", own.counts.failures());
    let [ok, refused] = floods.iter().fold([0, 0], |[ok, refused], flood| {
        [ok + flood.counts.ok, refused + flood.counts.rejected]
    });
    let per_s = |count: u64| count as f64 / measured.as_secs_f64();
    Ok(Measured {
        p50_ms: own.ms(0.5),
        p99_ms: own.ms(0.99),
        admitted: per_s(ok) + flooded.admitted_per_s,
        refused: per_s(refused) + flooded.refused_per_s,
        cores: run.usage.as_ref().map_or(f64::NAN, |usage| usage.cores),
    })
}

fn print_results(runs: &[Vec<Measured>; CASES.len()]) {
    println!(
        "                    p50 ms   p99 ms  p99/alone  admitted/s  refused/s  cores of the node"
    );
    let [alone, ..] = runs;
    for (case, runs) in CASES.iter().zip(runs) {
        let of = |value: fn(&Measured) -> f64| median(runs.iter().map(value).collect());
        let ratios = runs.iter().zip(alone).map(|(run, alone)| run.p99_ms / alone.p99_ms);
        println!(
            "{:16} {:9.3} {:8.3} {:10.3} {:11.0} {:10.0} {:10.3}",
            case.name,
            of(|it| it.p50_ms),
            of(|it| it.p99_ms),
            median(ratios.collect()),
            of(|it| it.admitted),
            of(|it| it.refused),
            of(|it| it.cores),
        );
    }
    for (case, runs) in CASES.iter().zip(runs) {
        let Some(bar) = case.bar else { continue };
        let ratios = runs.iter().zip(alone).map(|(run, alone)| run.p99_ms / alone.p99_ms);
        threshold::at_most(bar, median(ratios.collect()), "x", RATIO_MAX);
    }
}

/// Writes the file, and returns the keys of the measured client and of the flood.
fn write_keys(path: &Path) -> Result<[String; 2]> {
    let mut text = format!("[tiers.measured]\n[tiers.neighbour]\nrequests_per_s = {LIMIT}\n");
    let keys = ["measured", "neighbour"].map(|tier| {
        let key = format!("hyd_key-of-the-{tier}-client");
        text += &key_text::entry(tier, &key, tier);
        key
    });
    std::fs::write(path, text)?;
    Ok(keys)
}
