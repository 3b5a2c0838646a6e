//! The measured set-ups as rows of CSV files. A set-up is complete once its row is in `set_ups.csv`.

use std::ops::Range;

use anyhow::Result;

use super::activity::{Activity, ConfirmedBlocks};
use super::client::Interval;
use super::measurement::Observed;
use super::samples::{Sample, mean_between, mean_parts};
use super::size::{COUNTED, LAST_QUARTER, LEAD, SECOND_QUARTER, SetUp, Size};
use crate::report::{Report, Rows};

/// A column of `set_ups.csv`, behind the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Cycles,
    Transactions,
    Seconds,
    Expected,
    Received,
    Wrong,
    Resident,
    SecondQuarter,
    LastQuarter,
    Peak,
    Anonymous,
    CpuSeconds,
    ReadySeconds,
    QuietRate,
    QuietLagP50,
    QuietLagP99,
    LagP50,
    LagP99,
}

/// The columns of `set_ups.csv` behind the key, with their names.
const COLUMNS: [(Column, &str); 18] = [
    (Column::Cycles, "cycles"),
    (Column::Transactions, "transactions"),
    (Column::Seconds, "seconds"),
    (Column::Expected, "notifications_expected"),
    (Column::Received, "notifications_received"),
    (Column::Wrong, "notifications_wrong"),
    (Column::Resident, "resident_bytes"),
    (Column::SecondQuarter, "resident_bytes_second_quarter"),
    (Column::LastQuarter, "resident_bytes_last_quarter"),
    (Column::Peak, "resident_bytes_most"),
    (Column::Anonymous, "anonymous_bytes"),
    (Column::CpuSeconds, "cpu_s"),
    (Column::ReadySeconds, "ready_s"),
    (Column::QuietRate, "transactions_per_s_before"),
    (Column::QuietLagP50, "lag_before_p50_ms"),
    (Column::QuietLagP99, "lag_before_p99_ms"),
    (Column::LagP50, "lag_of_all_p50_ms"),
    (Column::LagP99, "lag_of_all_p99_ms"),
];

const CYCLE_COLUMNS: [&str; 12] = [
    "set_up",
    "cycle",
    "subscribe_s",
    "subscribe_transactions_per_s",
    "subscribe_lag_p50_ms",
    "subscribe_lag_p99_ms",
    "subscribe_lag_max_ms",
    "leave_s",
    "leave_transactions_per_s",
    "leave_lag_p50_ms",
    "leave_lag_p99_ms",
    "leave_lag_max_ms",
];

/// Number of cells of an [`Activity`].
const ACTIVITY_LEN: usize = 5;

pub(super) struct Results {
    set_ups: Rows,
    cycles: Rows,
    samples: Rows,
    parts: Rows,
}

/// A row of `memory.csv`, in seconds and bytes.
pub(super) struct MemoryPoint {
    pub(super) second: f64,
    pub(super) resident: f64,
}

/// The activities of a cycle, from `cycles.csv`.
pub(super) struct CycleRow {
    pub(super) subscribing: ActivityRow,
    pub(super) leaving: ActivityRow,
}

#[derive(Clone, Copy)]
pub(super) struct ActivityRow {
    pub(super) seconds: f64,
    pub(super) rate: f64,
    pub(super) lag_p99: f64,
}

impl Results {
    pub(super) fn open(report: &Report) -> Result<Self> {
        let of_set_ups: Vec<&str> =
            std::iter::once("set_up").chain(COLUMNS.map(|(_, name)| name)).collect();
        let memory = ["set_up", "second", "resident_bytes", "anonymous_bytes", "cpu_s"];
        Ok(Self {
            set_ups: report.rows("set_ups.csv", 1, &of_set_ups)?,
            cycles: report.rows("cycles.csv", 2, &CYCLE_COLUMNS)?,
            samples: report.rows("memory.csv", 2, &memory)?,
            parts: report.rows("parts.csv", 2, &["set_up", "part", "bytes"])?,
        })
    }

