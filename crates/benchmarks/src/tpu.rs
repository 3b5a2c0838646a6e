//! Transactions over QUIC, compared with three rivals: `quic [--toy] [--only PART] [--rounds N]`.
//!
//! Shape: server processes that count their allocations, generator processes that send, and this one, which
//! controls both. Rivals: quinn today, and in workspaces of their own below `rivals/`, quinn before its free list
//! (0.11.5 on proto 0.11.8) and Agave's solana-streamer 4.2.2. All servers of a table run at once. Each round
//! measures all of them, so that a disturbance of the machine affects all. A ratio is taken within its round, and
//! the median of the rounds is reported.
//! Parts: `allocations`, `rates`, `windows`, `memory`, `manners`, `ledger`.
//! Not here: the parts (`tpu/*.rs`), the generator (`tpu/generator.rs`), the servers (`bin/quic_server.rs`).

pub(crate) mod generator;
mod ledger;
mod memory;
mod misbehaving;
mod process;
mod stream_cost;

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{threshold, value_of};

/// The size of the measurements.
struct Size {
    rounds: usize,
    /// Rounds of the rates, each of a sixth of a second for each server and cell.
    rate_rounds: usize,
    /// Seconds of one run.
    seconds: f64,
    /// Rounds with misbehaving clients, each of two runs.
    misbehaving_rounds: usize,
    /// Seconds of one run with misbehaving clients.
    misbehaving_seconds: f64,
    /// Streams of the soak.
    soak: u64,
    many: usize,
    burst: usize,
    lossy: u64,
    transfers: usize,
    settle_time: Duration,
}

const FULL: Size = Size {
    rounds: 5,
    rate_rounds: 7,
    seconds: 0.25,
    misbehaving_rounds: 9,
    misbehaving_seconds: 0.6,
    soak: 10_000_000,
    many: 2_000,
    burst: 2_000,
    lossy: 300_000,
    transfers: 60_000,
    settle_time: Duration::from_secs(10),
};

const TOY: Size = Size {
    rounds: 1,
    rate_rounds: 1,
    seconds: 0.01,
    misbehaving_rounds: 1,
    misbehaving_seconds: 0.05,
    soak: 10_000,
    many: 20,
    burst: 20,
    lossy: 2_000,
    transfers: 200,
    settle_time: Duration::from_millis(300),
};

const PARTS: [&str; 6] = ["allocations", "rates", "windows", "memory", "manners", "ledger"];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let mut size = if is_toy { TOY } else { FULL };
    if let Some(rounds) = value_of(args, "--rounds")? {
        let rounds = rounds.parse().context("--rounds is a number")?;
        (size.rounds, size.rate_rounds, size.misbehaving_rounds) = (rounds, rounds, rounds);
    }
    let only = value_of(args, "--only")?;
    ensure!(only.is_none_or(|part| PARTS.contains(&part)), "parts: {}", PARTS.join(", "));
    let is_selected = |part: &str| only.is_none_or(|only| only == part);
    // Building the others takes minutes. A toy run only proves that this crate has not rotted.
    let names: &[&'static str] =
        if is_toy { &["ours", "quinn"] } else { &["ours", "quinn", "quinn-old", "streamer"] };
    if !is_toy {
        process::build_baselines()?;
    }
    if is_selected("allocations") {
        stream_cost::allocations(&size, names)?;
    }
    if is_selected("rates") {
        stream_cost::rates(&size, names)?;
    }
    if is_selected("windows") {
        stream_cost::windows(&size, names)?;
    }
    if is_selected("memory") {
        memory::run(&size, names)?;
    }
    if is_selected("manners") {
        misbehaving::run(&size)?;
    }
    if is_selected("ledger") {
        ledger::run(&size)?;
    }
    Ok(())
}

/// A value with its bar, to four digits: allocations are a few hundredths.
fn print_threshold(name: &str, value: f64, unit: &str, side: &str, bar: f64) {
    threshold::line(name, format_args!("{value:.4}"), unit, side, bar);
}
