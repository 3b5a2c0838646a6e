//! The memory of the node's parts: in the banner, and in the log periodically and at each SIGUSR1. For `/metrics`,
//! also the rest of the process's memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount};
use ledger::Commitment;
use metrics::{Collector, Exposition};
use process_usage::Process;
use rpc_solana::{NodeMemory, SolanaServer};
use tokio::signal::unix::Signal;
use tokio::time::MissedTickBehavior;

/// Interval of the log lines: short enough to show growth, long enough to be readable.
const LOG_INTERVAL: Duration = Duration::from_secs(300);

/// Interval of the checks of a new node for its first root.
const ROOT_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The parts of `hydrant_memory_bytes` that [`ProcessMemory`] reports.
const START: &str = "start";
const EXECUTABLE: &str = "executable";

/// The memory of a node's parts, formatted as one line.
pub(crate) struct MemoryLine(pub(crate) NodeMemory);

impl fmt::Display for MemoryLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeMemory { addresses, accounts, ledger, history_bytes } = self.0;
        let count = |count: usize| HumanCount(count as u64);
        let bytes = |bytes: usize| HumanBytes(bytes as u64);
        write!(
            f,
            "addresses {} ({}), indices {}, accounts {} packed and {} unpacked ({}), ranks {}, history {}",
            bytes(ledger.addresses),
            count(addresses),
            bytes(ledger.indices),
            bytes(ledger.packed),
            bytes(ledger.unpacked),
            count(accounts),
            bytes(ledger.ranks),
            HumanBytes(history_bytes),
        )
    }
}

/// Logs at once, then every five minutes and at each signal `request`, until the task is aborted. Without a log the
/// signal has no effect.
pub(crate) async fn log_periodically(node: Arc<SolanaServer>, mut request: Option<Signal>) {
    let mut interval = tokio::time::interval(LOG_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = wait_for(request.as_mut()) => {}
        }
        if !tracing::enabled!(tracing::Level::INFO) {
            continue;
        }
        let node = Arc::clone(&node);
        // It reads megabytes of a large ledger: too long for an I/O thread.
        let logged = tokio::task::spawn_blocking(move || {
            log(&NodeMemory::new(&node.api.reader, &node.api.history))
        });
        if logged.await.is_err() {
            return; // it panicked, or the runtime ends
        }
    }
}

/// Waits for the signal, and forever without one.
async fn wait_for(signal: Option<&mut Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

/// Resident memory outside the parts that are counted.
pub(crate) struct ProcessMemory {
    /// Memory that was in use after the start: compiled programs, slots of queues, stacks and heaps of threads.
    start_bytes: AtomicU64,
}

impl ProcessMemory {
    /// Call this when the node is ready, before its first response.
    pub(crate) fn at_start(node: &SolanaServer) -> Self {
        let memory = Self { start_bytes: AtomicU64::new(0) };
        memory.measure(node);
        memory
    }

    /// Measures again when the node has its first root. Before it, threads start and each block adds to the memory in use;
    /// afterwards a new block replaces an old one.
    pub(crate) async fn measure_at_first_root(self: Arc<Self>, node: Arc<SolanaServer>) {
        let root = || node.api.reader.view(Commitment::Finalized).block().slot;
        let first = root();
        let mut interval = tokio::time::interval(ROOT_POLL_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while root() == first {
            interval.tick().await;
        }
        // It reads megabytes of a large ledger. An error means that the runtime ends.
        let _ = tokio::task::spawn_blocking(move || self.measure(&node)).await;
    }

    fn measure(&self, node: &SolanaServer) {
        let others = node.context.metrics.memory_parts(&node.context);
        let is_other = |(part, _): &&(&str, u64)| *part != START && *part != EXECUTABLE;
        let others: u64 = others.iter().filter(is_other).map(|(_, bytes)| bytes).sum();
        let anonymous = Process::current().anonymous_bytes().unwrap_or_default();
        self.start_bytes.store(anonymous.saturating_sub(others), Ordering::Relaxed);
    }
}

impl Collector for ProcessMemory {
    fn write(&self, _: &mut Exposition) {}

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let executable = Process::current().file_bytes().unwrap_or_default();
        vec![(START, self.start_bytes.load(Ordering::Relaxed)), (EXECUTABLE, executable)]
    }
}

fn log(usage: &NodeMemory) {
    tracing::info!(
        addresses_bytes = usage.ledger.addresses,
        indices_bytes = usage.ledger.indices,
        packed_bytes = usage.ledger.packed,
        unpacked_bytes = usage.ledger.unpacked,
        ranks_bytes = usage.ledger.ranks,
        history_bytes = usage.history_bytes,
        resident_bytes = Process::current().resident_bytes().ok(),
        "memory: {}",
        MemoryLine(*usage)
    );
}

#[cfg(test)]
mod tests {
    use query::LedgerMemory;

    use super::*;

    #[test]
    fn a_line_names_every_part() {
        let ledger = LedgerMemory {
            addresses: 1 << 20,
            indices: 2 << 20,
            packed: 3 << 30,
            unpacked: 4_096,
            ranks: 5,
        };
        let usage =
            NodeMemory { addresses: 12_345, accounts: 10_000, ledger, history_bytes: 6 << 20 };
        assert_eq!(
            MemoryLine(usage).to_string(),
            "addresses 1.00 MiB (12,345), indices 2.00 MiB, accounts 3.00 GiB packed and 4.00 KiB \
             unpacked (10,000), ranks 5 B, history 6.00 MiB"
        );
    }
}
