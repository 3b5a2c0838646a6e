//! Busy loops, which use all the processor time that they get, and the priority of the load generator over them.
//!
//! Not here: a process of its own. To the scheduler threads are the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The nice value of the load generator, so that the measured latencies are the node's. A client is on another machine.
const GENERATOR_NICE: i32 = -15;

/// Busy loops, which end with this value.
pub(super) struct BusyLoops {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyLoops {
    /// Starts loops of a nice value from 0 to 19.
    pub(super) fn start(count: usize, nice: u8) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let spawn = |_| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                // On Linux it applies to this thread only. Raising the value is always allowed.
                let _ = rustix::process::setpriority_process(None, nice.into());
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..count).map(spawn).collect();
        Self { is_over, threads }
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // They cannot panic.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Runs `load` with threads that have priority over busy loops, if the system permits it.
pub(super) fn with_priority<T>(load: impl FnOnce() -> T) -> T {
    let before = rustix::process::getpriority_process(None).unwrap_or(0);
    // A thread has the nice value of the one that started it. Without the permission the load has that of the loops.
    let _ = rustix::process::setpriority_process(None, GENERATOR_NICE);
    let result = load();
    // Raising the value is always allowed.
    let _ = rustix::process::setpriority_process(None, before);
    result
}

/// Whether this process may lower nice values.
pub(super) fn may_raise_priority() -> bool {
    with_priority(|| rustix::process::getpriority_process(None) == Ok(GENERATOR_NICE))
}
