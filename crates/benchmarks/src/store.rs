//! The ledger on disk, over our storage engine and over a rival: `store [--toy]`.
//!
//! Both run the code of `ledger_store`, so layout, compression and checks are the same; only the engine below it
//! differs. "none" is that code without an engine: the cost of encoding alone.
//! Measured: the time of a durable append by the size of its block, bytes handed to the kernel for each
//! byte of the blocks, bytes on disk, the time to open and check a long ledger, and `kill -9`.

mod ledgers;
mod redb;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use chain_solana::Block;
use ledger_store::{LedgerStore, Restored};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use solana_account::ReadableAccount;
use store::{Batch, Engine, EngineError, Fjall, Key, Row, Table};
use testkit::clock::now;

use self::ledgers::Ledger;
use self::redb::Redb;
use crate::threshold;

/// Block sizes: transactions, and the number of blocks.
struct Size {
    blocks: &'static [(usize, usize)],
    long: usize,
    kills: usize,
    damages: usize,
}

const FULL: Size =
    Size { blocks: &[(1, 1000), (100, 500), (5000, 40)], long: 10_000, kills: 20, damages: 200 };
const TOY: Size = Size { blocks: &[(1, 20), (100, 3)], long: 50, kills: 2, damages: 5 };
/// The reason for our engine is its appends: they may not take longer than the rival's.
const APPEND_RATIO_MAX: f64 = 1.0;
/// The other reason: it writes less.
const WRITTEN_RATIO_MAX: f64 = 0.5;
/// Transactions of a block of the long ledger.
const LONG_TRANSACTIONS: usize = 10;
/// Transactions of a block of the ledger whose writer is killed.
const KILL_TRANSACTIONS: usize = 1_000;
/// Set for a process that appends until it is killed: `engine:transactions:directory`.
const CHILD_ENV: &str = "HYDRANT_BENCH_STORE_CHILD";

/// Runs everything, or the writer in a child that will be killed.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if let Ok(child) = env::var(CHILD_ENV) {
        return append_until_killed(&child);
    }
    let size = match args {
        [] => FULL,
        [toy] if toy == "--toy" => TOY,
        _ => bail!("usage: store [--toy]"),
    };
    let mut bars = Vec::new();
    println!("engine  block      append p50     p99     max  written  amplified  on disk");
    for (transactions, blocks) in size.blocks {
        appends::<NullEngine>("none", *transactions, *blocks)?;
        let rival = appends::<Redb>("redb", *transactions, *blocks)?;
        let ours = appends::<Fjall>("fjall", *transactions, *blocks)?;
        bars.push((*transactions, ours.p50_ms / rival.p50_ms, ours.written / rival.written));
    }
    println!("engine  pruned to  on disk after half, at the end");
    pruned::<Redb>("redb", size.long)?;
    pruned::<Fjall>("fjall", size.long)?;
    println!("engine  blocks  open, clean  open, killed  on disk");
    long::<Redb>("redb", size.long)?;
    long::<Fjall>("fjall", size.long)?;
    println!("engine  kill -9  no reported block lost  slowest open");
    kills::<Redb>("redb", size.kills)?;
    kills::<Fjall>("fjall", size.kills)?;
    println!("engine  flips and cuts  named  harmless  engine panicked");
    damages::<Redb>("redb", size.damages)?;
    damages::<Fjall>("fjall", size.damages)?;
    for (transactions, p50, written) in bars {
        for (what, ratio, most) in
            [("append", p50, APPEND_RATIO_MAX), ("written", written, WRITTEN_RATIO_MAX)]
        {
            let name = format!("store_{what}_{transactions}_of_rival");
            threshold::line(&name, format_args!("{ratio:.2}"), "x", "<=", most);
        }
    }
    Ok(())
}

/// The results of appends of one size.
struct Appends {
    p50_ms: f64,
    written: f64,
}

fn appends<E: Engine>(name: &str, transactions: usize, blocks: usize) -> anyhow::Result<Appends> {
    let dir = tempfile::tempdir()?;
    let mut ledger = Ledger::new(1);
    let mut store = create::<E>(dir.path(), &mut ledger)?;
    let before = bytes_written();
    let mut took = Vec::new();
    let mut payload = 0;
    for _ in 0..blocks {
        let block = ledger.block(transactions);
        payload += payload_bytes(&block);
        let started = now();
        store.append(&block)?;
        took.push(started.elapsed());
    }
    drop(store);
    took.sort();
    let p50_ms = ms(took[took.len() / 2]);
    let written = bytes_written() - before;
    println!(
        "{name:6} {transactions:5} tx  {:8.2} ms {:7.2} {:7.2} {:5} MB {:10.2} {:5} MB",
        p50_ms,
        ms(took[took.len() * 99 / 100]),
        ms(took[took.len() - 1]),
        written >> 20,
        written as f64 / payload as f64,
        bytes_below(dir.path())? >> 20,
    );
    Ok(Appends { p50_ms, written: written as f64 })
}

