//! A follower of a chain of mainnet's shape, in a process of its own, with the binary's allocator, for `bench follow`:
//! `followed-chain [--toy] [--slots N]`.
//!
//! Measurements go to standard output: lines `figure NAME VALUE` for the program that started it, all other lines for people.
//! A synthetic chain ([`chain`]) is made and encoded before anything is measured. Each slot has the updates of 400 ms of
//! mainnet: 18,000 account updates and 3,300 transactions a second. A source in this process sends them over a socket to
//! a follower, as fast as it takes them, and then once more at their own rate to another one. Both verify every bank with
//! the signatures of its transactions. A third one verifies entries, too, at mainnet's number of hashes.
//! Measured: updates a second from the first byte to the tip's event, next to prost's decoding of the same messages in
//! this run; at mainnet's rate the time from when block metadata is due until the bank is the tip, also while stake
//! rewards are paid; from when the child's SlotHashes is due until the bank is confirmed, also with entries; the time in which the follower hashes accounts
//! and checks transactions;
//! and what the follower holds above the rooted state ([`memory`]).
//! Source, decoding and writer share the machine's cores.
//! Not here: the bars (`follow.rs`).
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "measurements go to the caller")]

#[path = "../arguments.rs"]
mod arguments;
mod chain;
mod events;
mod memory;
mod messages;
mod shape;
mod snapshot;
mod source;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chain_solana::HistoryLimits;
use feed::FeedConfig;
use follow::{
    AgreementConfig, Base, CheckTimes, Follower, FollowerConfig, OnMismatch, SourceConfig,
    StreamConfig, VerifyMode,
};
use hdrhistogram::Histogram;
use prost::Message;
use query::LedgerConfig;
use snapshot_solana::Progress;
use testkit::clock::now;
use testkit::synthetic::{ACCOUNTS_MIN, Synthetic, SyntheticConfig};
use yellowstone_grpc_proto::geyser::SubscribeUpdate;

use self::chain::{Chain, Slot};
use self::events::Times;
use self::memory::AboveRoot;
use self::snapshot::SnapshotFile;
use self::source::{Pace, Script};
use crate::arguments::value_of;

// The binary's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Mainnet's account updates and transactions a second.
const UPDATES_PER_S: f64 = 18_000.0;
/// Time limit of a run, until its last bank is the tip.
const TIMEOUT: Duration = Duration::from_secs(300);
const SEED: u64 = 14;

struct Size {
    accounts: u32,
    slots: usize,
    /// Banks that also pay stake rewards, from this slot on.
    rewards_from: usize,
    rewards: usize,
    /// Updates and transactions of a slot.
    shape: shape::Shape,
    slot_time: Duration,
}

const FULL: Size = Size {
    accounts: 200_000,
    slots: 120,
    rewards_from: 80,
    rewards: 10,
    shape: shape::Shape {
        votes: 520,
        transactions: 800,
        rewarded_stakes: 4_096,
        tick_hashes: 62_500,
    },
    slot_time: Duration::from_millis(400),
};