    /// Whether a set-up was measured.
    pub(super) fn has(&self, set_up: &SetUp) -> bool {
        self.set_ups.find(&[set_up.name.to_string()]).is_some()
    }

    /// Adds the rows of a set-up. The row that makes it complete is the last.
    pub(super) fn push(&mut self, size: &Size, set_up: &SetUp, observed: &Observed) -> Result<()> {
        let name = set_up.name.to_string();
        self.remove_incomplete(&name)?;
        let blocks = ConfirmedBlocks::new(observed, size.probe());
        let cycles = blocks.cycles(&observed.periods);
        for sample in &observed.samples {
            let key = [name.clone(), format!("{:07.1}", sample.second)];
            let bytes = [sample.resident, sample.anonymous].map(|bytes| bytes.to_string());
            self.samples.push(&key, &[&bytes[..], &[format!("{:.2}", sample.cpu)]].concat())?;
        }
        for (nth, cycle) in cycles.iter().enumerate() {
            let key = [name.clone(), format!("{nth:03}")];
            let cells = [activity_cells(&cycle.subscribing), activity_cells(&cycle.leaving)];
            self.cycles.push(&key, &cells.concat())?;
        }
        let parts = mean_parts(&observed.samples, to_seconds(COUNTED, size));
        let of_allocator =
            observed.allocator.iter().map(|(part, bytes)| (format!("mimalloc {part}"), *bytes));
        for (part, bytes) in parts.into_iter().chain(of_allocator) {
            self.parts.push(&[name.clone(), part], &[format!("{bytes:.0}")])?;
        }
        let complete = cycles.iter().filter(|cycle| cycle.clients == size.sets.clients).count();
        let cells = summary_cells(size, observed, &blocks, complete);
        self.set_ups.push(&[name], &cells)
    }

    /// Removes the rows that an earlier run had written of a set-up when it was stopped.
    fn remove_incomplete(&mut self, name: &str) -> Result<()> {
        for rows in [&mut self.cycles, &mut self.samples, &mut self.parts] {
            rows.remove_rows(|key| key[0] == name)?;
        }
        Ok(())
    }

    /// Returns a value of a set-up.
    pub(super) fn number(&self, set_up: char, column: Column) -> Option<f64> {
        let at = COLUMNS.iter().position(|(known, _)| *known == column)?;
        self.set_ups.number(&[set_up.to_string()], at)
    }

    /// Returns the resident memory of a set-up over time.
    pub(super) fn memory(&self, set_up: char) -> Vec<MemoryPoint> {
        let points = find_keys(&self.samples, set_up).filter_map(|key| {
            let second = key[1].parse().ok()?;
            Some(MemoryPoint { second, resident: self.samples.number(key, 0)? })
        });
        points.collect()
    }

    /// Returns the cycles of a set-up.
    pub(super) fn cycles(&self, set_up: char) -> Vec<CycleRow> {
        let activity = |key: &[String], first: usize| {
            let number = |at: usize| self.cycles.number(key, first + at);
            Some(ActivityRow { seconds: number(0)?, rate: number(1)?, lag_p99: number(3)? })
        };
        let rows = find_keys(&self.cycles, set_up).filter_map(|key| {
            let subscribing = activity(key, 0)?;
            Some(CycleRow { subscribing, leaving: activity(key, ACTIVITY_LEN)? })
        });
        rows.collect()
    }