/// Opens a long ledger, after a clean shutdown and after a kill.
fn long<E: Engine>(name: &str, blocks: usize) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut ledger = Ledger::new(2);
    let mut store = create::<E>(dir.path(), &mut ledger)?;
    for _ in 0..blocks {
        store.append(&ledger.block(LONG_TRANSACTIONS))?;
    }
    drop(store);
    let clean = open_time::<E>(dir.path(), blocks + 1)?;
    // A child that is killed after a few more blocks leaves files that no clean shutdown leaves.
    let reported = kill_child(name, dir.path(), 5, LONG_TRANSACTIONS)?;
    let killed = open_time::<E>(dir.path(), reported)?;
    let bytes = bytes_below(dir.path())?;
    println!(
        "{name:6} {blocks:7} {:9.0} ms {:10.0} ms {:5} MB",
        ms(clean),
        ms(killed),
        bytes >> 20
    );
    Ok(())
}

/// Appends to a ledger that retains a tenth of its blocks.
fn pruned<E: Engine>(name: &str, blocks: usize) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut ledger = Ledger::new(4);
    let mut store = create::<E>(dir.path(), &mut ledger)?;
    let retained = blocks / 10;
    let mut on_disk = Vec::new();
    for _ in 0..2 {
        for _ in 0..blocks / 2 {
            store.append(&ledger.block(LONG_TRANSACTIONS))?;
            store.prune_below(store.newest_slot().saturating_sub(retained as u64));
        }
        on_disk.push(bytes_below(dir.path())? >> 20);
    }
    println!("{name:6} {retained:9} {:8} MB {:8} MB", on_disk[0], on_disk[1]);
    Ok(())
}

/// Damages a copy of a ledger's files in one position, opens it and classifies the result.
fn damages<E: Engine>(name: &str, damages: usize) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let whole = dir.path().join("whole");
    let mut ledger = Ledger::new(5);
    let mut store = create::<E>(&whole, &mut ledger)?;
    for _ in 0..damages * 2 {
        store.append(&ledger.block(LONG_TRANSACTIONS))?;
    }
    drop(store);
    let (_, expected) = LedgerStore::<E>::open_whole(&whole)?.context("no ledger")?;
    let mut random = StdRng::seed_from_u64(6);
    let mut named = 0;
    let mut harmless = 0;
    let mut panicked = 0;
    // An engine's panics are counted, not shown.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    for _ in 0..damages {
        let damaged = dir.path().join("damaged");
        copy(&whole, &damaged)?;
        let what = damage(&damaged.join(E::PATH), &mut random)?;
        match LedgerStore::<E>::open_whole(&damaged) {
            Ok(found) => {
                let (_, found) = found.context("no ledger")?;
                ensure!(same(&found, &expected), "{name}: {what}: opens, with other contents");
                harmless += 1;
            }
            Err(err) => {
                named += 1;
                panicked += usize::from(err.to_string().contains("storage engine panicked"));
            }
        }
        fs::remove_dir_all(&damaged)?;
    }
    std::panic::set_hook(hook);
    println!("{name:6} {damages:14} {named:6} {harmless:9} {panicked:9}");
    Ok(())
}

/// Flips a bit somewhere, or cuts a file short.
fn damage(path: &Path, random: &mut StdRng) -> anyhow::Result<String> {
    let files = files_below(path)?;
    let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    let mut at = random.random_range(0..bytes);
    for (path, bytes) in files {
        if at >= bytes {
            at -= bytes;
            continue;
        }
        let mut data = fs::read(&path)?;
        let cut = random.random_ratio(1, 5);
        if cut {
            data.truncate(at as usize);
        } else {
            data[at as usize] ^= 1 << random.random_range(0..8);
        }
        fs::write(&path, data)?;
        return Ok(format!(
            "{} {at} of {}",
            if cut { "cut at" } else { "flip at" },
            path.display()
        ));
    }
    bail!("no files in {}", path.display())
}

fn same(found: &Restored, expected: &Restored) -> bool {
    let transactions = |restored: &Restored| -> Vec<_> {
        let blocks = restored.blocks.iter();
        blocks.map(|block| (block.id, block.blockhash, block.transactions.len())).collect()
    };
    transactions(found) == transactions(expected) && found.accounts == expected.accounts
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for (path, _) in files_below(from)? {
        let target = to.join(path.strip_prefix(from)?);
        fs::create_dir_all(target.parent().context("no folder")?)?;
        fs::copy(&path, &target)?;
    }
    Ok(())
}

/// Files and their lengths, in a stable order.
fn files_below(path: &Path) -> anyhow::Result<Vec<(PathBuf, u64)>> {
    if path.is_file() {
        return Ok(vec![(path.into(), path.metadata()?.len())]);
    }
    let mut entries = fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(|entry| entry.file_name());
    let mut files = Vec::new();
    for entry in entries {
        files.extend(files_below(&entry.path())?);
    }
    Ok(files)
}

