//! The quick profile: what an answer of each kind costs in instructions, beside what a constant one does.
//!
//! The kinds of ladder and suites, asked one after another over one connection, while callgrind counts what the
//! server executes: the same on every machine and however busy it is, so that a tenth more is found. It is compared
//! with what is recorded in `recorded.json`, or recorded there.

use std::sync::Arc;
use std::time::Duration;

use ::loadgen::{Process, Run, RunLength, Stream};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::baseline::{self, Ratio};
use super::callgrind::Callgrind;
use super::rounds::Case;
use super::server::Server;
use super::targets::Targets;
use super::{Size, cost_breakdown, suites};
use crate::client::Client;
use crate::node::{self, Node};
use crate::protocol::Settings;

/// Of a round: instructions that it takes about, and how many requests it may have.
const ROUND_INSTRUCTIONS: f64 = 8e6;
const ROUND_REQUESTS_MIN: usize = 4;
const ROUND_REQUESTS_MAX: usize = 200;

/// So long that no answer is cut into slices by a clock that goes fifty times as fast as the server.
const SLICE_US: u64 = 60_000_000;

/// Of the ledger with transactions, in milliseconds: so long that all of them come into one block, and that
/// another block is hardly ever made while a round is counted.
const SLOT_MS: &str = "8000";

/// What asks for slots asks for so many of the last ones, however long it took until here.
const SLOTS: u64 = 2;

/// Rounds of those that ask for accounts, where nothing comes in between, and of those over a ledger with slots.
const ROUNDS: usize = 3;
const HISTORY_ROUNDS: usize = 7;

/// How long that ledger may take to be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(120);

/// How long its slot may take to end, and how often that is looked for.
const SLOT_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Measures all kinds, and records them or compares them with what is recorded.
pub(crate) fn run(size: &Size, is_recorded: bool) -> Result<()> {
    let mut ratios = account_ratios(size)?;
    ratios.extend(history_ratios(size)?);
    if is_recorded { baseline::write(&ratios) } else { baseline::compare(&ratios) }
}

fn account_ratios(size: &Size) -> Result<Vec<Ratio>> {
    let callgrind = Callgrind::new()?;
    let mut server = Server::start(size.accounts, Some(&callgrind))?;
    let (io_threads, cpu_threads) = (1, 1);
    let settings =
        Settings { io_threads, cpu_threads, slice_us: SLICE_US, ..Settings::like_binary() };
    let serving = server.serve(settings)?;
    let targets = Targets::discover(size.accounts, serving.uncached)?;
    let mut counted = CountedServer { callgrind, process: server.process(), size };
    let mut ratios = counted.ratios(&cost_breakdown::cases(serving, &targets), "", ROUNDS)?;
    ratios.extend(counted.ratios(&suites::account_cases(serving.rpc)?, "suite_", ROUNDS)?);
    Ok(ratios)
}

fn history_ratios(size: &Size) -> Result<Vec<Ratio>> {
    let callgrind = Callgrind::new()?;
    let command = callgrind.command(&node::program()?);
    let flags = ["--io-threads", "1", "--cpu-threads", "1", "--slot-ms", SLOT_MS];
    let flags = [&flags[..], &["--finalize-after", "0"]].concat();
    let node = Node::start_command(command, &flags, READY_TIMEOUT)?;
    let mut client = Client::open(node.rpc)?;
    wait_for_next_slot(&mut client)?;
    let payers = suites::send(node.rpc, size)?;
    let cases = suites::history_cases(node.rpc, SLOTS, payers)?;
    let mut counted = CountedServer { callgrind, process: Process(node.pid()), size };
    counted.ratios(&cases, "suite_", HISTORY_ROUNDS)
}

/// Waits until a slot has just begun.
fn wait_for_next_slot(client: &mut Client) -> Result<()> {
    let mut slot =
        || -> Result<Value> { client.call("getSlot", json!([{ "commitment": "processed" }])) };
    let before = slot()?;
    for _ in 0..SLOT_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
        if slot()? != before {
            return Ok(());
        }
        node::sleep_for(POLL_INTERVAL);
    }
    None.with_context(|| format!("no slot ended within {SLOT_TIMEOUT:?}"))
}

/// A server that is counted.
struct CountedServer<'a> {
    callgrind: Callgrind,
    process: Process,
    size: &'a Size,
}

impl CountedServer<'_> {
    /// What they cost beside their constants, in so many rounds.
    fn ratios(&mut self, cases: &[Case], prefix: &str, rounds: usize) -> Result<Vec<Ratio>> {
        let mut streams = Vec::new();
        for case in cases {
            streams.push(self.round_stream(case)?);
        }
        let mut costs: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
        self.callgrind.instructions_since_last(self.process.0)?;
        for round in 0..rounds {
            // Each begins elsewhere: what comes with a clock is not with the same kind in every round.
            for nth in (0..cases.len()).map(|at| (at + 2 * round) % cases.len()) {
                costs[nth].push(self.cost(&cases[nth], &streams[nth])?);
            }
        }
        let mut ratios = Vec::new();
        for (nth, case) in cases.iter().enumerate().filter(|(nth, case)| case.constant != *nth) {
            let name = format!("{prefix}{}", case.stream.name.replace(' ', "_"));
            let (own, constant) = (costs[nth].clone(), costs[case.constant].clone());
            ratios.push(Ratio { name, own, constant });
        }
        Ok(ratios)
    }

    /// So many of its requests, from all over those that there are, that they take about
    /// [`ROUND_INSTRUCTIONS`]. Each has been answered, so that whatever is kept of it is kept.
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
        self.callgrind.instructions_since_last(self.process.0)?;
        let count = (ROUND_INSTRUCTIONS / self.cost(case, &few)?.max(1.0)) as usize;
        let round = some(count.clamp(ROUND_REQUESTS_MIN, ROUND_REQUESTS_MAX));
        self.run_stream(case, &round)?;
        Ok(round)
    }

    /// Instructions an answer; the last look was just before.
    fn cost(&mut self, case: &Case, stream: &Stream) -> Result<f64> {
        let run = self.run_stream(case, stream)?;
        let executed = self.callgrind.instructions_since_last(self.process.0)?;
        Ok(executed as f64 / run.stats[0].counts.ok.max(1) as f64)
    }

    fn run_stream(&self, case: &Case, stream: &Stream) -> Result<Run> {
        case.run(stream, RunLength::Once, self.process, self.size)
    }
}
