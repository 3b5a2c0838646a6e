//! Serving under load: `load [--toy|--quick] [--accounts N] [--runs N] [--seconds N] [--only PART]...`.
//!
//! Shape: a ledger of mainnet's shape in a process of its own (`state-ledger again`), served over HTTP by
//! the real server, started again for each setting; the suites that need transactions run over `hydrant dev`.
//! Parts: `ladder` (cheap methods and a 1 MB response, compared with constant ones), `isolation` (light reads during
//! scans), `large` (one response of gigabytes), `overload`, `sweep` (IO and CPU threads), `suites`.
//! All of it takes about twelve minutes on two cores. For that the ladder is three rounds of 3 s a rung,
//! isolation five of 5 s (one where it is a table), the suites three of 1 s, the sweep one of 3 s.
//! `--quick` counts the instructions of ladder and suites for some minutes, under Valgrind, and compares them with
//! `serving/recorded.json`; `--quick --record` records them.
//! Not here: how load is offered and counted (`crates/loadgen`).

mod baseline;
mod callgrind;
mod cost_breakdown;
mod instructions;
mod isolation;
mod large;
mod overload;
mod rounds;
mod server;
mod suites;
mod targets;

use std::time::Duration;

use ::loadgen::{LoadPlan, Run, RunLength, Stream};
use anyhow::{Context, Result, ensure};
use process_usage::Process;
use testkit::synthetic::ACCOUNTS_MIN;

use crate::protocol::Settings;
use crate::value_of;
use server::Server;
use targets::Targets;

const USAGE: &str = "usage: load [--toy|--quick] [--accounts N] [--runs N] [--seconds N] \
                     [--only PART]... [--record]";

const PARTS: [&str; 6] = ["ladder", "isolation", "large", "overload", "sweep", "suites"];

/// The nice value of threads that read or compute hundreds of megabytes a second. In production the readers are on
/// other machines; here they would take the cores from light reads.
const SCAN_NICE: u8 = 10;

/// A response that takes longer counts as a timeout.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The size of the measurements.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    accounts: u32,
    runs: usize,
    warm_up: Duration,
    measured: Duration,
    /// Duration of a run whose p99 has a bar.
    long: Duration,
    /// Number of those runs: a machine that sometimes delays a thread by 5 ms moves the p99 of 2,500 requests.
    long_runs: usize,
    /// Duration of each round of a suite.
    short: Duration,
    /// Light reads a second during scans.
    light_rate: f64,
    /// Duration of the capacity measurement, before the server is offered twice its capacity.
    capacity: Duration,
    overload: Duration,
    overload_connections: usize,
    /// Number of transactions for the suites that need them.
    transactions: usize,
}

const FULL: Size = Size {
    accounts: 10_000_000,
    runs: 3,
    warm_up: Duration::from_millis(500),
    measured: Duration::from_secs(3),
    long: Duration::from_secs(5),
    long_runs: 5,
    short: Duration::from_secs(1),
    light_rate: 500.0,
    capacity: Duration::from_secs(12),
    overload: Duration::from_secs(60),
    overload_connections: 1_000,
    transactions: 2_000,
};

const QUICK: Size = Size { accounts: 200_000, transactions: 100, ..FULL };

const TOY: Size = Size {
    accounts: ACCOUNTS_MIN,
    runs: 1,
    warm_up: Duration::from_millis(20),
    measured: Duration::from_millis(100),
    long: Duration::from_millis(100),
    long_runs: 1,
    short: Duration::from_millis(50),
    light_rate: 200.0,
    capacity: Duration::from_millis(300),
    overload: Duration::from_millis(300),
    overload_connections: 50,
    transactions: 50,
};

pub(crate) fn run(args: &[String]) -> Result<()> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let mut size = match (has("--toy"), has("--quick")) {
        (true, _) => TOY,
        (false, true) => QUICK,
        (false, false) => FULL,
    };
    if let Some(accounts) = value_of(args, "--accounts")? {
        size.accounts = accounts.parse().context("--accounts takes a number")?;
        ensure!(size.accounts >= ACCOUNTS_MIN, "--accounts: at least {ACCOUNTS_MIN}");
    }
    if let Some(runs) = value_of(args, "--runs")? {
        size.runs = runs.parse::<usize>().context("--runs takes a number")?.max(1);
        size.long_runs = size.runs;
    }
    if let Some(seconds) = value_of(args, "--seconds")? {
        let seconds: u64 = seconds.parse().context("--seconds takes a number")?;
        let seconds = Duration::from_secs(seconds.max(1));
        (size.measured, size.long, size.short) = (seconds, seconds, seconds);
    }
    let only = only(args)?;
    let is_recorded = has("--record");
    ensure!(has("--quick") || !is_recorded, "--record is for --quick\n{USAGE}");
    ensure!(!has("--quick") || only.is_empty(), "--quick has its own parts\n{USAGE}");
    if has("--quick") {
        return instructions::run(&size, is_recorded);
    }
    let is_selected = |part: &str| only.is_empty() || only.iter().any(|selected| selected == part);
    let mut server = Server::start(size.accounts, None)?;
    let settings = Settings::like_binary();
    let serving = server.serve(settings)?;
    let targets = Targets::discover(size.accounts, serving.uncached)?;
    println!(
        "mainnet's shape, {} accounts; {} IO and {} CPU threads; {} run(s) of {:?}; scans of {:.1} MB",
        size.accounts,
        settings.io_threads,
        settings.cpu_threads,
        size.runs,
        size.measured,
        targets.scans.bytes as f64 / 1e6
    );
    if is_selected("ladder") {
        cost_breakdown::run(&server, serving, &targets, &size)?;
    }
    if is_selected("suites") {
        suites::run(&server, serving, &size)?;
    }
    if is_selected("large") {
        large::run(&server, serving.rpc, &targets, &size)?;
    }
    if is_selected("overload") {
        overload::run(&server, serving.uncached, &targets, &size)?;
    }
    if is_selected("isolation") {
        isolation::run(&mut server, &targets, &size)?;
    }
    if is_selected("sweep") {
        isolation::sweep(&mut server, &targets, &size)?;
    }
    Ok(())
}

fn only(args: &[String]) -> Result<Vec<String>> {
    let known = ["--toy", "--quick", "--record", "--accounts", "--runs", "--seconds", "--only"];
    for arg in args.iter().filter(|arg| arg.starts_with("--")) {
        ensure!(known.contains(&arg.as_str()), "{arg}: unknown\n{USAGE}");
    }
    let only: Vec<String> =
        args.windows(2).filter(|pair| pair[0] == "--only").map(|pair| pair[1].clone()).collect();
    for part in &only {
        ensure!(PARTS.contains(&part.as_str()), "--only {part}: none of {}", PARTS.join(", "));
    }
    Ok(only)
}

impl Size {
    fn run_length(&self) -> RunLength {
        RunLength::Time { warm_up: self.warm_up, measured: self.measured }
    }

    /// Whether a run is so short that it may have no response on a busy machine.
    fn is_toy(&self) -> bool {
        self.measured < Duration::from_secs(1)
    }

    fn long_run_length(&self) -> RunLength {
        RunLength::Time { warm_up: self.warm_up, measured: self.long }
    }

    fn run_once(
        &self,
        address: std::net::SocketAddr,
        streams: Vec<Stream>,
        span: RunLength,
        process: Option<Process>,
    ) -> Result<Run> {
        let endpoint = address.into();
        let timeout = Some(TIMEOUT);
        Ok(LoadPlan { endpoint, streams, run_length: span, timeout, process }.run()?)
    }
}
