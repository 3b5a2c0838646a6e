//! Transfers from the socket to execution, and the share of each stage in the time.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use process_usage::Process;
use serde_json::json;
use testkit::clock::{now, sleep_for};
use testkit::json_rpc_client::JsonRpcClient;
use testkit::transfers;

use super::process::Generator;
use super::size::Size;
use crate::node;

/// Maximum transfers sent and not executed: enough that no stage waits for the client, and less than the bound of any
/// queue, so that none is rejected.
const IN_FLIGHT_MAX: u64 = 8_000;
/// Transfers sent at once.
const CHUNK: u64 = 1_000;
/// Interval of the polls of the executed count.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Without progress for this long, a transfer was rejected.
const STALL_TIMEOUT: Duration = Duration::from_secs(2);

/// The stages in their order: name in the output, metric of the node, and label.
const STAGES: [(&str, &str, &str); 9] = [
    ("dedup", "hydrant_quic_step_seconds_total", "repeated"),
    ("sanitise: shape, decode", "hydrant_quic_step_seconds_total", "shape"),
    ("sanitise: executed already", "hydrant_quic_step_seconds_total", "executed"),
    ("signature verification", "hydrant_quic_step_seconds_total", "signatures"),
    ("hand-over to the queue", "hydrant_quic_step_seconds_total", "hand_over"),
    ("VM", "hydrant_executor_seconds_total", "vm"),
    ("write: state, indices", "hydrant_executor_seconds_total", "write"),
    ("hash of each block's accounts", "hydrant_executor_seconds_total", "hash"),
    ("publish, notify", "hydrant_executor_seconds_total", "publish"),
];

/// The address that a node announces for transactions.
pub(super) fn tpu_port(client: &mut JsonRpcClient) -> Result<u16> {
    let nodes = client.call("getClusterNodes", json!([]))?;
    let tpu = nodes[0]["tpuQuic"].as_str().context("the node announces no TPU")?;
    Ok(tpu.rsplit(':').next().context("no port")?.parse()?)
}

pub(super) fn run(size: &Size) -> Result<()> {
    let node = node::dev(&["--queue-max", "100000"])?.start()?;
    let mut client = JsonRpcClient::open(node.rpc)?;
    let payers = transfers::fund_payers(&mut client, 64)?;
    let signed = transfers::signed_transfers(&mut client, &payers, size.transfers)?;
    let mut file = tempfile::NamedTempFile::new()?;
    for transaction in &signed {
        let bytes = bincode::serialize(transaction)?;
        file.write_all(&u32::try_from(bytes.len())?.to_le_bytes())?;
        file.write_all(&bytes)?;
    }
    file.flush()?;
    let plan = format!("connections=4 transactions={}", file.path().display());
    let mut generator = Generator::start(tpu_port(&mut client)?, &plan)?;

    let threads = thread_times(node.pid())?;
    let before = metrics(&mut client)?;
    let executed_before = executed(&mut client)?;
    let began = now();
    let all = signed.len() as u64;
    let mut sent = 0;
    let mut seen = 0;
    let mut took = began.elapsed();
    while seen < all && began.elapsed() < took + STALL_TIMEOUT {
        if sent < all && sent < seen + IN_FLIGHT_MAX {
            let chunk = CHUNK.min(all - sent);
            generator.run(&format!("streams={chunk}"))?;
            sent += chunk;
        } else {
            sleep_for(POLL_INTERVAL);
        }
        // Includes the vote of each block; there are few.
        let now = executed(&mut client)? - executed_before;
        if now > seen {
            (seen, took) = (now, began.elapsed());
        }
    }
    let after = metrics(&mut client)?;
    let delta = |key: &str| {
        let [before, after] = [&before, &after].map(|all| all.get(key).copied().unwrap_or(0.0));
        after - before
    };
    let count = seen as f64;
    println!(
        "{count} transfers over QUIC, executed: {:.0} a second; first byte to ledger's queue: half within \
         {:.0} us, 99 % within {:.0} us",
        count / took.as_secs_f64(),
        quantile(&before, &after, 0.5) * 1e6,
        quantile(&before, &after, 0.99) * 1e6,
    );
    for (key, _) in after.iter().filter(|(key, _)| key.starts_with("hydrant_quic_refused_total")) {
        if delta(key) > 0.0 {
            println!("  refused: {key} {}", delta(key));
        }
    }
    let threads = threads_delta(&threads, &thread_times(node.pid())?);
    stages(&threads, delta, count);
    println!("by thread:");
    for (name, used) in &threads {
        println!("  {name:28} {:6.1} us a transfer", used / count * 1e6);
    }
    generator.end()
}

/// CPU seconds of each thread.
fn threads_delta(
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
) -> BTreeMap<String, f64> {
    let used = |(name, time): (&String, &f64)| {
        (name.clone(), time - before.get(name).copied().unwrap_or_default())
    };
    after.iter().map(used).filter(|(_, used)| *used > 0.0).collect()
}

/// The share of each stage: those of threads of their own by CPU time, the others as the node measures
/// them, which on a busy machine includes waiting for a core.
fn stages(threads: &BTreeMap<String, f64>, delta: impl Fn(&str) -> f64, count: f64) {
    let receive = threads.iter().filter(|(name, _)| name.starts_with("quic-"));
    let mut table = vec![("receive", receive.map(|(_, used)| used).sum::<f64>())];
    for (name, family, label) in STAGES {
        let key = if family.contains("quic") { "step" } else { "part" };
        table.push((name, delta(&format!("{family}{{{key}=\"{label}\"}}"))));
    }
    let all: f64 = table.iter().map(|(_, seconds)| seconds).sum();
    for (name, seconds) in table {
        let each = seconds / count * 1e6;
        let share = seconds / all * 100.0;
        println!("  {name:28} {each:6.1} us a transfer, {share:3.0} %");
    }
}

fn executed(client: &mut JsonRpcClient) -> Result<u64> {
    let count = client.call("getTransactionCount", json!([{"commitment": "processed"}]))?;
    count.as_u64().context("not a count")
}

/// Seconds of CPU time that each of a process' threads has used, by name; equal names together.
fn thread_times(pid: u32) -> Result<BTreeMap<String, f64>> {
    let times = Process::with_id(pid).cpu_time_by_thread()?;
    Ok(times.into_iter().map(|(name, time)| (name, time.as_secs_f64())).collect())
}

/// All metrics of the node, by name with labels.
fn metrics(client: &mut JsonRpcClient) -> Result<BTreeMap<String, f64>> {
    let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let body = client.exchange(request)?.body;
    let text = std::str::from_utf8(body)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let metrics = lines.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    Ok(metrics.collect())
}

/// A quantile, in seconds, of the latencies between two scrapes: the bound of its bucket.
fn quantile(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>, quantile: f64) -> f64 {
    const BUCKET: &str = "hydrant_quic_transaction_duration_seconds_bucket{le=\"";
    let mut buckets: Vec<(f64, f64)> = after
        .iter()
        .filter_map(|(key, count)| {
            let bound = key.strip_prefix(BUCKET)?.strip_suffix("\"}")?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            Some((bound, count - before.get(key).copied().unwrap_or_default()))
        })
        .collect();
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all = buckets.last().map_or(0.0, |(_, count)| *count);
    let found = buckets.iter().find(|(_, count)| *count >= all * quantile);
    found.map_or(f64::NAN, |(bound, _)| *bound)
}
