//! The address table and the index compared with rivals: memory, for any number of cores, and a writer alongside
//! readers: `index [--toy] [--only memory|cores|hot-spot] [--candidate NAME] [--bound-gib N]`.
//!
//! Shape: every candidate gets the same keys, computed from their numbers, so nothing else is on the heap meanwhile.
//! Bytes are those requested from the allocator. Build times are CPU times of the thread, so that they are comparable
//! on a busy machine.
//! Bounds: a candidate whose heap exceeds `--bound-gib` is stopped there, and the table has the number of keys at
//! that point. The bars are in the lines `bar`.

pub(crate) mod baselines;
mod cores;
pub(crate) mod heap;
mod hot_key;
pub(crate) mod keys;
mod memory;
mod size;

use anyhow::{Context, Result, ensure};

use self::size::Size;
use crate::arguments::value_of;

pub(crate) fn run(args: &[String]) -> Result<()> {
    let gib = match value_of(args, "--bound-gib")? {
        Some(gib) => gib.parse().context("--bound-gib takes a number")?,
        None => 8,
    };
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let size = Size::new(is_toy, gib << 30);
    if let Some(keys) = value_of(args, cores::CHILD_FLAG)? {
        return cores::print_bytes(keys);
    }
    let only = value_of(args, "--only")?;
    let parts = ["memory", "cores", "hot-spot"];
    ensure!(
        only.is_none_or(|only| parts.contains(&only)),
        "--only takes one of {}",
        parts.join(", ")
    );
    let is_selected = |part: &str| only.is_none_or(|only| only == part);
    let candidate = value_of(args, "--candidate")?;
    if is_selected("memory") {
        memory::run(&size, candidate)?;
    }
    if is_selected("cores") {
        cores::run(&size)?;
    }
    if is_selected("hot-spot") {
        hot_key::run(&size.hot_key, candidate)?;
    }
    Ok(())
}
