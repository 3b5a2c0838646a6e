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
mod not_modified;
mod overload;
mod rounds;
mod server;
mod size;
mod suites;
mod targets;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::synthetic::ACCOUNTS_MIN;

use crate::arguments::value_of;
use crate::ledger_process::protocol::Settings;
use server::Server;
pub(crate) use server::cores;
pub(crate) use size::SCAN_NICE;
use size::{FULL, QUICK, TOY};
use targets::Targets;

const USAGE: &str = "usage: load [--toy|--quick] [--accounts N] [--runs N] [--seconds N] \
                     [--only PART]... [--record]";

const PARTS: [&str; 6] = ["ladder", "isolation", "large", "overload", "sweep", "suites"];

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
