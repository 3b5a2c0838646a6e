//! What a server under measurement says of itself: one JSON line for each line that it is asked.
//!
//! Shape: the same for all servers, ours and the rivals, which include this file.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Transactions that the server has received, and their bytes.
#[derive(Default)]
pub(crate) struct Received {
    /// How many.
    pub(crate) streams: AtomicU64,
    /// Their bytes.
    pub(crate) bytes: AtomicU64,
}

impl Received {
    /// Counts some.
    pub(crate) fn add(&self, streams: u64, bytes: u64) {
        self.streams.fetch_add(streams, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Answers every line of standard input, until it ends. `allocations` gives how many there were, their
/// bytes, and how many bytes are held; `extra` is added to the answer.
#[expect(clippy::print_stdout, reason = "this is how the benchmark asks")]
pub(crate) fn answer(
    port: u16,
    received: &Received,
    allocations: impl Fn() -> (u64, u64, u64),
    extra: impl Fn() -> String,
) {
    println!("{port}");
    let lines = std::io::stdin().lock().lines();
    for _ in lines.map_while(Result::ok) {
        let (count, bytes, held) = allocations();
        let cpu = cpu_time::ProcessTime::now().as_duration().as_micros();
        println!(
            "{{\"streams\":{},\"bytes\":{},\"allocations\":{count},\"allocated\":{bytes},\
             \"held\":{held},\"cpu_us\":{cpu},\"resident\":{}{}}}",
            received.streams.load(Ordering::Relaxed),
            received.bytes.load(Ordering::Relaxed),
            resident(),
            extra(),
        );
        // Nobody asks who does not read.
        let _ = std::io::stdout().flush();
    }
}

/// Bytes of this process that are resident.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse().ok());
    kib.unwrap_or(0u64) * 1024
}
