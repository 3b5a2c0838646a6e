//! The experiment of Kaspa's PR 427 at its own size: 500 clients that subscribe to sets of addresses and leave, and the
//! memory of their node: `sets [--toy] [--only LETTERS] [--transactions N] [--out DIR] [--keep] [--fresh]`.
//!
//! Shape: 495 wallets of 800 addresses and five monitors of 200,000 to a million, which overlap: 3.4 million (client,
//! address) pairs over a million addresses, scattered over a ledger of five million accounts. 1.5 million transfers to
//! these addresses in each of five set-ups, 1,500 a second, fifteen times as fast as the original. In A no client
//! subscribes. In B all do, once. C, D and E have 2, 8 and 83 cycles, in which all clients are subscribed for two
//! thirds of the time and gone for the rest. The node is a process of its own, its memory is sampled from outside, and
//! every notification is compared with the blocks. One more client has an address of its own in all set-ups, so that
//! the node retains as many blocks for resuming in A as in the others; its notifications show the lag.
//! Output: `docs/benchmarks/sets`: CSV, plots, and tables in README.md. A run that was stopped continues with the
//! set-ups that have no row; `--only be` runs two of them.
//! Time: at most 110 minutes on two cores: 17 a set-up, and up to 4 for its ledger, its last cycles and the comparison.
//! Two GB of memory.
//! Not here: the heap bytes of the engine alone, one client with a million addresses (`subs`).

mod activity;
mod block_reader;
mod client;
mod comparison;
mod document;
mod measurement;
mod results;
mod samples;
mod size;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use testkit::archive::forge::{self, Sample};

use self::results::Results;
use self::size::{FULL, SET_UPS, SetUp, Size, TOY};
use crate::arguments::value_of;
use crate::report::{Progress, Report};
use crate::subs::addresses::address_of;

pub(crate) fn run(args: &[String]) -> Result<()> {
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let mut size = if is_toy { TOY } else { FULL };
    if let Some(transactions) = value_of(args, "--transactions")? {
        size.transactions = transactions.parse().context("--transactions")?;
        ensure!(size.transactions > 0, "--transactions takes a number above 0");
    }
    let selected = value_of(args, "--only")?.unwrap_or(size.set_ups);
    ensure!(
        selected.chars().all(|name| SET_UPS.iter().any(|set_up| set_up.name == name)),
        "--only takes letters from a to e"
    );
    let report = Report::open("sets", args, is_toy)?;
    let mut results = Results::open(&report)?;
    let missing: Vec<&SetUp> = SET_UPS
        .iter()
        .filter(|set_up| selected.contains(set_up.name) && !results.has(set_up))
        .collect();
    if !missing.is_empty() {
        let progress = Progress::new("sets, seconds", missing.len() as f64 * size.seconds());
        let progress = Arc::new(Mutex::new(progress));
        let dir = tempfile::tempdir()?;
        let archive = write_ledger(dir.path(), &size)?;
        for set_up in missing {
            let observed = measurement::run(&size, set_up, &archive, &progress)
                .with_context(|| format!("set-up {}", set_up.name))?;
            results.push(&size, set_up, &observed)?;
        }
    }
    document::write(&report, &results, &size)
}

/// Writes the archive of the ledger: its accounts are in random order, so that the ids of a set are scattered.
fn write_ledger(dir: &Path, size: &Size) -> Result<PathBuf> {
    let mut numbers: Vec<u32> = (0..size.ledger_accounts).collect();
    numbers.shuffle(&mut StdRng::seed_from_u64(1));
    let sample = Sample::read(&testkit::archive::find_recorded()?)?;
    let address = |n: u64| address_of(numbers[n as usize]);
    let (archive, _) =
        forge::write_wallets(dir, &sample, u64::from(size.ledger_accounts), address)?;
    Ok(archive)
}
