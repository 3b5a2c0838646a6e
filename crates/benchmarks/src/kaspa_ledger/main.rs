//! Kaspa ledgers, each in a process of its own, with the binary's allocator, for `bench kaspa`:
//! `kaspa-ledger model|memory OUTPUTS|account|depth|verify|publish|pairs|million|fanout|import [--toy]`.
//! `import` starts `kaspa-ledger import-peer`, which sends it a UTXO set.
//!
//! Shape: measurements go to standard output: lines `figure NAME VALUE` for the program that started it, all other
//! lines for people. Each mode has a file. Sizes are in [`size`].
//! Not here: the bars, and heap bytes (`kaspa.rs`).
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "measurements go to the caller")]

mod account;
#[path = "../subs/client_sets.rs"]
mod client_sets;
mod depth;
mod fanout;
mod import;
mod import_peer;
mod loaded_chain;
#[path = "../median.rs"]
mod median;
mod memory;
#[path = "../state_ledger/metric.rs"]
mod metric;
mod million;
mod model;
#[path = "../kaspa/pairs.rs"]
mod pairs;
mod publish;
mod resident_pairs;
#[path = "../kaspa/served_chain.rs"]
mod served_chain;
mod size;
mod verify;
mod virtual_block;

use anyhow::{Context, Result, bail};

use self::size::{FULL, TOY};

// The binary's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let size = if is_toy { TOY } else { FULL };
    let args: Vec<&str> = args.iter().map(String::as_str).filter(|arg| *arg != "--toy").collect();
    match args[..] {
        ["model"] => model::run(&size),
        ["memory", outputs] => memory::run(&size, outputs.parse().context("OUTPUTS")?),
        ["account"] => account::run(&size),
        ["depth"] => depth::run(&size),
        ["verify"] => verify::run(&size),
        ["publish"] => publish::run(&size),
        ["pairs"] => resident_pairs::run(&size),
        ["million"] => million::run(&size),
        ["fanout"] => fanout::run(&size),
        ["import"] => import::run(&size),
        [import_peer::MODE] => import_peer::run(&size),
        _ => bail!(
            "usage: kaspa-ledger model|memory OUTPUTS|account|depth|verify|publish|pairs|million|\
             fanout|import|import-peer [--toy]"
        ),
    }
}
