//! The report of a measured server: one JSON line for each line of standard input.
//!
//! Shape: the same for all servers, ours and the rivals, which include this file.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Transactions that the server has received, and their bytes.
#[derive(Default)]
pub(crate) struct Received {
    /// Number of transactions.
    pub(crate) streams: AtomicU64,
    /// Total bytes of these transactions.
    pub(crate) bytes: AtomicU64,
}

impl Received {
    /// Adds to the counts.
    pub(crate) fn add(&self, streams: u64, bytes: u64) {
        self.streams.fetch_add(streams, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Replies to every line of standard input, until it ends. `allocations` returns their number, their bytes, and the
/// bytes in use; `extra` is added to the reply.
#[expect(clippy::print_stdout, reason = "the benchmark reads it")]
pub(crate) fn answer(
    port: u16,
    received: &Received,
    allocations: impl Fn() -> (u64, u64, u64),
    extra: impl Fn() -> String,
) {
    println!("{port}");
    let lines = std::io::stdin().lock().lines();
    for _ in lines.map_while(Result::ok) {
        let (count, bytes, in_use) = allocations();
        let cpu = cpu_time::ProcessTime::now().as_duration().as_micros();
        println!(
            "{{\"streams\":{},\"bytes\":{},\"allocations\":{count},\"allocated\":{bytes},\
             \"held\":{in_use},\"cpu_us\":{cpu},\"resident\":{}{}}}",
            received.streams.load(Ordering::Relaxed),
            received.bytes.load(Ordering::Relaxed),
            process_usage::Process::current().resident_bytes().unwrap_or_default(),
            extra(),
        );
        // The benchmark reads each reply before its next request.
        let _ = std::io::stdout().flush();
    }
}