const TOY: Size = Size {
    accounts: ACCOUNTS_MIN,
    slots: 8,
    rewards_from: 4,
    rewards: 2,
    shape: shape::Shape { votes: 5, transactions: 8, rewarded_stakes: 10, tick_hashes: 20 },
    slot_time: Duration::from_millis(20),
};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is_toy = args.iter().any(|arg| arg == "--toy");
    let mut size = if is_toy { TOY } else { FULL };
    if let Some(slots) = value_of(&args, "--slots")? {
        size.slots = slots.parse().context("--slots")?;
    }
    // Large accounts of 5 to 20 KB: then three times mainnet's rate is 1.2 Gbit/s.
    let config =
        SyntheticConfig { large_bytes: 5_120, ..SyntheticConfig::mainnet(SEED, size.accounts) };
    let synthetic = Synthetic::new(config);
    let dir = tempfile::tempdir()?;
    let snapshot = SnapshotFile::write(dir.path(), &synthetic, &size.shape)?;
    let mut chain = Chain::new(&synthetic, &snapshot, size.shape)?;
    let rewards = size.rewards_from..size.rewards_from + size.rewards;
    let slots: Vec<Slot> =
        (0..size.slots).map(|n| chain.slot(rewards.contains(&n))).collect::<Result<_>>()?;
    let slots: Arc<[Slot]> = slots.into();
    print_shape(&slots, size.slot_time);
    let lattice_ms = chain.lattice_ms();

    let (updates, bytes) = (sum(&slots, |slot| slot.updates), sum(&slots, |slot| slot.bytes()));
    let decode_s = decode_all(&slots)?;
    let script = |pace, has_entries| Script { slots: Arc::clone(&slots), pace, has_entries };
    let fast = follow_chain(&snapshot, script(Pace::Unlimited, false))?;
    let applied_s = fast.seconds()?;
    let decoded = updates as f64 / decode_s;
    let applied = updates as f64 / applied_s;
    println!("\n                    updates/s   times mainnet   MB/s");
    for (name, rate) in [("prost alone", decoded), ("applied", applied)] {
        let mb = rate / updates as f64 * bytes as f64 / 1e6;
        println!("{name:16} {rate:12.0} {:15.2} {mb:6.0}", rate / UPDATES_PER_S);
    }
    println!("applied to prost alone: {:.3}", applied / decoded);

    let pace = Pace::PerSlot(size.slot_time);
    let paced = follow_chain(&snapshot, script(pace, false))?;
    let with_entries = follow_chain(&snapshot, script(pace, true))?;
    // The slot after the last rewards has what is left of them in the queue.
    let is_rewarding = |n: usize| (rewards.start..=rewards.end).contains(&n);
    let lags = paced.lags(&slots, |n| !is_rewarding(n))?;
    let reward_lags = paced.lags(&slots, is_rewarding)?;
    let verdicts = paced.verdicts(&slots)?;
    let entry_verdicts = with_entries.verdicts(&slots)?;
    println!("\nat mainnet's rate, ms                        p50      p99      max");
    for (name, of) in [
        ("block metadata to visible", &lags),
        ("the same, while rewards are paid", &reward_lags),
        ("SlotHashes of the child to confirmed", &verdicts),
        ("the same, with --verify-entries", &entry_verdicts),
    ] {
        let ms = |quantile: f64| of.value_at_quantile(quantile) as f64 / 1e3;
        println!("{name:38} {:9.2} {:8.2} {:8.2}", ms(0.5), ms(0.99), of.max() as f64 / 1e3);
    }
    let slot_s = size.slot_time.as_secs_f64();
    let share = paced.hash_time.as_secs_f64() / slots.len() as f64 / slot_s;
    println!(
        "lattice hash: {:.2} ms a slot while it is open, {:.1} % of a core; {lattice_ms:.2} ms of CPU at its end, once an account",
        share * slot_s * 1e3,
        share * 100.0
    );
    println!(
        "the writer's thread at mainnet's rate: {:.1} % of a core, with the streams' {:.1} %",
        paced.cores(&["follow"])? * 100.0,
        paced.cores(&["follow", events::STREAM_THREAD])? * 100.0
    );

    for (name, of) in [("signatures", &paced), ("with --verify-entries", &with_entries)] {
        let share = |time: Duration| time.as_secs_f64() * 100.0 / slots.len() as f64 / slot_s;
        let CheckTimes { signatures, entries, balances } = of.check_times;
        println!(
            "checks of transactions, {name}: {:.1} % of a core; of their time, in % of a slot, signatures {:.1}, entries \
             {:.1}, balances {:.1}",
            of.check_cores()? * 100.0,
            share(signatures),
            share(entries),
            share(balances),
        );
    }

    println!("above the rooted state, at most, at mainnet's rate: {}", paced.memory);

    let slot_ms = size.slot_time.as_secs_f64() * 1e3;
    let p99_ms = |of: &Histogram<u64>| of.value_at_quantile(0.99) as f64 / 1e3;
    for (name, value) in [
        ("applied_of_mainnet", applied / UPDATES_PER_S),
        ("lag_p99", p99_ms(&lags)),
        ("lag_in_epoch_start", p99_ms(&reward_lags) / slot_ms),
        ("verdict_p99", p99_ms(&verdicts)),
        ("lattice_share", share),
        ("above_root", paced.memory.megabytes()),
    ] {
        println!("figure {name} {value:.3}");
    }
    Ok(())
}

