//! The memory of the process outside of its parts, for `/metrics`, and the log lines about the memory of the ledger: one
//! periodically and at each SIGUSR1.
//!
//! Not here: the memory of a chain's ledger (`memory_report`, `node::kaspa`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jsonrpc::ServerContext;
use ledger::Slot;
use metrics::{Collector, Exposition};
use process_usage::Process;
use tokio::signal::unix::Signal;
use tokio::time::MissedTickBehavior;

/// Interval of the log lines: short enough to show growth, long enough to be readable.
const LOG_INTERVAL: Duration = Duration::from_secs(300);

/// Interval of the checks of a new node for its first root.
const ROOT_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The parts of `hydrant_memory_bytes` that [`ProcessMemory`] reports.
const START: &str = "start";
const EXECUTABLE: &str = "executable";

/// A ledger whose memory is measured.
pub(crate) trait MeasuredLedger: Send + Sync {
    /// Returns the slot of the newest final block.
    fn root(&self) -> Slot;

    /// Logs the memory of the ledger. It may read megabytes, so it runs on a thread that may block.
    fn log_memory(&self);
}

/// Logs at once, then every five minutes and at each signal `request`, until the task is aborted. Without a log the
/// signal has no effect.
pub(crate) async fn log_periodically(ledger: Arc<dyn MeasuredLedger>, mut request: Option<Signal>) {
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
        let ledger = Arc::clone(&ledger);
        // It reads megabytes of a large ledger: too long for an I/O thread.
        let logged = tokio::task::spawn_blocking(move || ledger.log_memory());
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
    context: Arc<ServerContext>,
    /// Memory that was in use after the start: compiled programs, slots of queues, stacks and heaps of threads.
    start_bytes: Arc<AtomicU64>,
}

/// The collector of the memory. The metrics that it is added to do not own the server.
struct ProcessMemoryMetrics {
    start_bytes: Arc<AtomicU64>,
}

impl ProcessMemory {
    /// Call this when the node is ready, before its first response.
    pub(crate) fn at_start(context: Arc<ServerContext>) -> Self {
        let memory = Self { context, start_bytes: Arc::default() };
        memory.measure();
        memory
    }

    /// Returns the collector of the memory.
    pub(crate) fn collector(&self) -> Arc<dyn Collector> {
        Arc::new(ProcessMemoryMetrics { start_bytes: Arc::clone(&self.start_bytes) })
    }

    /// Measures again when the node has its first root. Before it, threads start and each block adds to the memory in use;
    /// afterwards a new block replaces an old one.
    pub(crate) async fn measure_at_first_root(self, ledger: Arc<dyn MeasuredLedger>) {
        let first = ledger.root();
        let mut interval = tokio::time::interval(ROOT_POLL_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while ledger.root() == first {
            interval.tick().await;
        }
        // It reads megabytes of a large ledger. An error means that the runtime ends.
        let _ = tokio::task::spawn_blocking(move || self.measure()).await;
    }

    fn measure(&self) {
        let others = self.context.metrics.memory_parts(&*self.context);
        let is_other = |(part, _): &&(&str, u64)| *part != START && *part != EXECUTABLE;
        let others: u64 = others.iter().filter(is_other).map(|(_, bytes)| bytes).sum();
        let anonymous = Process::current().anonymous_bytes().unwrap_or_default();
        self.start_bytes.store(anonymous.saturating_sub(others), Ordering::Relaxed);
    }
}

impl Collector for ProcessMemoryMetrics {
    fn write(&self, _: &mut Exposition) {}

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let executable = Process::current().file_bytes().unwrap_or_default();
        vec![(START, self.start_bytes.load(Ordering::Relaxed)), (EXECUTABLE, executable)]
    }
}
