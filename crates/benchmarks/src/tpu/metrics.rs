//! The report of a measured server: one JSON line for each line of standard input; the line `end` ends the server.
//!
//! Shape: the same for all servers, ours and the rivals, which include this file. With [`WATCH_CLOCK`] a thread does
//! nothing but read the clock, and the report has how long it was stopped.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The environment variable that starts the thread that reads the clock.
const WATCH_CLOCK: &str = "HYDRANT_WATCH_CLOCK";

/// The longest stop in each of these is recorded.
const WATCH_INTERVAL: Duration = Duration::from_millis(1);
/// Recorded intervals: two minutes. Later ones are not recorded.
const INTERVALS_MAX: usize = 120_000;

/// Transactions that the server has received, and their bytes.
#[derive(Default)]
pub(crate) struct Received {
    /// Number of transactions.
    pub(crate) streams: AtomicU64,
    /// Bytes of these transactions.
    pub(crate) bytes: AtomicU64,
}

impl Received {
    pub(crate) fn add(&self, streams: u64, bytes: u64) {
        self.streams.fetch_add(streams, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Writes a report for every line of standard input, until it ends. `allocations` returns their number, their bytes,
/// and the bytes in use; `extra` is added to the report.
#[expect(clippy::print_stdout, reason = "the benchmark reads it")]
pub(crate) fn write_reports(
    port: u16,
    received: &Received,
    allocations: impl Fn() -> (u64, u64, u64),
    extra: impl Fn() -> String,
) {
    let watch = std::env::var_os(WATCH_CLOCK).map(|_| watch_clock());
    println!("{port}");
    let lines = std::io::stdin().lock().lines();
    for _ in lines.map_while(Result::ok).take_while(|line| line != "end") {
        let (count, bytes, in_use) = allocations();
        let cpu = cpu_time::ProcessTime::now().as_duration().as_micros();
        println!(
            "{{\"streams\":{},\"bytes\":{},\"allocations\":{count},\"allocated\":{bytes},\
             \"held\":{in_use},\"cpu_us\":{cpu},\"resident\":{}{}{}{}}}",
            received.streams.load(Ordering::Relaxed),
            received.bytes.load(Ordering::Relaxed),
            process_usage::Process::current().resident_bytes().unwrap_or_default(),
            kernel_costs().unwrap_or_default(),
            watch.as_deref().map(take_stops).unwrap_or_default(),
            extra(),
        );
        // The benchmark reads each report before its next request.
        let _ = std::io::stdout().flush();
    }
}

/// Page faults without and with a read from disk, and the CPU time in the kernel, in its ticks of 10 ms.
fn kernel_costs() -> Option<String> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may contain spaces. The third column follows it.
    let columns: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let [minor, major, kernel] = [7, 9, 12].map(|at| columns.get(at).copied().unwrap_or("0"));
    Some(format!(",\"faults\":{minor},\"major_faults\":{major},\"kernel_ticks\":{kernel}"))
}

/// Starts a thread that only reads the clock. The result has the longest time between two reads of each interval, in
/// nanoseconds.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn watch_clock() -> Arc<Mutex<Vec<u64>>> {
    let stops = Arc::new(Mutex::new(Vec::with_capacity(INTERVALS_MAX)));
    let recorded = Arc::clone(&stops);
    std::thread::spawn(move || {
        let mut began = Instant::now();
        let mut last = began;
        let mut longest = Duration::ZERO;
        loop {
            let now = Instant::now();
            longest = longest.max(now - last);
            last = now;
            if now - began < WATCH_INTERVAL {
                continue;
            }
            let mut stops = recorded.lock().unwrap_or_else(PoisonError::into_inner);
            if stops.len() < INTERVALS_MAX {
                stops.push(longest.as_nanos() as u64);
            }
            drop(stops);
            // The lock is not part of the next interval.
            (began, last, longest) = (Instant::now(), Instant::now(), Duration::ZERO);
        }
    });
    stops
}

/// Formats the quantiles of the recorded stops, and starts again.
fn take_stops(stops: &Mutex<Vec<u64>>) -> String {
    let mut stops = stops.lock().unwrap_or_else(PoisonError::into_inner);
    stops.sort_unstable();
    let at = |part: f64| {
        let rank = (stops.len() as f64 * part) as usize;
        stops.get(rank.min(stops.len().saturating_sub(1))).map_or(0.0, |ns| *ns as f64 / 1e3)
    };
    let [half, most, tail, max] = [0.5, 0.99, 0.999, 1.0].map(at);
    stops.clear();
    format!(
        ",\"stop_p50_us\":{half},\"stop_p99_us\":{most},\"stop_p999_us\":{tail},\"stop_max_us\":{max}"
    )
}
