//! Transactions over QUIC, compared with three rivals: `quic [--toy] [--only PART] [--rounds N]`.
//!
//! Shape: server processes that count their allocations, generator processes that send, and this one, which
//! controls both. Rivals: quinn today, and in workspaces of their own below `rivals/`, quinn before its free list
//! (0.11.5 on proto 0.11.8) and Agave's solana-streamer 4.2.2. All servers of a table run at once. Each round
//! measures all of them, so that a disturbance of the machine affects all. A ratio is taken within its round, and
//! the median of the rounds is reported.
//! Parts: `allocations`, `rates`, `windows`, `variants`, `memory`, `manners`, `ledger`.
//! Not here: the parts (`tpu/*.rs`), the generator (`tpu/generator.rs`), the servers (`bin/quic_server.rs`).

pub(crate) mod generator;
mod ledger;
mod memory;
mod misbehaving;
pub(crate) mod process;
mod size;
pub(crate) mod stream_cost;

use anyhow::{Context, Result, ensure};

use self::size::{FULL, TOY};
use crate::arguments::value_of;

const PARTS: [&str; 7] =
    ["allocations", "rates", "windows", "variants", "memory", "manners", "ledger"];

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
        process::build_baselines(names)?;
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
    if is_selected("variants") {
        stream_cost::variants(&size)?;
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
