//! A replicated log, its snapshots and a replica in a process of its own, with the binary's allocator, for
//! `bench cluster`: `replicated-chain [--toy] [--nats FILE]`.
//!
//! Measurements go to standard output: lines `figure NAME VALUE` for the program that started it, all other lines for
//! people. A made-up chain ([`chain`]) has real sums, so a replica checks each block. Measured: a snapshot of the
//! state, written and loaded; CPU time of the replica's writer while it catches up with a log in memory; the time from
//! the append of a block until it is visible, while a snapshot is written and without; and over NATS, or over a
//! directory without it, the rate of appends and the lag at five blocks of 2 MB a second, alone and while another
//! replica catches up. Servers, writer and replicas share the machine's cores.
//! Not here: the bars (`cluster.rs`), failovers and faults, which `cargo xtask cluster` makes of real processes.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "measurements go to the caller")]

#[path = "../arguments.rs"]
mod arguments;
mod chain;
mod following;
mod log_writer;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use cluster_snapshot::{Manifest, WriteLimits, load_snapshot_parts};
use depot::{Depot, DepotConfig};
use hdrhistogram::Histogram;
use ledger::Commitment;
use replicated_log::memory::MemoryLogSpace;
use replicated_log::{LogConfig, LogSpace, open_log_space};
use testkit::clock::now;
use testkit::nats_servers::{NatsOptions, NatsServers};

use crate::arguments::value_of;
use crate::chain::{MadeChain, Shape};
use crate::following::Follower;
use crate::log_writer::{CLUSTER, ChainSnapshot, LogWriter, ledger_config};
use crate::threads::thread_cpu;

// The binary's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Blocks a second, as mainnet will have them.
const BLOCKS_PER_S: u32 = 5;
/// Account writes a second of a live chain.
const LIVE_WRITES_PER_S: f64 = 50_000.0;
/// Threads that decode the parts of a snapshot.
const LOAD_THREADS: usize = 2;
/// Size of the log. NATS reserves it.
const LOG_BYTES: u64 = 800_000_000;

struct Size {
    /// The state that snapshots and catching up are measured with: accounts like those of tokens.
    state: Shape,
    /// Blocks to catch up with, and account writes of each.
    caught_up_blocks: u32,
    caught_up_writes: u32,
    /// Blocks of a measurement of lag, and account writes of each in memory.
    lag_blocks: u32,
    quiet_writes: u32,
    /// The state of the measurements over a real log: accounts of 2 KB.
    large: Shape,
    large_writes: u32,
    appended_blocks: u32,
}

const FULL: Size = Size {
    state: Shape { accounts: 500_000, account_bytes: 165 },
    caught_up_blocks: 30,
    caught_up_writes: 20_000,
    lag_blocks: 100,
    quiet_writes: 2_000,
    large: Shape { accounts: 20_000, account_bytes: 2_000 },
    large_writes: 1_000,
    appended_blocks: 60,
};

const TOY: Size = Size {
    state: Shape { accounts: 2_000, account_bytes: 165 },
    caught_up_blocks: 4,
    caught_up_writes: 100,
    lag_blocks: 3,
    quiet_writes: 20,
    large: Shape { accounts: 200, account_bytes: 500 },
    large_writes: 20,
    appended_blocks: 4,
};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let size = if args.iter().any(|arg| arg == "--toy") { TOY } else { FULL };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let dir = tempfile::tempdir()?;
    runtime.block_on(measure_state(&size, dir.path()))?;
    let nats = value_of(&args, "--nats")?.map(Path::new);
    runtime.block_on(measure_log(&size, dir.path(), nats))
}

fn open_depot(dir: &Path, name: &str) -> Result<Depot> {
    let url = format!("file://{}", dir.join(name).display());
    Ok(Depot::open(&url, &DepotConfig::default())?)
}

