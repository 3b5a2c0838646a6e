//! The measured cells, as rows of a CSV, and the values that are compared.

use anyhow::Result;

use super::candidate::{CANDIDATES, OURS};
use super::cell::Cell;
use super::load::Side;
use crate::report::Rows;

pub(super) const KEY_LEN: usize = 5;
pub(super) const COLUMNS: &[&str] = &[
    "part",
    "candidate",
    "prior",
    "writes_per_second",
    "reads_per_second",
    "reads_offered",
    "reads_served",
    "reads_entries",
    "reads_s",
    "reads_cpu_s",
    "writes_offered",
    "writes_served",
    "writes_entries",
    "writes_s",
    "writes_cpu_s",
];

/// The experiment that a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Grid,
    FocusedReads,
    FocusedWrites,
    End,
}

pub(super) struct Results {
    pub(super) rows: Rows,
    /// Seconds over which a cell's work is offered.
    pub(super) offered: f64,
}

/// The result of a cell for one candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measured {
    pub(super) reads: Side,
    pub(super) writes: Side,
}

/// The compared value of a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Until reads and writes are done, as dashmap-benchmark measured first.
    Whole,
    Reads,
    Writes,
    /// CPU time of both.
    Cpu,
}

/// Seconds for the offered work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seconds {
    pub(super) value: f64,
    pub(super) is_extrapolated: bool,
}

/// The seconds of ours as a multiple of the best rival's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub(super) value: f64,
    /// Whether one of the two values is extrapolated.
    pub(super) is_extrapolated: bool,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::FocusedReads => "focus_reads",
            Self::FocusedWrites => "focus_writes",
            Self::End => "end",
        }
    }
}

impl Results {
    pub(super) fn find(&self, part: Part, candidate: &str, cell: &Cell) -> Option<Measured> {
        let key = key(part, candidate, cell);
        let side = |first: usize| {
            let number = |at: usize| self.rows.number(&key, first + at);
            Some(Side {
                offered: number(0)? as u64,
                served: number(1)? as u64,
                entries: number(2)? as u64,
                thread_max: 0,
                seconds: number(3)?,
                cpu: number(4)?,
            })
        };
        Some(Measured { reads: side(0)?, writes: side(5)? })
    }

    pub(super) fn push(
        &mut self,
        part: Part,
        candidate: &str,
        cell: &Cell,
        measured: &Measured,
    ) -> Result<()> {
        let cells = |side: &Side| {
            let Side { offered, served, entries, seconds, cpu, .. } = side;
            [
                format!("{offered}"),
                format!("{served}"),
                format!("{entries}"),
                format!("{seconds:.6}"),
                format!("{cpu:.6}"),
            ]
        };
        let cells = [cells(&measured.reads), cells(&measured.writes)].concat();
        self.rows.push(&key(part, candidate, cell), &cells)
    }

    /// Returns the number of rows that are not measured yet.
    pub(super) fn missing(&self, part: Part, cells: &[Cell]) -> usize {
        let each = cells.iter().flat_map(|cell| CANDIDATES.map(|(name, _)| (name, cell)));
        each.filter(|(name, cell)| self.find(part, name, cell).is_none()).count()
    }

    /// Returns the seconds of a candidate for a cell; `None` if the cell has nothing to measure, or was not measured.
    pub(super) fn seconds(
        &self,
        part: Part,
        candidate: &str,
        cell: &Cell,
        measure: Measure,
    ) -> Option<Seconds> {
        let Measured { reads, writes } = self.find(part, candidate, cell)?;
        let side = |side: &Side| {
            let seconds = Seconds {
                // Work that is offered over a second takes at least a second.
                value: side.seconds.max(self.offered),
                is_extrapolated: side.is_extrapolated(),
            };
            (side.offered > 0).then_some(seconds)
        };
        match measure {
            Measure::Reads => side(&reads),
            Measure::Writes => side(&writes),
            Measure::Whole => match (side(&reads), side(&writes)) {
                (Some(reads), Some(writes)) if reads.value >= writes.value => Some(reads),
                (reads, None) => reads,
                (_, writes) => writes,
            },
            Measure::Cpu => Some(Seconds {
                value: reads.cpu + writes.cpu,
                is_extrapolated: reads.is_extrapolated() || writes.is_extrapolated(),
            }),
        }
    }

    /// Returns the seconds of ours as a multiple of the best rival's. `None`: a candidate was not measured.
    pub(super) fn ratio(&self, part: Part, cell: &Cell, measure: Measure) -> Option<Ratio> {
        let seconds = |name| self.seconds(part, name, cell, measure);
        let rivals = CANDIDATES.iter().filter(|(name, _)| *name != OURS);
        let rivals: Option<Vec<Seconds>> = rivals.map(|(name, _)| seconds(name)).collect();
        let best = rivals?.into_iter().min_by(|one, other| one.value.total_cmp(&other.value))?;
        let ours = seconds(OURS)?;
        let is_extrapolated = ours.is_extrapolated || best.is_extrapolated;
        Some(Ratio { value: ours.value / best.value, is_extrapolated })
    }
}

impl Side {
    fn is_extrapolated(&self) -> bool {
        self.served < self.offered
    }
}

fn key(part: Part, candidate: &str, cell: &Cell) -> [String; KEY_LEN] {
    [
        part.name().to_owned(),
        candidate.to_owned(),
        cell.prior.to_string(),
        cell.writes.to_string(),
        cell.reads.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    #[test]
    fn a_side_that_was_stopped_is_extrapolated() -> Result<()> {
        let report = Report::open("contention", &[], true)?;
        let mut results = Results { rows: report.rows("a.csv", KEY_LEN, COLUMNS)?, offered: 1.0 };
        let cell = Cell { prior: 10, writes: 100, reads: 1_000 };
        let side = |offered, served, seconds, cpu| Side {
            offered,
            served,
            entries: served,
            seconds,
            cpu,
            thread_max: 0,
        };
        for (name, reads) in
            [("rwlock-hashmap", side(1_000, 250, 12.0, 20.0)), (OURS, side(1_000, 1_000, 0.5, 0.5))]
        {
            let measured = Measured { reads, writes: side(100, 100, 1.5, 0.5) };
            results.push(Part::Grid, name, &cell, &measured)?;
            assert_eq!(results.find(Part::Grid, name, &cell), Some(measured));
        }
        let seconds = |measure| results.seconds(Part::Grid, "rwlock-hashmap", &cell, measure);
        let expected = |value, is_extrapolated| Some(Seconds { value, is_extrapolated });
        assert_eq!(seconds(Measure::Reads), expected(12.0, true));
        assert_eq!(seconds(Measure::Writes), expected(1.5, false));
        assert_eq!(seconds(Measure::Whole), expected(12.0, true));
        assert_eq!(seconds(Measure::Cpu), expected(20.5, true));
        assert_eq!(results.missing(Part::Grid, &[cell]), CANDIDATES.len() - 2);
        // A rival that was not measured may be the best one.
        assert_eq!(results.ratio(Part::Grid, &cell, Measure::Reads), None);
        let slower =
            Measured { reads: side(1_000, 1_000, 20.0, 1.0), writes: side(100, 100, 1.5, 0.5) };
        for (name, _) in CANDIDATES {
            if results.find(Part::Grid, name, &cell).is_none() {
                results.push(Part::Grid, name, &cell, &slower)?;
            }
        }
        // Work that is offered over a second takes at least a second.
        let ratio = Ratio { value: 1.0 / 12.0, is_extrapolated: true };
        assert_eq!(results.ratio(Part::Grid, &cell, Measure::Reads), Some(ratio));
        Ok(())
    }
}