    /// Returns the names of all parts of the memory.
    pub(super) fn part_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.parts.keys().map(|key| key[1].clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the bytes of a part of the memory.
    pub(super) fn part(&self, set_up: char, part: &str) -> Option<f64> {
        self.parts.number(&[set_up.to_string(), part.to_owned()], 0)
    }

    /// Returns the commits of the measured set-ups.
    pub(super) fn commits(&self) -> String {
        self.set_ups.commits()
    }
}

/// The cells of a set-up behind its key.
fn summary_cells(
    size: &Size,
    observed: &Observed,
    blocks: &ConfirmedBlocks,
    cycles: usize,
) -> [String; COLUMNS.len()] {
    let samples = observed.samples.as_slice();
    let [seconds, cpu] = match samples {
        [first, .., last] => [last.second, last.cpu - first.cpu],
        _ => [f64::NAN; 2],
    };
    let counted = to_seconds(COUNTED, size);
    let mean = |part: Range<f64>, bytes: fn(&Sample) -> u64| {
        let mean = mean_between(samples, part, |sample| Some(bytes(sample) as f64));
        format!("{:.0}", mean.unwrap_or(f64::NAN))
    };
    let resident = |part: Range<f64>| mean(to_seconds(part, size), |sample| sample.resident);
    let counted_samples = samples.iter().filter(|sample| counted.contains(&sample.second));
    let peak = counted_samples.map(|sample| sample.resident).max().unwrap_or_default();
    let comparison = observed.compare();
    let quiet = blocks.activity(lead(size, blocks));
    let lag = blocks.lag(&observed.periods);
    COLUMNS.map(|(column, _)| match column {
        Column::Cycles => cycles.to_string(),
        Column::Transactions => observed.count_transactions(size.probe()).to_string(),
        Column::Seconds => format!("{seconds:.1}"),
        Column::Expected => comparison.expected.to_string(),
        Column::Received => comparison.received.to_string(),
        Column::Wrong => comparison.wrong.to_string(),
        Column::Resident => resident(COUNTED),
        Column::SecondQuarter => resident(SECOND_QUARTER),
        Column::LastQuarter => resident(LAST_QUARTER),
        Column::Peak => peak.to_string(),
        Column::Anonymous => mean(counted.clone(), |sample| sample.anonymous),
        Column::CpuSeconds => format!("{cpu:.1}"),
        Column::ReadySeconds => format!("{:.1}", observed.ready_seconds),
        Column::QuietRate => format!("{:.1}", quiet.rate),
        Column::QuietLagP50 => format!("{:.2}", quiet.lag.p50),
        Column::QuietLagP99 => format!("{:.2}", quiet.lag.p99),
        Column::LagP50 => format!("{:.2}", lag.p50),
        Column::LagP99 => format!("{:.2}", lag.p99),
    })
}

/// Converts a part of the time to seconds since the first transaction.
fn to_seconds(part: Range<f64>, size: &Size) -> Range<f64> {
    let seconds = size.seconds();
    part.start * seconds..part.end * seconds
}

/// The time before the first subscription, without the first part of it, in which the rate rises.
fn lead(size: &Size, blocks: &ConfirmedBlocks) -> Interval {
    let start_us = blocks.start_us();
    let lead_us = (LEAD * size.seconds() * 1e6) as u64;
    Interval { start_us: start_us + lead_us / 4, end_us: start_us + lead_us }
}

/// Returns the keys of the rows of a set-up.
fn find_keys(rows: &Rows, set_up: char) -> impl Iterator<Item = &Vec<String>> {
    rows.keys().filter(move |key| key[0].len() == 1 && key[0].starts_with(set_up))
}

fn activity_cells(activity: &Activity) -> [String; ACTIVITY_LEN] {
    let Activity { seconds, rate, lag } = activity;
    [
        format!("{seconds:.3}"),
        format!("{rate:.1}"),
        format!("{:.2}", lag.p50),
        format!("{:.2}", lag.p99),
        format!("{:.2}", lag.max),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_set_up_that_did_not_end_are_removed() -> Result<()> {
        let report = Report::open("sets", &[], true)?;
        let mut results = Results::open(&report)?;
        for name in ["b", "e"] {
            let key = [name.to_owned(), "0000001.0".to_owned()];
            results.samples.push(&key, &["7", "6", "0.5"].map(str::to_owned))?;
        }
        results.remove_incomplete("e")?;
        assert_eq!(results.memory('e').len(), 0);
        assert_eq!(results.memory('b').len(), 1);
        Ok(())
    }
}
