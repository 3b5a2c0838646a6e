//! The address table and the index against what others keep: memory, and a writer beside readers:
//! `index [--toy] [--candidate NAME] [--bound-gib N]`.
//!
//! Shape: every candidate takes the same keys, made from their number, so nothing else is on the heap
//! meanwhile. Bytes are what the allocator was asked for; times of building are CPU times of the
//! thread, so that they mean something on a busy machine.
//! Bounds: a candidate whose heap passes `--bound-gib` is stopped there, and the table says after how
//! many keys.
//! Not here: the contention grid (later); what the figures must reach is in the
//! lines `bar`.

mod heap;
mod hot_spot;
mod keys;
mod memory;
mod rivals;

use anyhow::{Context, Result};

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
    hot_spot: hot_spot::Size,
    heap_bytes_max: usize,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let gib = match value_of(args, "--bound-gib")? {
        Some(gib) => gib.parse().context("--bound-gib takes a number")?,
        None => 8,
    };
    let heap_bytes_max = gib << 30;
    let size = if args.iter().any(|arg| arg == "--toy") {
        Size {
            addresses: 50_000,
            accounts: 20_000,
            keys: [2_000, 20_000],
            entries: 20_000,
            hot_spot: hot_spot::TOY,
            heap_bytes_max,
        }
    } else {
        Size {
            addresses: 10_000_000,
            accounts: 10_000_000,
            keys: [1_000_000, 10_000_000],
            entries: 5_000_000,
            hot_spot: hot_spot::FULL,
            heap_bytes_max,
        }
    };
    let only = value_of(args, "--candidate")?;
    memory::run(&size, only)?;
    hot_spot::run(&size.hot_spot, only)
}

/// Prints a figure that has a bar.
fn bar(name: &str, value: f64, unit: &str, at_most: bool, bar: f64) {
    let side = if at_most { "<=" } else { ">=" };
    println!("bar {name} {value:.3} {unit} {side} {bar}");
}
