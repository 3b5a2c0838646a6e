//! Agave's solana-streamer 4.2.2, as a server under measurement: see `src/tpu` of benchmarks.
//!
//! The generator's one identity has all the stake, so that the throttle never limits it: the cost of a stream is
//! measured.
#![forbid(unsafe_code)]

#[path = "../../../src/tpu/metrics.rs"]
mod metrics;

use std::alloc::System;
use std::collections::HashMap;
use std::net::UdpSocket;
use std::num::NonZeroUsize;
use std::sync::{Arc, RwLock};

use metrics::Received;
use solana_keypair::Keypair;
use solana_signer::Signer;
use solana_streamer::nonblocking::swqos::SwQosConfig;
use solana_streamer::quic::{QuicStreamerConfig, spawn_stake_weighted_qos_server};
use solana_streamer::streamer::StakedNodes;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The seed of the generator's key when all connections share one.
const SEED: [u8; 32] = [7; 32];

fn main() -> anyhow::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket2::SockRef::from(&socket).set_recv_buffer_size(8 << 20)?;
    let port = socket.local_addr()?.port();
    let client = Keypair::new_from_array(SEED).pubkey();
    let stakes = Arc::new(HashMap::from([(client, 1_000_000_000)]));
    let staked = Arc::new(RwLock::new(StakedNodes::new(stakes, HashMap::new())));
    let (to, from) = crossbeam_channel::bounded(16_384);
    let args: Vec<String> = std::env::args().collect();
    let at = args.iter().position(|arg| arg == "--bytes");
    let bytes = at.and_then(|at| args.get(at + 1)?.parse().ok()).unwrap_or(0).max(1_232);
    let config = QuicStreamerConfig {
        stream_receive_window_size: bytes,
        max_stream_data_bytes: bytes,
        max_connections_per_ipaddr_per_min: 1_000_000,
        num_threads: NonZeroUsize::MIN,
        ..QuicStreamerConfig::default()
    };
    let qos = SwQosConfig {
        max_streams_per_ms: 1_000_000,
        max_staked_connections: 4_000,
        max_connections_per_staked_peer: 4_000,
        ..SwQosConfig::default()
    };
    let cancel = CancellationToken::new();
    let _server = spawn_stake_weighted_qos_server(
        "streamer",
        "streamer",
        [socket.into()],
        &Keypair::new(),
        to,
        staked,
        config,
        qos,
        cancel,
    )?;
    let received = Arc::<Received>::default();
    let counts = Arc::clone(&received);
    std::thread::spawn(move || {
        for batch in from {
            let bytes = batch.iter().map(|packet| packet.meta().size as u64).sum();
            counts.add(batch.len() as u64, bytes);
        }
    });
    metrics::write_reports(
        port,
        &received,
        || {
            let stats = ALLOCATOR.stats();
            let in_use = stats.bytes_allocated.saturating_sub(stats.bytes_deallocated);
            let count = stats.allocations + stats.reallocations;
            (count as u64, stats.bytes_allocated as u64, in_use as u64)
        },
        String::new,
    );
    Ok(())
}
