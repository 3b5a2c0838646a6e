//! Serving under load: `load [--toy|--quick] [--accounts N] [--runs N] [--seconds N] [--only PART]...`.
//!
//! Shape: a ledger of mainnet's shape in a process of its own (`state-ledger again`), served over HTTP by
//! the real server, again for each setting; the suites that need transactions run over `hydrant dev`.
//! Parts: `ladder` (cheap methods and a 1 MB answer beside constant ones), `isolation` (light reads beside
//! scans), `large` (one answer of gigabytes), `overload`, `sweep` (IO and CPU threads), `suites`.
//! All of it takes about twelve minutes on two cores. For that the ladder is three rounds of 3 s a rung,
//! isolation five of 5 s (one where it is a table), the suites three of 1 s, the sweep one of 3 s.
//! `--quick` measures ladder and suites in rounds of so many requests, for about a minute, on one IO and two CPU threads whatever the machine
//! has, and compares with what is recorded in `load/recorded.json`; `--quick --record` records.
//! Not here: how load is offered and counted (`crates/load`).

mod isolation;
mod ladder;
mod large;
mod overload;
mod recorded;
mod rounds;
mod server;
mod suites;
mod targets;

use std::time::Duration;

use ::load::{Plan, Process, Run, Span, Stream};
use anyhow::{Context, Result, ensure};
use testkit::synthetic::ACCOUNTS_MIN;

use crate::agreed::Settings;
use crate::value_of;
use server::Server;
use targets::Targets;

const USAGE: &str = "usage: load [--toy|--quick] [--accounts N] [--runs N] [--seconds N] \
                     [--only PART]... [--record]";

const PARTS: [&str; 6] = ["ladder", "isolation", "large", "overload", "sweep", "suites"];

/// The nice value of threads that read hundreds of megabytes a second, as of the server's that make them:
/// in the field they are on other machines, and here they would take the cores from light reads.
const READS_MUCH: u8 = 10;

/// An answer that takes longer counts as a timeout.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    accounts: u32,
    runs: usize,
    warm_up: Duration,
    measured: Duration,
    /// Of a run whose p99 has a bar.
    long: Duration,
    /// Of those: a machine that holds up a thread for 5 ms now and then moves the p99 of 2,500 requests.
    long_runs: usize,
    /// Of each round of a suite.
    short: Duration,
    /// Light reads a second beside scans.
    light_rate: f64,
    /// In which the server shows what it can do, before it is offered twice of it.
    capacity: Duration,
    overload: Duration,
    overload_connections: usize,
    /// Transactions of the suites that need them.
    transactions: usize,
    /// Instead of the binary's own.
    threads: Option<(usize, usize)>,
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
    threads: None,
};

const QUICK: Size = Size {
    accounts: 200_000,
    // Of so many requests each (`rounds`); medians need no more on a machine that does other things.
    runs: 11,
    warm_up: Duration::ZERO,
    measured: Duration::from_millis(200),
    long: Duration::from_millis(500),
    short: Duration::from_millis(200),
    capacity: Duration::from_secs(3),
    overload: Duration::from_secs(3),
    transactions: 500,
    threads: Some((1, 2)),
    ..FULL
};

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
    threads: None,
};

/// How often `--quick` measures again before it says that something is slower: each time takes a minute, and
/// what else the machine does may be over by then.
const AGAIN_MOST: usize = 3;

/// What `--quick` measures.
const QUICK_PARTS: [&str; 2] = ["ladder", "suites"];

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
    let mut only = only(args)?;
    if has("--quick") && only.is_empty() {
        only = QUICK_PARTS.map(str::to_owned).to_vec();
    }
    let is_wanted = |part: &str| only.is_empty() || only.iter().any(|wanted| wanted == part);
    let mut server = Server::start(size.accounts)?;
    let settings = size.settings();
    let serving = server.serve(settings)?;
    let targets = Targets::of(size.accounts, serving.uncached)?;
    println!(
        "mainnet's shape, {} accounts; {} IO and {} CPU threads; {} run(s) of {:?}; scans of {:.1} MB",
        size.accounts,
        settings.io_threads,
        settings.cpu_threads,
        size.runs,
        size.measured,
        targets.scans.bytes as f64 / 1e6
    );
    let profile = || -> Result<Vec<recorded::Ratio>> {
        let mut ratios = Vec::new();
        if is_wanted("ladder") {
            ratios.extend(ladder::run(&server, serving, &targets, &size)?);
        }
        if is_wanted("suites") {
            ratios.extend(suites::run(&server, serving, &size)?);
        }
        Ok(ratios)
    };
    let mut ratios = profile()?;
    for _ in 0..AGAIN_MOST {
        if !has("--quick") || has("--record") || !recorded::is_slower(&ratios)? {
            break;
        }
        println!("\nslower than recorded: as many rounds again");
        recorded::add_rounds(&mut ratios, profile()?);
    }
    if is_wanted("large") {
        large::run(&server, serving.rpc, &targets, &size)?;
    }
    if is_wanted("overload") {
        overload::run(&server, serving.uncached, &targets, &size)?;
    }
    if is_wanted("isolation") {
        isolation::run(&mut server, &targets, &size)?;
    }
    if is_wanted("sweep") {
        isolation::sweep(&mut server, &targets, &size)?;
    }
    drop(server);
    if has("--record") {
        ensure!(has("--quick"), "--record is for --quick\n{USAGE}");
        return recorded::write(&ratios);
    }
    if has("--quick") { recorded::compare(&ratios) } else { Ok(()) }
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
    /// Whether ratios of CPU time are what it is about.
    fn is_quick(&self) -> bool {
        self.threads.is_some()
    }

    fn settings(&self) -> Settings {
        let settings = Settings::of_binary();
        let Some((io_threads, cpu_threads)) = self.threads else { return settings };
        Settings { io_threads, cpu_threads, ..settings }
    }

    fn span(&self) -> Span {
        Span::Time { warm_up: self.warm_up, measured: self.measured }
    }

    fn span_long(&self) -> Span {
        Span::Time { warm_up: self.warm_up, measured: self.long }
    }

    fn once(
        &self,
        address: std::net::SocketAddr,
        streams: Vec<Stream>,
        span: Span,
        process: Option<Process>,
    ) -> Result<Run> {
        let endpoint = address.into();
        let timeout = Some(TIMEOUT);
        Ok(Plan { endpoint, streams, span, timeout, process }.run()?)
    }
}