fn sum(slots: &[Slot], of: impl Fn(&Slot) -> usize) -> usize {
    slots.iter().map(of).sum()
}

fn print_shape(slots: &[Slot], slot_time: Duration) {
    let per_slot = |of: fn(&Slot) -> usize| sum(slots, of) as f64 / slots.len() as f64;
    let per_s = |of: fn(&Slot) -> usize| per_slot(of) / slot_time.as_secs_f64();
    println!(
        "{} slots: {:.0} account updates of {:.0} accounts and {:.0} transactions a slot, {:.1} MB; \
         {:.0}, {:.0} a second and {:.2} Gbit/s",
        slots.len(),
        per_slot(|slot| slot.updates),
        per_slot(|slot| slot.accounts),
        per_slot(|slot| slot.transactions),
        per_slot(Slot::bytes) / 1e6,
        per_s(|slot| slot.updates),
        per_s(|slot| slot.transactions),
        per_s(Slot::bytes) * 8.0 / 1e9,
    );
}

/// Seconds of decoding all messages on this thread.
fn decode_all(slots: &[Slot]) -> Result<f64> {
    let started = now();
    for message in slots.iter().flat_map(Slot::messages) {
        let update = SubscribeUpdate::decode(message).context("a message decodes")?;
        ensure!(update.update_oneof.is_some(), "an empty message");
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Follows the chain from its snapshot until its last bank is the tip and the bank before it is confirmed.
fn follow_chain(snapshot: &SnapshotFile, script: Script) -> Result<Times> {
    let Script { pace, has_entries, .. } = script;
    let last = script.slots.last().context("a slot")?.slot;
    let source = source::start(script)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(events::STREAM_THREAD)
        .enable_all()
        .build()?;
    let _guard = runtime.enter();
    let config = FollowerConfig {
        sources: vec![SourceConfig { url: format!("http://{}", source.address), x_token: None }],
        stream: StreamConfig::default(),
        feed: FeedConfig::default(),
        history: HistoryLimits { blocks_max: 64, bytes_max: 1 << 30 },
        verify: VerifyMode::Sequence,
        verify_entries: has_entries,
        execution: None,
        agreement: AgreementConfig::default(),
        epoch_stakes: Vec::new(),
        trusted_banks: Vec::new(),
        on_mismatch: OnMismatch::Stop,
        upstream: None,
        archives: None,
    };
    let limits = LedgerConfig::new(snapshot.addresses_max);
    let progress = Progress::default();
    let loaded = snapshot_ledger::load_snapshot(&limits, &snapshot.path, None, 1, &progress)
        .context("load the snapshot")?;
    let follower = Follower::new(config, Base::from_snapshot(loaded)?)?;
    let status = Arc::clone(follower.status());
    let mut memory = AboveRoot::new(follower.reader());
    let recorder = events::Recorder::new(last);
    let handle = follower.start(vec![Box::new(recorder.clone())])?;
    let started = now();
    let is_done = loop {
        let is_done = recorder.wait(memory::INTERVAL);
        if is_done || started.elapsed() > TIMEOUT {
            break is_done;
        }
        memory.observe(&status);
    };
    ensure!(
        is_done,
        "the last bank is not the tip: the tip is {}, gaps {:?}, the stream {:?}, mismatch {:?}",
        status.processed(),
        status.last_gap(),
        status.last_stream_end(),
        status.mismatch()
    );
    let cpu = events::thread_cpu()?;
    let began = *source.began.get().context("nothing was sent")?;
    ensure!(status.gaps() == 0 && status.sessions() == 1, "the stream was cut");
    handle.stop()?;
    source.stop();
    let hash_time = status.proof().hash_time();
    let check_times = status.proof().check_times();
    Ok(Times { recorder, began, pace, cpu, memory, hash_time, check_times })
}