/// Measures snapshots, catching up, and the effect of a snapshot that is written meanwhile.
async fn measure_state(size: &Size, dir: &Path) -> Result<()> {
    let mut chain = MadeChain::new(size.state);
    let depot = open_depot(dir, "snapshots")?;
    let space = MemoryLogSpace::new();
    let (mut writer, manifest) = LogWriter::open(&space, &depot, &chain).await?;
    measure_load(&depot, manifest).await?;
    for _ in 0..size.caught_up_blocks {
        let made = chain.extend(size.caught_up_writes).clone();
        writer.append_block(&made).await?;
    }
    let follower = Follower::start(Arc::new(space), depot).await?;
    let tip = chain.tip().block.id.slot;
    let began = now();
    follower.wait_for(tip).await?;
    let took = began.elapsed().as_secs_f64();
    let writing = thread_cpu("replica")?.as_secs_f64();
    let reading = thread_cpu("replica-log")?.as_secs_f64();
    let writes = f64::from(size.caught_up_blocks * size.caught_up_writes);
    println!(
        "catching up: {writes} writes in {took:.2} s, {:.2} us of the writer and {:.2} us of the reader each",
        writing * 1e6 / writes,
        reading * 1e6 / writes
    );
    figure("catch_up", writes / writing / LIVE_WRITES_PER_S);

    let quiet = measure_lag(&mut chain, &mut writer, &follower, size, size.quiet_writes).await?;
    print_lag("in memory", &quiet);
    let view = follower.reader.view(Commitment::Finalized);
    let snapshot = writer.snapshot(view, &chain)?;
    // As fast as it can be written: a replica limits the rate.
    let limits = WriteLimits { bytes_per_second: u64::MAX, ..WriteLimits::default() };
    let began = now();
    let manifest = snapshot.write(&open_depot(dir, "fast")?, limits).await?;
    let took = began.elapsed().as_secs_f64();
    let bytes: u64 = manifest.parts.iter().map(|part| part.unpacked_bytes).sum();
    let megabytes = bytes as f64 / 1e6;
    println!("snapshot: {} accounts, {megabytes:.1} MB in {took:.2} s", manifest.accounts);
    figure("snapshot_write_mb_s", megabytes / took);
    let stores = dir.to_owned();
    let writing = tokio::spawn(write_again_and_again(snapshot, stores));
    let busy = measure_lag(&mut chain, &mut writer, &follower, size, size.quiet_writes).await;
    writing.abort();
    let busy = busy?;
    print_lag("while snapshots are written", &busy);
    let p99 = |times: &Histogram<u64>| times.value_at_quantile(0.99) as f64;
    figure("apply_with_snapshot", p99(&busy) / p99(&quiet).max(1.0));
    follower.stop()
}

/// Writes a snapshot at a replica's rate until the task is aborted.
async fn write_again_and_again(snapshot: ChainSnapshot, dir: PathBuf) -> Result<()> {
    for number in 0_u64.. {
        let depot = open_depot(&dir, &format!("again-{number}"))?;
        snapshot.write(&depot, WriteLimits::default()).await?;
    }
    Ok(())
}

async fn measure_load(depot: &Depot, manifest: Manifest) -> Result<()> {
    let accounts = manifest.accounts as f64;
    let gigabytes: f64 = manifest.parts.iter().map(|part| part.bytes as f64 / 1e9).sum();
    let began = now();
    let loaded = load_snapshot_parts(depot, &manifest, ledger_config(), LOAD_THREADS).await?;
    let took = began.elapsed().as_secs_f64();
    drop(loaded);
    println!("loading: {accounts} accounts in {took:.2} s, {:.1} s a GB", took / gigabytes);
    figure("load_accounts_s", accounts / took);
    figure("load_s_per_gb", took / gigabytes);
    Ok(())
}

