//! How the executing thread spends its time. The thread counts, and the metrics read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use svm::CodeUsage;

/// Time of the executing thread since the start, by phase.
#[derive(Debug, Default)]
pub struct ExecutorMetrics {
    phase_ns: [AtomicU64; PHASES.len()],
    programs: AtomicU64,
    code_bytes: AtomicU64,
    compiled_code_bytes: AtomicU64,
}

/// A phase of the executing thread's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Loads accounts into the VM and runs transactions.
    Vm,
    /// Writes the changed accounts to state and indices.
    Write,
    /// Hashes the accounts that a block wrote, once for each block.
    Hash,
    /// Publishes the changes to readers and sends events.
    Publish,
}

const PHASES: [(Phase, &str); 4] = [
    (Phase::Vm, "vm"),
    (Phase::Write, "write"),
    (Phase::Hash, "hash"),
    (Phase::Publish, "publish"),
];

impl ExecutorMetrics {
    pub(crate) fn add(&self, phase: Phase, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.phase_ns[phase as usize].fetch_add(ns, Ordering::Relaxed);
    }

    pub(crate) fn set_code(&self, usage: CodeUsage) {
        let CodeUsage { programs, bytes, compiled_bytes } = usage;
        self.programs.store(programs as u64, Ordering::Relaxed);
        self.code_bytes.store(bytes as u64, Ordering::Relaxed);
        self.compiled_code_bytes.store(compiled_bytes, Ordering::Relaxed);
    }

    /// The compiled programs of the thread's VM.
    pub fn code(&self) -> CodeUsage {
        CodeUsage {
            programs: self.programs.load(Ordering::Relaxed) as usize,
            bytes: self.code_bytes.load(Ordering::Relaxed) as usize,
            compiled_bytes: self.compiled_code_bytes.load(Ordering::Relaxed),
        }
    }

    /// The name and the time of each phase.
    pub fn phases(&self) -> impl Iterator<Item = (&'static str, Duration)> + '_ {
        PHASES.iter().zip(&self.phase_ns).map(|((_, name), ns)| {
            let ns = ns.load(Ordering::Relaxed);
            (*name, Duration::from_nanos(ns))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_own_name() {
        let metrics = ExecutorMetrics::default();
        for (index, (phase, _)) in PHASES.iter().enumerate() {
            assert_eq!(*phase as usize, index);
            metrics.add(*phase, Duration::from_nanos(index as u64 + 1));
        }
        let phases: Vec<_> = metrics.phases().map(|(name, took)| (name, took.as_nanos())).collect();
        assert_eq!(phases, [("vm", 1), ("write", 2), ("hash", 3), ("publish", 4)]);
    }
}
