//! One response of gigabytes, which must not grow memory, and a client that disconnects while it reads it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::{Connection, Endpoint};
use testkit::clock::{now, sleep_for};

use super::server::Server;
use super::size::Size;
use super::targets::Targets;
use crate::threshold;

/// "Grows by less than 64 MB", "within 50 ms".
const GROWTH_MB_MAX: f64 = 64.0;
const STOPS_MS_MAX: f64 = 50.0;

/// Interval between two samples of resident memory.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);

/// Interval between two samples of the CPU time after a client has disconnected. A response that is computed uses a core
/// all the time. In an interval of 5 ms, a task that a node runs each 100 ms is enough to look busy.
const CPU_INTERVAL: Duration = Duration::from_millis(25);

/// Number of these intervals.
const INTERVALS: usize = 24;

/// A server that uses less CPU time in an interval is idle: sampling takes some, too.
const IDLE_SHARE: f64 = 0.15;

/// Bytes of a response that are read before the client disconnects.
const READ_BYTES: u64 = 1_000_000;

pub(crate) fn run(server: &Server, rpc: SocketAddr, targets: &Targets, size: &Size) -> Result<()> {
    let request = Endpoint::from(rpc).call("getProgramAccounts", &targets.whole);
    // Once before the measurement, so that the server has its usual allocations.
    read(rpc, &targets.megabyte().request(rpc), u64::MAX)?;
    let before = server.process().resident_bytes()?;
    let is_over = AtomicBool::new(false);
    let began = now();
    let (bytes, peak) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| -> Result<u64> {
            let mut peak = 0;
            while !is_over.load(Ordering::Relaxed) {
                peak = peak.max(server.process().resident_bytes()?);
                sleep_for(SAMPLE_INTERVAL);
            }
            Ok(peak)
        });
        let bytes = read(rpc, &request, u64::MAX);
        is_over.store(true, Ordering::Relaxed);
        let peak = watching.join().ok().context("the watching thread panicked")??;
        Ok::<_, anyhow::Error>((bytes?, peak))
    })?;
    let took = began.elapsed().as_secs_f64();
    let growth = peak.saturating_sub(before) as f64 / 1e6;
    println!(
        "\none response of {:.1} MB in {took:.2} s, {:.0} MB/s: resident memory {:.1} MB before, at most \
         {growth:.1} MB more",
        bytes as f64 / 1e6,
        bytes as f64 / 1e6 / took,
        before as f64 / 1e6,
    );
    threshold::at_most("load_large_answer_growth", growth, "MB", GROWTH_MB_MAX);
    let mut stops = Vec::new();
    for _ in 0..size.runs.max(3) {
        stops.push(leaving(server, rpc, &request)?);
    }
    let most = stops.iter().copied().fold(0.0, f64::max);
    println!("a client leaves after 1 MB: its CPU use ends after {stops:.0?} ms");
    threshold::at_most("load_leaving_stops_ms", most, "ms", STOPS_MS_MAX);
    Ok(())
}

/// Milliseconds from a client's disconnect until the server is idle.
fn leaving(server: &Server, rpc: SocketAddr, request: &[u8]) -> Result<f64> {
    read(rpc, request, READ_BYTES)?;
    let left = now();
    let mut last_busy = 0.0;
    let mut before = server.process().threads_cpu_time()?;
    let mut at = left.elapsed();
    for _ in 0..INTERVALS {
        sleep_for(CPU_INTERVAL);
        let after = server.process().threads_cpu_time()?;
        let until = left.elapsed();
        let share = after.saturating_sub(before).as_secs_f64() / (until - at).as_secs_f64();
        if share > IDLE_SHARE {
            last_busy = until.as_secs_f64() * 1e3;
        }
        (before, at) = (after, until);
    }
    Ok(last_busy)
}

/// Reads the start of a response and disconnects.
fn read(rpc: SocketAddr, request: &[u8], bytes: u64) -> Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connection = Connection::open_with_body_limit(rpc, 0).await?;
        let response = connection.exchange_prefix(request, bytes).await?;
        ensure!(response.status == 200, "HTTP {}", response.status);
        Ok(response.body_bytes)
    })
}
