//! The counters of a follower that the closing table shows.
//!
//! Input: a page of metrics, and the counters of earlier processes. Output: a row for each counter, and an error if one
//! of them counts faults and is not zero.
//! Not here: the request of the page (`followers`), the banks and their levels (`frozen_banks`).

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use crate::rig::metrics_page::MetricsPage;
use crate::rig::nodes::FollowerKind;

/// Counters of a node that follows validators itself.
const FOLLOW: &[Counter] = &[
    Counter::new("banks verified by their children", event_sample("verified_bank")),
    Counter::from_fault("mismatches reported (false alarms)", event_sample("mismatched_bank")),
    Counter::new("gaps", event_sample("gap")),
    Counter::new("late writes", event_sample("late_write")),
    Counter::new("banks requested again", event_sample("repair")),
    Counter { row: "jumps to a newer archive", sample: event_sample("jump"), usage: Usage::Jumps },
    Counter::new("banks that were executed again with equal results", execution_sample("equal")),
    Counter::new(
        "banks that were executed in part, without a difference",
        execution_sample("partial"),
    ),
    Counter::from_fault(
        "banks with results that are not the validator's",
        execution_sample("differs"),
    ),
];

/// Further counters of an ingester.
const INGEST: &[Counter] = &[
    Counter {
        row: "blocks appended to the log",
        sample: Sample::One { family: "hydrant_ingest_blocks_total" },
        usage: Usage::AppendedBlocks,
    },
    Counter::new(
        "blocks dropped before the log had them",
        Sample::One { family: "hydrant_ingest_dropped_blocks_total" },
    ),
    Counter::from_fault(
        "blocks of the log with other accounts than the ingester's",
        disagreement_sample("state"),
    ),
    Counter::new(
        "blocks of the log with other results than the ingester's",
        disagreement_sample("rest"),
    ),
    LOG_FAULTS,
];

/// Counters of a replica.
const REPLICA: &[Counter] = &[
    Counter::new("blocks of the log that were written", replica_sample("block")),
    Counter::new("blocks that were left for another fork", replica_sample("reverted_block")),
    Counter {
        row: "jumps over a gap of the ingester, or to a newer snapshot",
        sample: replica_sample("jump"),
        usage: Usage::Jumps,
    },
    Counter::new(
        "snapshots that were loaded",
        Sample::Sum { family: "hydrant_replica_snapshot_loads_total", label: "cause" },
    ),
    Counter::new(
        "losses of the log or of its messages",
        Sample::Sum { family: "hydrant_log_losses_total", label: "loss" },
    ),
    LOG_FAULTS,
];

const LOG_FAULTS: Counter = Counter::from_fault(
    "faults of the log",
    Sample::Sum { family: "hydrant_log_faults_total", label: "fault" },
);

/// A counter, and its row.
struct Counter {
    row: &'static str,
    sample: Sample,
    usage: Usage,
}

/// The use of a counter, apart from its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    Shown,
    /// It must be zero.
    Fault,
    Jumps,
    AppendedBlocks,
}

/// The samples of a counter.
#[derive(Clone, Copy)]
enum Sample {
    /// The only sample of a family.
    One { family: &'static str },
    /// The sample of a family whose label has this value.
    Labelled { family: &'static str, label: &'static str, value: &'static str },
    /// The sum of a family with one label.
    Sum { family: &'static str, label: &'static str },
}

/// The counters of a follower, over all of its processes.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    kind: FollowerKind,
    /// One for each counter of the kind. `None` is unknown: the follower does not serve.
    values: Vec<Option<u64>>,
}

impl Counter {
    const fn new(row: &'static str, sample: Sample) -> Self {
        Self { row, sample, usage: Usage::Shown }
    }

    const fn from_fault(row: &'static str, sample: Sample) -> Self {
        Self { row, sample, usage: Usage::Fault }
    }
}

impl Sample {
    fn read(self, page: &MetricsPage) -> Option<u64> {
        match self {
            Self::One { family } => page.count(family),
            Self::Labelled { family, label, value } => {
                page.count(&format!("{family}{{{label}=\"{value}\"}}"))
            }
            Self::Sum { family, label } => {
                Some(page.read_labelled(family, label).iter().map(|(_, value)| value).sum())
            }
        }
    }
}

const fn event_sample(value: &'static str) -> Sample {
    Sample::Labelled { family: "hydrant_follow_events_total", label: "event", value }
}

const fn execution_sample(value: &'static str) -> Sample {
    Sample::Labelled { family: "hydrant_follow_execution_banks_total", label: "result", value }
}

const fn disagreement_sample(value: &'static str) -> Sample {
    Sample::Labelled { family: "hydrant_ingest_disagreements_total", label: "what", value }
}

const fn replica_sample(value: &'static str) -> Sample {
    Sample::Labelled { family: "hydrant_replica_events_total", label: "event", value }
}

/// Returns the counters of a kind of follower, in the order of their rows.
fn counters(kind: FollowerKind) -> impl Iterator<Item = &'static Counter> {
    let tables: &'static [&'static [Counter]] = match kind {
        FollowerKind::Follow => &[FOLLOW],
        FollowerKind::Ingest => &[FOLLOW, INGEST],
        FollowerKind::Replica => &[REPLICA],
    };
    tables.iter().copied().flatten()
}

