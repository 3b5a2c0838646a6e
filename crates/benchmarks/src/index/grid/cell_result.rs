//! What is measured in a cell, for each candidate.

use super::cell::Cell;
use super::sets::CANDIDATES;
use super::workload::{Focus, Side, Times};

/// Fewer CPU seconds are counted as this: a difference below it is irrelevant.
const CPU_MIN: f64 = 0.001;

/// The result of a cell for each candidate, in their order.
pub(crate) struct CellResult {
    pub(crate) cell: Cell,
    pub(crate) sides: [Sides; CANDIDATES.len()],
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Sides {
    pub(crate) reads: Side,
    pub(crate) writes: Side,
}

/// The compared measure of a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Until reads and writes are done, as `dashmap-benchmark` measures.
    Whole,
    Reads,
    Writes,
    /// CPU time of both.
    Cpu,
}

impl Measure {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Whole => "both done",
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Cpu => "CPU",
        }
    }

    pub(crate) fn is_in(self, cell: &Cell, focus: Focus) -> bool {
        match self {
            Self::Whole => focus == Focus::Both,
            Self::Reads => cell.reads > 0 && focus != Focus::Writes,
            Self::Writes => cell.writes > 0 && focus != Focus::Reads,
            Self::Cpu => true,
        }
    }

    /// Seconds for the offered operations.
    pub(crate) fn seconds(self, sides: &Sides, times: &Times) -> f64 {
        let Sides { reads, writes } = sides;
        match self {
            Self::Whole => reads.seconds(times).max(writes.seconds(times)),
            Self::Reads => reads.seconds(times),
            Self::Writes => writes.seconds(times),
            Self::Cpu => (reads.cpu_seconds() + writes.cpu_seconds()).max(CPU_MIN),
        }
    }
}
