//! A key at its limit and the latency of another key's requests: `keys [--toy] [--rounds N]`.
//!
//! Shape: one node with two keys. One sends getAccountInfo at a constant rate: alone, while the other sends as many
//! requests as its tier admits, and while the other sends twenty times as many, nearly all of which get 429. A ratio is
//! taken within its round, and the median of the rounds is reported.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ::loadgen::{Endpoint, LoadPlan, Run, RunLength, Stream};
use anyhow::{Context, Result, ensure};
use process_usage::Process;
use serde_json::json;

use crate::arguments::value_of;
use crate::median::median;
use crate::{node, threshold};

/// Requests a second of the measured key, and what the other key's tier admits.
const RATE: f64 = 500.0;
const LIMIT: f64 = 100.0;
/// What the other key sends, as a multiple of its limit.
const OVER: f64 = 20.0;
/// Connections of each key.
const CONNECTIONS: usize = 16;
/// "A key at its limit does not move another's p99 by more than a tenth".
const RATIO_MAX: f64 = 1.1;
/// The account that is read: the token program.
const ACCOUNT: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let rounds = value_of(args, "--rounds")?.map(str::parse::<usize>).transpose();
    let rounds = rounds.context("--rounds")?.unwrap_or(if is_toy { 1 } else { 9 });
    let (warm_up, measured) = if is_toy { (20, 200) } else { (500, 5_000) };
    let (warm_up, measured) = (Duration::from_millis(warm_up), Duration::from_millis(measured));
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("keys.toml");
    let keys = write_keys(&path)?;
    let node = node::dev(&["--api-keys", &path.to_string_lossy()])?.start()?;
    let run = |neighbour: Option<f64>| -> Result<Run> {
        let endpoint = Endpoint::from(node.rpc);
        let mut streams = vec![Stream::open_loop(
            "measured",
            vec![request(&endpoint, &keys[0])],
            RATE,
            CONNECTIONS,
        )];
        if let Some(rate) = neighbour {
            let request = request(&endpoint, &keys[1]);
            streams.push(Stream::open_loop("neighbour", vec![request], rate, CONNECTIONS));
        }
        let run_length = RunLength::Time { warm_up, measured };
        let process = Some(Process::with_id(node.pid()));
        let plan = LoadPlan { endpoint, streams, run_length, timeout: None, process };
        let run = plan.run()?;
        let counts = &run.stats[0].counts;
        ensure!(counts.ok == counts.total(), "the measured key was refused");
        Ok(run)
    };
    let cases = [("alone", None), ("at its limit", Some(LIMIT)), ("over it", Some(LIMIT * OVER))];
    let mut p99s: [Vec<f64>; 3] = Default::default();
    let mut refused = Vec::new();
    for _ in 0..rounds {
        for (p99s, (_, neighbour)) in p99s.iter_mut().zip(cases) {
            let run = run(neighbour)?;
            p99s.push(run.stats[0].ms(0.99));
            if neighbour == Some(LIMIT * OVER) {
                let counts = &run.stats[1].counts;
                refused.push(1.0 - counts.ok as f64 / counts.total().max(1) as f64);
            }
        }
    }
    println!(
        "{RATE}/s of one key, {rounds} rounds of {measured:?}; the other key: p99 ms, x alone"
    );
    let [alone, ..] = &p99s;
    let ratio =
        |p99s: &[f64]| median(p99s.iter().zip(alone).map(|(it, alone)| it / alone).collect());
    for ((name, _), p99s) in cases.iter().zip(&p99s) {
        println!("{name:14} {:8.3} {:8.3}", median(p99s.clone()), ratio(p99s));
    }
    println!("over it, {:.3} of the other key's requests are refused", median(refused));
    threshold::at_most("keys_neighbour_p99", ratio(&p99s[2]), "x", RATIO_MAX);
    Ok(())
}

/// Writes the file, and returns the keys of `measured` and `neighbour`.
fn write_keys(path: &Path) -> Result<[String; 2]> {
    let mut text = format!("[tiers.measured]\n[tiers.neighbour]\nrequests_per_s = {LIMIT:.0}\n");
    let mut keys = [String::new(), String::new()];
    for (key, tier) in keys.iter_mut().zip(["measured", "neighbour"]) {
        let mut command = Command::new(node::program()?);
        let created = command.args(["api-key", "new", "--name", tier, "--tier", tier]).output()?;
        ensure!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
        let created = String::from_utf8(created.stdout)?;
        let (first, entry) = created.split_once('\n').context("a key and its entry")?;
        first.clone_into(key);
        text += entry;
    }
    std::fs::write(path, text)?;
    Ok(keys)
}

fn request(endpoint: &Endpoint, key: &str) -> Vec<u8> {
    let params =
        json!([ACCOUNT, { "encoding": "base64", "dataSlice": { "offset": 0, "length": 32 } }]);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "getAccountInfo", "params": params })
        .to_string();
    endpoint.request_with("POST", "/", &[("x-api-key", key)], Some(&body))
}