impl Counters {
    /// Returns the counters of a follower that does not serve.
    pub(crate) fn unknown(kind: FollowerKind) -> Self {
        Self { kind, values: counters(kind).map(|_| None).collect() }
    }

    /// Reads the counters of a process, and adds those of the processes before it.
    pub(crate) fn read(page: &MetricsPage, past: &Self) -> Self {
        let pairs = counters(past.kind).zip(&past.values);
        let sum = pairs.map(|(counter, past)| {
            let value = counter.sample.read(page)?;
            Some(value + past.unwrap_or(0))
        });
        Self { kind: past.kind, values: sum.collect() }
    }

    /// Returns the number of times that the follower jumped over a gap.
    pub(crate) fn jumps(&self) -> Option<u64> {
        self.value(Usage::Jumps)
    }

    /// Returns the number of blocks that an ingester has appended.
    pub(crate) fn appended_blocks(&self) -> Option<u64> {
        self.value(Usage::AppendedBlocks)
    }

    /// Formats a row for each counter.
    pub(crate) fn rows(&self) -> String {
        let mut rows = String::new();
        for (counter, value) in self.iter() {
            let value = value.map_or_else(|| "unknown".to_owned(), |it| it.to_string());
            // Writing to a String does not fail.
            let _ = writeln!(rows, "| {} | {value} |", counter.row);
        }
        rows
    }

    /// Returns an error if the follower has counted a fault, or does not serve.
    pub(crate) fn check(&self) -> Result<()> {
        for (counter, value) in self.iter().filter(|(counter, _)| counter.usage == Usage::Fault) {
            ensure!(value == Some(0), "{}: {value:?}", counter.row);
        }
        Ok(())
    }

    fn value(&self, usage: Usage) -> Option<u64> {
        self.iter().find(|(counter, _)| counter.usage == usage)?.1
    }

    fn iter(&self) -> impl Iterator<Item = (&'static Counter, Option<u64>)> {
        counters(self.kind).zip(self.values.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INGESTER: &str = "hydrant_follow_events_total{event=\"mismatched_bank\"} 0\n\
                            hydrant_follow_events_total{event=\"jump\"} 2\n\
                            hydrant_follow_execution_banks_total{result=\"differs\"} 0\n\
                            hydrant_ingest_blocks_total 70\n\
                            hydrant_ingest_disagreements_total{what=\"state\"} 0\n\
                            hydrant_log_faults_total{fault=\"damaged\"} 0\n";

    fn read(kind: FollowerKind, page: &str) -> Counters {
        Counters::read(&MetricsPage::new(page.to_owned()), &Counters::unknown(kind))
    }

    #[test]
    fn counters_of_all_processes_are_added() {
        let first = read(FollowerKind::Ingest, INGESTER);
        assert_eq!((first.jumps(), first.appended_blocks()), (Some(2), Some(70)));
        let page = MetricsPage::new(INGESTER.to_owned());
        let second = Counters::read(&page, &first);
        assert_eq!((second.jumps(), second.appended_blocks()), (Some(4), Some(140)));
        let rows = second.rows();
        assert!(rows.contains("| blocks appended to the log | 140 |\n"), "{rows}");
        assert!(rows.contains("| late writes | unknown |\n"), "{rows}");
    }

    #[test]
    fn a_fault_of_a_follower_fails_its_run_and_a_loss_does_not() {
        read(FollowerKind::Ingest, INGESTER).check().unwrap();
        let other = INGESTER.replace("{what=\"state\"} 0", "{what=\"state\"} 1");
        let error = read(FollowerKind::Ingest, &other).check().unwrap_err().to_string();
        assert!(error.starts_with("blocks of the log with other accounts"), "{error}");
        // A follower without a log does not read this sample.
        read(FollowerKind::Follow, &other).check().unwrap();
        let replica = "hydrant_log_losses_total{loss=\"gone\"} 3\n\
                       hydrant_log_faults_total{fault=\"sum\"} 0\n";
        read(FollowerKind::Replica, replica).check().unwrap();
        let broken = replica.replace("} 0", "} 1");
        let error = read(FollowerKind::Replica, &broken).check().unwrap_err().to_string();
        assert_eq!(error, "faults of the log: Some(1)");
        Counters::unknown(FollowerKind::Replica).check().unwrap_err();
    }
}
