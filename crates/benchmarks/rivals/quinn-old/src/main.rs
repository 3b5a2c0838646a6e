//! quinn 0.11.5 with quinn-proto 0.11.8, as a server under measurement: see `src/tpu` of benchmarks.
#![forbid(unsafe_code)]

#[path = "../../../src/tpu/metrics.rs"]
mod metrics;
#[path = "../../../src/tpu/quinn_server.rs"]
mod quinn_server;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let value = |flag: &str| {
        let at = args.iter().position(|arg| arg == flag)?;
        args.get(at + 1)?.parse().ok()
    };
    let window = value("--window").unwrap_or(512);
    let bytes = value("--bytes").unwrap_or(0);
    quinn_server::serve(window, bytes, || {
        let stats = ALLOCATOR.stats();
        let in_use = stats.bytes_allocated.saturating_sub(stats.bytes_deallocated);
        let count = stats.allocations + stats.reallocations;
        (count as u64, stats.bytes_allocated as u64, in_use as u64)
    })
}
