//! Time from process start to the first response to getHealth: `start [--toy]`.
//!
//! A ledger in memory, as `hydrant dev` makes it with no flags; each run is a new process.

use anyhow::{Result, bail, ensure};
use process_usage::Process;
use serde_json::json;
use testkit::json_rpc_client::JsonRpcClient;

use crate::median::median;
use crate::{node, threshold};

/// Runs at full size; one more before them reads the program from disk and does not count.
const RUNS: usize = 20;
const RUNS_TOY: usize = 1;

/// "Ready in under a second."
const START_MS_MAX: f64 = 1_000.0;

pub(crate) fn run(args: &[String]) -> Result<()> {
    let runs = match args {
        [] => RUNS,
        [toy] if toy == "--toy" => RUNS_TOY,
        _ => bail!("usage: start [--toy]"),
    };
    first_response()?;
    let mut times = Vec::new();
    let mut resident = Vec::new();
    let mut huge = Vec::new();
    let mut of_files = Vec::new();
    for _ in 0..runs {
        let (ms, memory) = first_response()?;
        times.push(ms);
        for (all, bytes) in [&mut resident, &mut huge, &mut of_files].into_iter().zip(memory) {
            all.push(bytes as f64 / (1 << 20) as f64);
        }
    }
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    let middle = median(times);
    println!("process start to the first response to getHealth, {runs} runs after a warm-up:");
    println!("  median {middle:.1} ms, least {least:.1} ms, most {most:.1} ms");
    println!(
        "resident memory then: median {:.1} MiB, {:.1} MiB of it in transparent huge pages, {:.1} MiB of files",
        median(resident),
        median(huge),
        median(of_files)
    );
    threshold::line("start_ms", format_args!("{middle:.1}"), "ms", "<=", START_MS_MAX);
    Ok(())
}

/// Milliseconds from start to the response, and the bytes that are resident then: all, in huge pages, and of files.
fn first_response() -> Result<(f64, [u64; 3])> {
    let node = node::dev(&[])?.start()?;
    let mut client = JsonRpcClient::open(node.rpc)?;
    let health = client.call("getHealth", json!([]))?;
    let took = node.started.elapsed();
    ensure!(health == "ok", "getHealth: {health}");
    let process = Process::with_id(node.pid());
    let memory = [process.resident_bytes()?, process.huge_page_bytes()?, process.file_bytes()?];
    Ok((took.as_secs_f64() * 1e3, memory))
}
