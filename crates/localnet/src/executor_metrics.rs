//! Where the executing thread's time goes: counted there, read by whoever tells of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time of the executing thread since the start, by what it did.
#[derive(Debug, Default)]
pub struct ExecutorMetrics {
    phase_ns: [AtomicU64; PHASES.len()],
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Brings accounts to the VM, and runs transactions.
    Vm,
    /// Writes what they changed to state and indices.
    Write,
    /// Lets readers see it, and tells of it.
    Publish,
}

const PHASES: [(Phase, &str); 3] =
    [(Phase::Vm, "vm"), (Phase::Write, "write"), (Phase::Publish, "publish")];

impl ExecutorMetrics {
    pub(crate) fn add(&self, part: Phase, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.phase_ns[part as usize].fetch_add(ns, Ordering::Relaxed);
    }

    /// Each part by its name.
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
        let work = ExecutorMetrics::default();
        for (at, (part, _)) in PHASES.iter().enumerate() {
            assert_eq!(*part as usize, at);
            work.add(*part, Duration::from_nanos(at as u64 + 1));
        }
        let told: Vec<_> = work.phases().map(|(name, took)| (name, took.as_nanos())).collect();
        assert_eq!(told, [("vm", 1), ("write", 2), ("publish", 3)]);
    }
}