/// Repeatedly kills a process that appends large blocks, and checks the remaining files. The blocks are large so that
/// background work of the engine is interrupted as well.
fn kills<E: Engine>(name: &str, kills: usize) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    drop(create::<E>(dir.path(), &mut Ledger::new(3))?);
    let mut slowest = Duration::ZERO;
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..kills {
        let reported = kill_child(name, dir.path(), random.random_range(1..16), KILL_TRANSACTIONS)?;
        slowest = slowest.max(open_time::<E>(dir.path(), reported)?);
    }
    println!("{name:6} {kills:7}  yes  {:.0} ms", ms(slowest));
    Ok(())
}

/// Starts a process that appends to `dir`, and kills it after it has reported `reports` blocks. Returns the newest
/// reported slot.
fn kill_child(
    engine: &str,
    dir: &Path,
    reports: usize,
    transactions: usize,
) -> anyhow::Result<usize> {
    let child = format!("{engine}:{transactions}:{}", dir.display());
    let mut child = Command::new(env::current_exe()?)
        .args(env::args().skip(1))
        .env(CHILD_ENV, child)
        .stdout(Stdio::piped())
        .spawn()?;
    // The pipe stays open until the child is dead: it must not end on its own.
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let mut reported: Vec<String> = lines.by_ref().take(reports).collect::<Result<_, _>>()?;
    child.kill()?;
    let ended = child.wait()?;
    ensure!(ended.signal() == Some(9), "the child ended by itself: {ended}");
    reported.extend(lines.map_while(Result::ok));
    Ok(reported.last().context("the child reported no slot")?.parse()?)
}

fn append_until_killed(child: &str) -> anyhow::Result<()> {
    let [engine, transactions, dir] = child.splitn(3, ':').collect::<Vec<_>>()[..] else {
        bail!("{CHILD_ENV} is engine:transactions:directory");
    };
    match engine {
        "redb" => append_forever::<Redb>(Path::new(dir), transactions.parse()?),
        _ => append_forever::<Fjall>(Path::new(dir), transactions.parse()?),
    }
}

fn append_forever<E: Engine>(dir: &Path, transactions: usize) -> anyhow::Result<()> {
    let (mut store, restored) = LedgerStore::<E>::open_whole(dir)?.context("no ledger")?;
    let last = restored.blocks.last().context("no blocks")?;
    let mut ledger = Ledger::from_last_block(last);
    drop(restored);
    loop {
        store.append(&ledger.block(transactions))?;
        println!("{}", store.newest_slot());
    }
}

/// The time to open a ledger. It must have `slot` or a later one.
fn open_time<E: Engine>(dir: &Path, slot: usize) -> anyhow::Result<Duration> {
    let started = now();
    let (store, _restored) = LedgerStore::<E>::open_whole(dir)?.context("no ledger")?;
    let took = started.elapsed();
    ensure!(store.newest_slot() >= slot as u64, "lost blocks: {} of {slot}", store.newest_slot());
    Ok(took)
}

fn create<E: Engine>(dir: &Path, ledger: &mut Ledger) -> anyhow::Result<LedgerStore<E>> {
    Ok(LedgerStore::create(dir, b"genesis", [], &ledger.block(0))?)
}

/// An engine that stores nothing: the cost of all code above the engine.
struct NullEngine;

impl Engine for NullEngine {
    const PATH: &'static str = "nothing";

    fn open(_path: &Path, _tables: &[Table]) -> Result<Self, EngineError> {
        Ok(Self)
    }

    fn commit(&mut self, batch: &mut impl Batch) -> Result<(), EngineError> {
        batch.last();
        Ok(())
    }

    fn bulk_insert(&mut self, _: &[Row<impl Key>]) -> Result<(), EngineError> {
        Ok(())
    }

    fn scan(&self, _: Table, _: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), EngineError> {
        Ok(())
    }
}

/// The contents of a block, without keys, lengths, seals and compression.
fn payload_bytes(block: &Block) -> u64 {
    let transactions = block.transactions.iter().map(|executed| {
        let logs: usize = executed.meta.log_messages.iter().flatten().map(String::len).sum();
        64 + 32 * executed.account_keys.len() + 60 + 16 * executed.account_keys.len() + logs
    });
    let accounts = block.writes.iter().flat_map(|write| write.after());
    let accounts = accounts.map(|account| 32 + 49 + account.0.data().len());
    (transactions.sum::<usize>() + accounts.sum::<usize>()) as u64
}

/// Bytes that this process has handed to the kernel; 0 if unknown.
fn bytes_written() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// Bytes in use on the disk: a file may be longer than its written parts.
fn bytes_below(dir: &Path) -> anyhow::Result<u64> {
    let files = files_below(dir)?;
    files.iter().try_fold(0, |bytes, (path, _)| Ok(bytes + path.metadata()?.blocks() * 512))
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1000.0
}