/// Measures appends and lag over NATS, or over a directory.
async fn measure_log(size: &Size, dir: &Path, nats: Option<&Path>) -> Result<()> {
    let servers = match nats {
        Some(program) => Some(NatsServers::start(program, NatsOptions::safe(3)).await),
        None => None,
    };
    let directory = || format!("file://{}", dir.join("log").display());
    let config = LogConfig {
        url: servers.as_ref().map_or_else(directory, NatsServers::url),
        cluster: CLUSTER.to_owned(),
        replicas: 3,
        max_age: Duration::from_secs(3_600),
        max_bytes: LOG_BYTES,
        in_flight_bytes: 4 << 20,
        request_timeout: Duration::from_secs(20),
    };
    println!("log: {}", if servers.is_some() { "three nats-servers" } else { "a directory" });
    figure("is_nats", f64::from(u8::from(servers.is_some())));
    let space: Arc<dyn LogSpace> = open_log_space(&config).await?;
    let depot = open_depot(dir, "log-snapshots")?;
    let mut chain = MadeChain::new(size.large);
    let (mut writer, _) = LogWriter::open(&*space, &depot, &chain).await?;
    let mut bytes = 0;
    let mut appending = Duration::ZERO;
    let mut encoding = Duration::ZERO;
    let mut acks = Histogram::<u64>::new(3)?;
    for _ in 0..size.appended_blocks {
        let made = chain.extend(size.large_writes).clone();
        let append = writer.append_block(&made).await?;
        bytes += append.bytes;
        appending += append.appending;
        encoding += append.encoding;
        acks.record(append.appending.as_micros() as u64)?;
    }
    let megabytes = bytes as f64 / 1e6;
    let blocks = f64::from(size.appended_blocks);
    println!(
        "appends: {:.2} MB a block, {:.1} ms to encode",
        megabytes / blocks,
        encoding.as_secs_f64() * 1e3 / blocks
    );
    print_lag("acknowledgement", &acks);
    figure("append_mb_s", megabytes / appending.as_secs_f64());

    let follower = Follower::start(Arc::clone(&space), depot.clone()).await?;
    follower.wait_for(chain.tip().block.id.slot).await?;
    let lag = measure_lag(&mut chain, &mut writer, &follower, size, size.large_writes).await?;
    print_lag("over the log", &lag);
    figure("lag_p50_ms", lag.value_at_quantile(0.5) as f64 / 1e3);
    figure("lag_p99_ms", lag.value_at_quantile(0.99) as f64 / 1e3);
    let second = Follower::start(space, depot).await?;
    let lag = measure_lag(&mut chain, &mut writer, &follower, size, size.large_writes).await?;
    print_lag("while another replica catches up", &lag);
    figure("lag_p99_catching_up_ms", lag.value_at_quantile(0.99) as f64 / 1e3);
    second.stop()?;
    follower.stop()
}

/// Appends blocks at their rate. Returns the microseconds from a whole block until it is visible.
async fn measure_lag(
    chain: &mut MadeChain,
    writer: &mut LogWriter,
    follower: &Follower,
    size: &Size,
    writes: u32,
) -> Result<Histogram<u64>> {
    let mut times = Histogram::<u64>::new(3)?;
    let mut interval = tokio::time::interval(Duration::from_secs(1) / BLOCKS_PER_S);
    let mut appends = Vec::new();
    for _ in 0..size.lag_blocks {
        let made = chain.extend(writes).clone();
        interval.tick().await;
        appends.push(writer.append_block(&made).await?);
    }
    follower.wait_for(chain.tip().block.id.slot).await?;
    for append in appends {
        let shown = follower.shown_at(append.slot).context("a block was not shown")?;
        times.record(shown.saturating_duration_since(append.began).as_micros() as u64)?;
    }
    Ok(times)
}

fn print_lag(name: &str, times: &Histogram<u64>) {
    let ms = |quantile: f64| times.value_at_quantile(quantile) as f64 / 1e3;
    println!("{name}: p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms", ms(0.5), ms(0.99), ms(1.0));
}

fn figure(name: &str, value: f64) {
    println!("figure {name} {value}");
}
