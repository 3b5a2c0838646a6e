//! A server under measurement: `quic_server ours|ours-fixed|ours-discard|quinn [--window N] [--bytes N]`.
//!
//! `ours-fixed` grants the whole window at once to all connections. `ours-discard` has no queue and no second thread:
//! it drops transactions where it receives them, as the rivals do.
//! It counts its allocations, and reports them on request over standard input (`tpu/metrics.rs`).
#![forbid(unsafe_code)]

#[path = "../tpu/metrics.rs"]
mod metrics;
#[path = "../tpu/quinn_server.rs"]
mod quinn_server;

use std::alloc::System;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::tpu::{
    Config, Counters, FairQueue, ReceivedTransaction, Server, TlsIdentity, TransactionSink,
};
use anyhow::{Result, bail};
use metrics::Received;
use solana_keypair::Keypair;
use solana_signer::Signer;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = args.iter().position(|arg| arg == flag)?;
        args.get(at + 1)?.parse::<usize>().ok()
    };
    let window = value("--window").unwrap_or(512);
    match args.first().map(String::as_str) {
        Some("ours") => serve_queue(config(window)),
        Some("ours-fixed") => {
            let window_initial = window as u32;
            let streams_max = window * config(window).connections_max;
            serve_queue(Config { window_initial, streams_max, ..config(window) })
        }
        Some("ours-discard") => serve_discarding(config(window)),
        Some("quinn") => quinn_server::serve(window, value("--bytes").unwrap_or(0), allocations),
        _ => bail!("quic_server ours|ours-fixed|ours-discard|quinn"),
    }
}

/// Allocations since the start, their bytes, and the bytes in use.
fn allocations() -> (u64, u64, u64) {
    let stats = ALLOCATOR.stats();
    let count = stats.allocations + stats.reallocations;
    let in_use = stats.bytes_allocated.saturating_sub(stats.bytes_deallocated);
    (count as u64, stats.bytes_allocated as u64, in_use as u64)
}

fn config(window: usize) -> Config {
    Config {
        window_max: window as u32,
        connections_per_identity_max: usize::MAX,
        handshakes_per_address_per_minute: 1_000_000,
        handshakes_per_second: 100_000,
        handshakes_max: 4_000,
        retry_above: 4_000,
        ..Config::default()
    }
}

/// Starts Hydrant's server on any port of loopback.
fn start(
    config: Config,
    sink: Arc<dyn TransactionSink>,
    counters: &Arc<Counters>,
) -> Result<Server> {
    let keypair = Keypair::new();
    let identity = TlsIdentity::new(*keypair.secret_bytes(), keypair.pubkey());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Ok(Server::start(Arc::new(config), any, &identity, sink, Arc::clone(counters))?)
}

/// Counts transactions, and drops them on the thread that received them.
struct DiscardingSink(Arc<Received>);

impl TransactionSink for DiscardingSink {
    fn push_batch(&self, batch: &mut Vec<ReceivedTransaction>) {
        self.0.add(batch.len() as u64, sum_bytes(batch));
        batch.clear();
    }
}

fn sum_bytes(batch: &[ReceivedTransaction]) -> u64 {
    batch.iter().map(|received| received.bytes.len() as u64).sum()
}

/// Hydrant's server without anything behind its connections.
fn serve_discarding(config: Config) -> Result<()> {
    let received = Arc::<Received>::default();
    let sink = Arc::new(DiscardingSink(Arc::clone(&received)));
    let server = start(config, sink, &Arc::default())?;
    metrics::write_reports(server.address().port(), &received, allocations, String::new);
    Ok(())
}

/// Hydrant's server, up to the queue, and a thread that takes transactions from it as the signature threads do.
fn serve_queue(config: Config) -> Result<()> {
    let counters = Arc::<Counters>::default();
    let queue = Arc::new(FairQueue::new(config.queue_max, Arc::clone(&counters)));
    let sink = Arc::clone(&queue) as Arc<dyn TransactionSink>;
    let server = start(config, sink, &counters)?;
    let received = Arc::<Received>::default();
    let counts = Arc::clone(&received);
    let latencies = Arc::<Latencies>::default();
    let recorded = Arc::clone(&latencies);
    std::thread::spawn(move || {
        let (mut batch, mut all) = (Vec::with_capacity(64), Vec::<ReceivedTransaction>::new());
        while queue.pop(&mut batch, 64, Duration::from_millis(100)) {
            all.extend(batch.drain(..).map(|(received, _)| received));
            counts.add(all.len() as u64, sum_bytes(&all));
            recorded.add(&all);
            all.clear();
        }
    });
    metrics::write_reports(server.address().port(), &received, allocations, || {
        let metrics = counters.snapshot();
        let [half, most] = latencies.take_quantiles();
        let mut extra = format!(
            ",\"datagrams\":{},\"rounds\":{},\"buffers_made\":{},\"open\":{},\
             \"latency_p50_us\":{half},\"latency_p99_us\":{most},\"refused\":{{",
            metrics.datagrams, metrics.rounds, metrics.buffers_made, metrics.open
        );
        for (at, (name, count)) in metrics.drop_reasons().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            extra.push_str(&format!("{comma}\"{name}\":{count}"));
        }
        extra.push('}');
        extra
    });
    Ok(())
}

/// Buckets for each power of two microseconds.
const PARTS: u64 = 4;

/// Times of transactions from their first byte to the end of the queue, since the last request.
#[derive(Default)]
struct Latencies([[AtomicU64; PARTS as usize]; 32]);

impl Latencies {
    /// Uses the oldest transaction's time for the whole batch: a count for each would cost more than some of the
    /// measured steps.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    fn add(&self, batch: &[ReceivedTransaction]) {
        let Some(first) = batch.first() else { return };
        let us = Instant::now().saturating_duration_since(first.since).as_micros() as u64;
        let us = us.clamp(PARTS, u64::from(u32::MAX));
        let power = us.ilog2();
        let part = (us >> (power - PARTS.ilog2())) % PARTS;
        let count = &self.0[power as usize][part as usize];
        count.fetch_add(batch.len() as u64, Ordering::Relaxed);
    }

    /// The median and the 99th percentile in microseconds. Resets the counts.
    fn take_quantiles(&self) -> [u64; 2] {
        let counts: Vec<u64> =
            self.0.iter().flatten().map(|count| count.swap(0, Ordering::Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        [all / 2, all - all / 100].map(|rank| {
            let mut seen = 0;
            let at = counts.iter().position(|count| {
                seen += count;
                seen >= rank.max(1)
            });
            let at = at.unwrap_or_default() as u64;
            (PARTS + at % PARTS + 1) << (at / PARTS) >> PARTS.ilog2()
        })
    }
}
