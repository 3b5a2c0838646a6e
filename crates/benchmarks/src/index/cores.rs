//! The same entries on a small and on a large machine: the effect of the number of cores.
//!
//! Shape: a DashMap has by default four shards for each core of `available_parallelism`. The rivals get the number for
//! 2 and for 128 cores. Ours does not depend on it, so no number can be injected. It is built in processes that may
//! run on one core and on all cores, and must have the same size in both.

use std::process::Command;

use anyhow::{Context, Result};

use super::baselines::{Agave, Baseline, Dash, Locked, shards_on_cores};
use super::keys::pubkey;
use super::memory::{self, Built};
use super::size::Size;
use crate::threshold;

/// The flag of a process that reports the bytes of ours.
pub(crate) const CHILD_FLAG: &str = "--bytes-of-ours";

const CORES: [usize; 2] = [2, 128];

type Make = fn(usize) -> Box<dyn Baseline>;

const BASELINES: [(&str, Make); 3] = [
    ("rwlock-hashmap", |_| Box::new(Locked::default())),
    ("agave", |cores| Box::new(Agave::on_cores(cores))),
    ("dashmap", |cores| Box::new(Dash::new(shards_on_cores(cores)))),
];

pub(crate) fn run(size: &Size) -> Result<()> {
    let keys = size.keys[0];
    let accounts = size.keys[0];
    println!("\nfor any number of cores: B an entry, a DashMap with 4 shards a core");
    println!("{:30}{:>14}{:>14}", "", "on 2", "as if on 128");
    for (name, make) in BASELINES {
        let of_keys = |cores| {
            let one = |n| (pubkey(n), pubkey(n | 1 << 31));
            memory::build_baseline(&mut *make(cores), keys, size.heap_bytes_max, one)
        };
        line(name, "keys of one", keys, CORES.map(of_keys));
        let of_shape =
            |cores| memory::baseline_of_shape(|| make(cores), accounts, size.heap_bytes_max);
        line(name, "mainnet shape", accounts, CORES.map(of_shape));
    }
    let of_keys = CORES.map(|_| memory::hydrant_of_one(keys));
    let of_shape = CORES.map(|_| memory::hydrant_of_shape(accounts));
    let ratio = |built: &[Built; 2]| built[1].heap_bytes as f64 / built[0].heap_bytes as f64;
    let worst = ratio(&of_keys).max(ratio(&of_shape));
    line("ours", "keys of one", keys, of_keys);
    line("ours", "mainnet shape", accounts, of_shape);
    threshold::at_most("index_bytes_on_128_of_2_cores", worst, "x", 1.0);
    match on_one_core(keys)? {
        Some(one) => {
            let all = bytes_from_child(Command::new(std::env::current_exe()?), keys)?;
            let cores = std::thread::available_parallelism()?;
            println!(
                "ours, {keys} keys of one: {one} bytes in a process on 1 core, {all} on {cores}"
            );
            threshold::at_most("index_bytes_on_all_of_1_core", all as f64 / one as f64, "x", 1.0);
        }
        None => println!("ours on one core: not measured, `taskset` is missing"),
    }
    Ok(())
}

/// In a process of its own: prints the bytes of ours for `keys` keys.
pub(crate) fn print_bytes(keys: &str) -> Result<()> {
    let keys = keys.parse().context("as many keys as a number says")?;
    println!("{}", memory::hydrant_of_one(keys).heap_bytes);
    Ok(())
}

/// The bytes of ours in a process with one core. `None` without `taskset`.
fn on_one_core(keys: u32) -> Result<Option<usize>> {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "0", "true"]);
    if !command.status().is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "0"]).arg(std::env::current_exe()?);
    bytes_from_child(command, keys).map(Some)
}

fn bytes_from_child(mut command: Command, keys: u32) -> Result<usize> {
    let output = command.args(["index", CHILD_FLAG, &keys.to_string()]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().with_context(|| format!("expected a number of bytes, not `{text}`"))
}

fn line(name: &str, what: &str, entries_expected: u32, built: [Built; 2]) {
    print!("{:30}", format!("{name}, {what}"));
    for built in &built {
        let is_whole = built.entries == entries_expected;
        let mark = if is_whole { "" } else { "*" };
        print!("{:>14}", format!("{mark}{:.1}", built.per_entry()));
    }
    let stopped = built.iter().find(|built| built.entries < entries_expected);
    match stopped {
        Some(built) => println!("  met the memory bound after {}", built.entries),
        None => println!(),
    }
}
