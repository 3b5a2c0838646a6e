//! The quick profile: the instructions of a response of each kind, compared with a constant one.
//!
//! The kinds of ladder and suites are requested one after another over one connection, while callgrind counts the
//! server's instructions. The count is the same on every machine, busy or not, so that a tenth more is detected. It is
//! compared with `recorded.json`, or recorded there. A 304 is compared with the 200 of its route (`not_modified`).

use std::sync::Arc;
use std::time::Duration;

use ::loadgen::{Run, RunLength, Stream};
use anyhow::{Context, Result, ensure};
use process_usage::Process;
use serde_json::{Value, json};
use testkit::clock::sleep_for;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::NodeCommand;

use super::baseline::{self, Ratio};
use super::callgrind::Callgrind;
use super::rounds::Case;
use super::server::Server;
use super::size::Size;
use super::targets::Targets;
use super::{cost_breakdown, not_modified, suites};
use crate::ledger_process::protocol::Settings;
use crate::node;

/// Approximate instructions of a round, and its maximum number of requests.
const ROUND_INSTRUCTIONS: f64 = 8e6;
const ROUND_REQUESTS_MIN: usize = 4;
const ROUND_REQUESTS_MAX: usize = 200;

/// The time slice. No task yields within it, although the server runs fifty times slower than the clock.
const SLICE_US: u64 = 60_000_000;

/// The slot of the ledger with transactions, in milliseconds: so long that all of them are in one block, and that
/// a round is rarely interrupted by another block.
const SLOT_MS: &str = "8000";

/// Number of slots, from the newest back, that requests for slots use.
const SLOTS: u64 = 2;

/// Rounds of requests for accounts, which nothing disturbs, and of requests to a ledger with slots.
const ROUNDS: usize = 3;
const HISTORY_ROUNDS: usize = 7;

/// Time limit of the ledger with slots, until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(120);

/// How long its slot may take to end, and how often that is polled.
const SLOT_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Measures all kinds, and records them or compares them with the recording.
pub(crate) fn run(size: &Size, is_recorded: bool) -> Result<()> {
    let mut ratios = account_ratios(size)?;
    ratios.extend(history_ratios(size)?);
    let missed = not_modified::report(&ratios)?;
    println!("{} of these miss the bar", missed.len());
    if is_recorded { baseline::write(&ratios) } else { baseline::compare(&ratios) }
}

fn account_ratios(size: &Size) -> Result<Vec<Ratio>> {
    let callgrind = Callgrind::new()?;
    let mut server = Server::start(size.accounts, Some(&callgrind))?;
    let io_threads = 1;
    let cpu_threads = 1;
    let settings =
        Settings { io_threads, cpu_threads, slice_us: SLICE_US, ..Settings::like_binary() };
    let serving = server.serve(settings)?;
    let targets = Targets::discover(size.accounts, serving.uncached)?;
    let mut counted = CountedServer { callgrind, pid: server.pid(), size };
    let mut ratios = counted.ratios(&cost_breakdown::cases(serving, &targets), "", ROUNDS)?;
    ratios.extend(counted.ratios(&suites::account_cases(serving.rpc)?, "suite_", ROUNDS)?);
    Ok(ratios)
}

fn history_ratios(size: &Size) -> Result<Vec<Ratio>> {
    let callgrind = Callgrind::new()?;
    let hydrant = callgrind.command(&node::program()?);
    let flags = ["--io-threads", "1", "--cpu-threads", "1", "--slot-ms", SLOT_MS];
    let flags = [&flags[..], &["--finalize-after", "0"]].concat();
    let node = NodeCommand::dev(hydrant).args(flags).with_ready_timeout(READY_TIMEOUT).start()?;
    let mut client = JsonRpcClient::open(node.rpc)?;
    wait_for_next_slot(&mut client)?;
    let payers = suites::send(node.rpc, size)?;
    let cases = suites::history_cases(node.rpc, SLOTS, payers)?;
    let mut counted = CountedServer { callgrind, pid: node.pid(), size };
    counted.ratios(&cases, "suite_", HISTORY_ROUNDS)
}

/// Waits for the start of a slot.
fn wait_for_next_slot(client: &mut JsonRpcClient) -> Result<()> {
    let mut slot =
        || -> Result<Value> { client.call("getSlot", json!([{ "commitment": "processed" }])) };
    let before = slot()?;
    for _ in 0..SLOT_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
        if slot()? != before {
            return Ok(());
        }
        sleep_for(POLL_INTERVAL);
    }
    None.with_context(|| format!("no slot ended within {SLOT_TIMEOUT:?}"))
}

/// A server whose instructions are counted.
struct CountedServer<'a> {
    callgrind: Callgrind,
    pid: u32,
    size: &'a Size,
}

impl CountedServer<'_> {
    /// The costs of the cases and of their constants, in `rounds` rounds.
    fn ratios(&mut self, cases: &[Case], prefix: &str, rounds: usize) -> Result<Vec<Ratio>> {
        let mut streams = Vec::new();
        for case in cases {
            streams.push(self.round_stream(case)?);
        }
        let mut costs: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
        self.callgrind.instructions_since_last(self.pid)?;
        for round in 0..rounds {
            // Each round starts with another kind, so that periodic work is not always counted for the same kind.
            for nth in (0..cases.len()).map(|at| (at + 2 * round) % cases.len()) {
                costs[nth].push(self.cost(&cases[nth], &streams[nth])?);
            }
        }
        let mut ratios = Vec::new();
        for (nth, case) in cases.iter().enumerate().filter(|(nth, case)| case.constant != *nth) {
            let name = format!("{prefix}{}", case.stream.name.replace(' ', "_"));
            let own = costs[nth].clone();
            let constant = costs[case.constant].clone();
            ratios.push(Ratio { name, own, constant });
        }
        Ok(ratios)
    }

    /// Requests of the case, evenly chosen, that take about [`ROUND_INSTRUCTIONS`] together. Each has been sent once
    /// before, so that it is cached if it ever is.
    fn round_stream(&mut self, case: &Case) -> Result<Stream> {
        let all = &case.stream.requests;
        ensure!(case.stream.classifiers.is_none(), "requests of one kind");
        let some = |count: usize| {
            let every = (all.len() / count).max(1);
            let requests = all.iter().step_by(every).cycle().take(count).cloned().collect();
            Stream { requests: Arc::new(requests), connections: 1, ..case.stream.clone() }
        };
        let few = some(ROUND_REQUESTS_MIN);
        self.run_stream(case, &few)?;
        self.callgrind.instructions_since_last(self.pid)?;
        let count = (ROUND_INSTRUCTIONS / self.cost(case, &few)?.max(1.0)) as usize;
        let round = some(count.clamp(ROUND_REQUESTS_MIN, ROUND_REQUESTS_MAX));
        self.run_stream(case, &round)?;
        Ok(round)
    }

    /// Instructions for each response. The last count must be directly before.
    fn cost(&mut self, case: &Case, stream: &Stream) -> Result<f64> {
        let run = self.run_stream(case, stream)?;
        let executed = self.callgrind.instructions_since_last(self.pid)?;
        Ok(executed as f64 / run.stats[0].counts.ok.max(1) as f64)
    }

    fn run_stream(&self, case: &Case, stream: &Stream) -> Result<Run> {
        case.run(stream, RunLength::Once, Process::with_id(self.pid), self.size)
    }
}
