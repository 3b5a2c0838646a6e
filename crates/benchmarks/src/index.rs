//! The address table and the index against what others keep: memory, whatever the cores, a writer
//! beside readers, and the contention grid:
//! `index [--toy] [--only memory|cores|hot-spot|grid] [--candidate NAME] [--bound-gib N]`; `grid` says
//! what more that takes.
//!
//! Shape: every candidate takes the same keys, made from their number, so nothing else is on the heap
//! meanwhile. Bytes are what the allocator was asked for; times of building are CPU times of the
//! thread, so that they mean something on a busy machine.
//! Bounds: a candidate whose heap passes `--bound-gib` is stopped there, and the table says after how
//! many keys.
//! Not here: what the figures must reach is in the lines `bar`.

mod baselines;
mod cores;
mod grid;
pub(crate) mod heap;
mod hot_key;
mod keys;
mod memory;

use anyhow::{Context, Result, ensure};

use crate::value_of;

/// How much is measured.
struct Size {
    addresses: u32,
    /// Accounts of mainnet's shape.
    accounts: u32,
    /// Keys of one entry.
    keys: [u32; 2],
    /// Entries of one key.
    entries: u32,
    hot_key: hot_key::Size,
    heap_bytes_max: usize,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let gib = match value_of(args, "--bound-gib")? {
        Some(gib) => gib.parse().context("--bound-gib takes a number")?,
        None => 8,
    };
    let heap_bytes_max = gib << 30;
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let size = if is_toy {
        Size {
            addresses: 50_000,
            accounts: 20_000,
            keys: [2_000, 20_000],
            entries: 20_000,
            hot_key: hot_key::TOY,
            heap_bytes_max,
        }
    } else {
        Size {
            addresses: 10_000_000,
            accounts: 10_000_000,
            keys: [1_000_000, 10_000_000],
            entries: 5_000_000,
            hot_key: hot_key::FULL,
            heap_bytes_max,
        }
    };
    if let Some(keys) = value_of(args, cores::CHILD_FLAG)? {
        return cores::print_bytes(keys);
    }
    let only = value_of(args, "--only")?;
    let parts = ["memory", "cores", "hot-spot", "grid"];
    ensure!(
        only.is_none_or(|only| parts.contains(&only)),
        "--only takes one of {}",
        parts.join(", ")
    );
    let is_wanted = |part: &str| only.is_none_or(|only| only == part);
    let candidate = value_of(args, "--candidate")?;
    let grid = grid::Options::parse(args, is_toy)?;
    if is_wanted("memory") {
        memory::run(&size, candidate)?;
    }
    if is_wanted("cores") {
        cores::run(&size)?;
    }
    if is_wanted("hot-spot") {
        hot_key::run(&size.hot_key, candidate)?;
    }
    if is_wanted("grid") {
        grid::run(&grid)?;
    }
    Ok(())
}
