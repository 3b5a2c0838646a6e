//! Twice the server's capacity, over a thousand connections, and its capacity afterwards.

use std::net::SocketAddr;
use std::time::Duration;

use ::loadgen::{Report, RunLength, Stream, StreamStats};
use anyhow::{Context, Result};
use testkit::clock::sleep_for;

use super::server::Server;
use super::size::{SCAN_NICE, Size};
use super::targets::Targets;
use crate::median::median;
use crate::threshold;

/// Connections of the capacity measurement.
const CAPACITY_CONNECTIONS: usize = 32;

/// "Full speed a second after."
const RECOVERY_DELAY: Duration = Duration::from_secs(1);

/// Heavy requests a second on connections and a thread of their own, which time rejections. A thread that reads
/// hundreds of megabytes a second is late itself, and would report its own delay.
const TIMED_PER_S: f64 = 50.0;
const TIMED_CONNECTIONS: usize = 16;

/// The bars for "at once", "flat" and "full speed", with a margin for the machine's noise.
const REFUSAL_MS_MAX: f64 = 50.0;
const GROWTH_MAX: f64 = 1.05;
const SPEED_AFTER_MIN: f64 = 0.9;

pub(crate) fn run(server: &Server, rpc: SocketAddr, targets: &Targets, size: &Size) -> Result<()> {
    let request = targets.megabyte().request(rpc);
    let heavy =
        Stream::closed_loop("heavy", vec![request], CAPACITY_CONNECTIONS).with_nice(SCAN_NICE);
    let capacity = rate(size, rpc, &heavy, size.warm_up, size.capacity)?.max(1.0);
    let light = targets.requests(rpc, "getAccountInfo");
    let light = Stream::open_loop("light", light, size.light_rate, 64);
    let name = format!("heavy at {:.0}/s", 2.0 * capacity);
    let twice = Stream::open_loop(
        &name,
        heavy.requests.to_vec(),
        2.0 * capacity,
        size.overload_connections,
    )
    .with_nice(SCAN_NICE);
    let timed =
        Stream::open_loop("heavy, timed", heavy.requests.to_vec(), TIMED_PER_S, TIMED_CONNECTIONS);
    let span = RunLength::Time { warm_up: size.warm_up, measured: size.overload };
    let run = size.run_once(rpc, vec![light, twice, timed], span, Some(server.process()))?;
    sleep_for(RECOVERY_DELAY);
    let after = rate(size, rpc, &heavy, Duration::ZERO, size.long)?;
    let connections = size.overload_connections;
    println!(
        "\noverload: {:.0} of {:.1} MB a second is what it can do; twice that over {connections} connections \
         for {:?}",
        capacity,
        targets.megabyte().bytes as f64 / 1e6,
        size.overload
    );
    let mut report = Report::new("overload", Vec::new());
    report.add(&[], std::slice::from_ref(&run));
    print!("{}", report.table());
    let [light, heavy, timed] = &run.stats[..] else { unreachable!("three were offered") };
    println!("light: {:?}\nheavy: {:?}, {:?}", light.counts, heavy.counts, timed.counts);
    let used = run.usage.as_ref().context("the process was watched")?;
    let refusal = timed.refusals.value_at_quantile(0.99) as f64 / 1e6;
    println!(
        "{} refusals timed: p50 {:.2} ms, p99 {refusal:.2} ms; memory {:.0} MB at first, at most {:.0} MB; afterwards \
         {:.0} a second",
        timed.refusals.len(),
        timed.refusals.value_at_quantile(0.5) as f64 / 1e6,
        used.resident_bytes_before as f64 / 1e6,
        used.peak_resident_bytes as f64 / 1e6,
        after
    );
    // A tenth in, every queue is as full as it gets.
    let tenth = used.samples.len() / 10;
    let begun = used.samples[tenth].resident_bytes as f64;
    let ended = used.samples[tenth..].iter().map(|sample| sample.resident_bytes).max().unwrap_or(0);
    threshold::at_least("load_overload_light_served", share(light, light.counts.ok), "x", 1.0);
    let answered = heavy.counts.ok + heavy.counts.rejected;
    threshold::at_least(
        "load_overload_heavy_answered_or_refused",
        share(heavy, answered),
        "x",
        1.0,
    );
    threshold::at_most("load_overload_refusal_p99_ms", refusal, "ms", REFUSAL_MS_MAX);
    threshold::at_most("load_overload_memory_growth", ended as f64 / begun, "x", GROWTH_MAX);
    threshold::at_least("load_overload_speed_after", after / capacity, "x", SPEED_AFTER_MIN);
    Ok(())
}

/// Responses a second: the median of all seconds, or the total of less than two seconds.
fn rate(
    size: &Size,
    rpc: SocketAddr,
    heavy: &Stream,
    warm_up: Duration,
    measured: Duration,
) -> Result<f64> {
    let span = RunLength::Time { warm_up, measured };
    let outcome = size.run_once(rpc, vec![heavy.clone()], span, None)?.stats.remove(0);
    if measured < Duration::from_secs(2) {
        return Ok(outcome.rate());
    }
    Ok(median(outcome.seconds.iter().map(|second| second.ok as f64).collect()))
}

fn share(outcome: &StreamStats, count: u64) -> f64 {
    count as f64 / outcome.counts.total().max(1) as f64
}
