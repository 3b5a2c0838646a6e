//! Serving under load: `load [--toy|--quick] [--accounts N] [--runs N] [--seconds N] [--only PART]...`.
//!
//! Shape: a ledger of mainnet's shape in a process of its own (`state-ledger again`), served over HTTP by
//! the real server, again for each setting; the suites that need transactions run over `hydrant dev`.
//! Parts: `ladder` (cheap methods and a 1 MB answer beside constant ones), `isolation` (light reads beside
//! scans), `large` (one answer of a gigabyte), `overload`, `sweep` (IO and CPU threads), `suites`.
//! `--quick` compares what it measures with the figures recorded in `load/recorded.json`, each as a ratio to
//! the constant answer of its run; `--quick --record` records them.
//! Not here: how load is offered and counted (`crates/load`).

mod isolation;
mod ladder;
mod large;
mod overload;
mod recorded;
mod server;
mod suites;
mod targets;

use std::time::Duration;

use ::load::{Plan, Process, Run, Span, Stream};
use anyhow::{Context, Result, ensure};
use testkit::synthetic::ACCOUNTS_MIN;

use crate::value_of;
use server::{Server, Settings};
use targets::Targets;

const USAGE: &str = "usage: load [--toy|--quick] [--accounts N] [--runs N] [--seconds N] \
                     [--only PART]... [--record]";

const PARTS: [&str; 6] = ["ladder", "isolation", "large", "overload", "sweep", "suites"];

/// An answer that takes longer counts as a timeout.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    accounts: u32,
    runs: usize,
    warm_up: Duration,
    measured: Duration,
    /// Light reads a second beside scans.
    light_rate: f64,
    /// Of the overload.
    overload: Duration,
    overload_connections: usize,
    /// Transactions of the suites that need them.
    transactions: usize,
}

const FULL: Size = Size {
    accounts: 10_000_000,
    runs: 3,
    warm_up: Duration::from_secs(1),
    measured: Duration::from_secs(5),
    light_rate: 500.0,
    overload: Duration::from_secs(60),
    overload_connections: 1_000,
    transactions: 2_000,
};

const QUICK: Size = Size {
    accounts: 200_000,
    runs: 3,
    warm_up: Duration::from_millis(200),
    measured: Duration::from_millis(1_000),
    overload: Duration::from_secs(3),
    transactions: 500,
    ..FULL
};

const TOY: Size = Size {
    accounts: ACCOUNTS_MIN,
    runs: 1,
    warm_up: Duration::from_millis(20),
    measured: Duration::from_millis(100),
    light_rate: 200.0,
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
    }
    if let Some(seconds) = value_of(args, "--seconds")? {
        let seconds: u64 = seconds.parse().context("--seconds takes a number")?;
        size.measured = Duration::from_secs(seconds.max(1));
    }
    let only = only(args)?;
    let is_wanted = |part: &str| only.is_empty() || only.iter().any(|wanted| wanted == part);
    let mut server = Server::start(size.accounts)?;
    let settings = Settings::of_binary();
    let serving = server.serve(settings)?;
    let targets = Targets::of(size.accounts, serving.rpc)?;
    println!(
        "mainnet's shape, {} accounts; {} IO and {} CPU threads; {} run(s) of {:?}; scans of {:.1} MB",
        size.accounts,
        settings.io_threads,
        settings.cpu_threads,
        size.runs,
        size.measured,
        targets.scans.bytes as f64 / 1e6
    );
    let mut ratios = Vec::new();
    if is_wanted("ladder") {
        ratios.extend(ladder::run(&server, serving, &targets, &size)?);
    }
    if is_wanted("suites") {
        ratios.extend(suites::run(&server, serving, &size)?);
    }
    if is_wanted("large") {
        large::run(&server, serving.rpc, &targets, &size)?;
    }
    if is_wanted("overload") {
        overload::run(&server, serving.rpc, &targets, &size)?;
    }
    if is_wanted("isolation") {
        isolation::run(&mut server, &targets, &size)?;
    }
    if is_wanted("sweep") {
        isolation::sweep(&mut server, &targets, &size)?;
    }
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
    fn span(&self) -> Span {
        Span::Time { warm_up: self.warm_up, measured: self.measured }
    }

    /// Offers streams at once, as often as there are runs.
    fn runs(
        &self,
        address: std::net::SocketAddr,
        streams: &[Stream],
        process: Option<Process>,
    ) -> Result<Vec<Run>> {
        (0..self.runs).map(|_| self.once(address, streams.to_vec(), self.span(), process)).collect()
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

/// Prints a figure that has a bar.
fn bar(name: &str, value: f64, unit: &str, at_most: bool, bar: f64) {
    let side = if at_most { "<=" } else { ">=" };
    println!("bar {name} {value:.3} {unit} {side} {bar}");
}
