//! A server under measurement: `quic_server ours|quinn [--window N] [--streams N] [--no-offload]`.
//!
//! Counts its allocations; says what it is asked on standard input (`quic/figures.rs`).
#![forbid(unsafe_code)]

#[path = "../quic/figures.rs"]
mod figures;
#[path = "../quic/quinn_server.rs"]
mod quinn_server;

use std::alloc::System;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use figures::Received;
use quic::{Config, Counters, FairQueue, Identity, Server};
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
    let offload = !args.iter().any(|arg| arg == "--no-offload");
    match args.first().map(String::as_str) {
        Some("ours") => ours(window, value("--streams").unwrap_or(131_072), offload),
        Some("quinn") => quinn_server::serve(window, value("--bytes").unwrap_or(0), allocations),
        _ => bail!("quic_server ours|quinn"),
    }
}

/// Allocations since the start, their bytes, and the bytes that are held.
fn allocations() -> (u64, u64, u64) {
    let stats = ALLOCATOR.stats();
    let count = stats.allocations + stats.reallocations;
    let held = stats.bytes_allocated.saturating_sub(stats.bytes_deallocated);
    (count as u64, stats.bytes_allocated as u64, held as u64)
}

/// Our door, up to the queue and a thread that takes transactions from it, as those that check
/// signatures do.
fn ours(window: usize, streams: usize, offload: bool) -> Result<()> {
    let config = Arc::new(Config {
        window_max: window as u32,
        streams_max: streams,
        receive_offload: offload,
        connections_per_identity_max: usize::MAX,
        handshakes_per_address_per_minute: 1_000_000,
        handshakes_per_second: 100_000,
        handshakes_max: 4_000,
        retry_above: 4_000,
        ..Config::default()
    });
    let counters = Arc::<Counters>::default();
    let queue = Arc::new(FairQueue::new(config.queue_max, Arc::clone(&counters)));
    let keypair = Keypair::new();
    let identity = Identity::new(*keypair.secret_bytes(), keypair.pubkey());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let outlet = Arc::clone(&queue) as Arc<dyn quic::Outlet>;
    let server = Server::start(config, any, &identity, outlet, Arc::clone(&counters))?;
    let received = Arc::<Received>::default();
    let counts = Arc::clone(&received);
    std::thread::spawn(move || {
        let mut batch = Vec::with_capacity(64);
        while queue.pop(&mut batch, 64, Duration::from_millis(100)) {
            let bytes = batch.iter().map(|received| received.bytes.len() as u64).sum();
            counts.add(batch.len() as u64, bytes);
            batch.clear();
        }
    });
    figures::answer(server.address().port(), &received, allocations, || {
        let figures = counters.figures();
        let mut extra = format!(
            ",\"datagrams\":{},\"rounds\":{},\"buffers_made\":{},\"open\":{}",
            figures.datagrams, figures.rounds, figures.buffers_made, figures.open
        );
        for (name, count) in figures.causes() {
            extra.push_str(&format!(",\"{name}\":{count}"));
        }
        extra
    });
    Ok(())
}
