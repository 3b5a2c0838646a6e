//! The hard bars and goals that real processes show, as the lines that `bars` reads.
//!
//! Shape: each run has its own lines. A count of several runs has one name, and `bars` adds its values.
//! Not here: rates of the log, of snapshots and of a replica's writer (`benchmarks`, `cluster.rs`).

use crate::cluster::gaps::Gaps;
use crate::cluster::reads::ReadCost;
use crate::cluster::report::{Report, RoundEnd};
use crate::cluster::soak::GROWTH_MAX;

/// Responses of all replicas that were compared, blocks whose sums the replicas checked, and faults.
const RESPONSES_MIN: u64 = 10_000;
const CHECKED_BLOCKS_MIN: u64 = 1_000;
const ROUNDS_MIN: u64 = 50;
/// Responses that differed at first, and were equal when the request was repeated: the slot or the fork had changed.
const REPEATED_PERCENT_MAX: f64 = 1.0;
/// Memory of a replica above that of a node without a log, in MiB.
const MEMORY_MIB_MAX: f64 = 64.0;
/// Reads of a replica for each one of a node without a log.
const READS_MIN: f64 = 0.95;
/// Minutes of a soak.
const SOAK_MINUTES_MIN: u64 = 60;
/// Goals: seconds without an append after the death of the ingester, and of the server that leads the log.
const INGEST_FAILOVER_S: f64 = 6.0;
const LOG_FAILOVER_S: f64 = 15.0;
const MIB: f64 = (1 << 20) as f64;

/// Returns the lines of a run without faults.
pub(crate) fn compared_lines(report: &Report, reads: Option<ReadCost>, gaps: Gaps) -> Vec<String> {
    let mut lines = common_lines(report);
    lines.push(checked_blocks(report));
    if let Some(failover) = report.failover {
        lines.push(zero("cluster_failed_requests", failover.failed));
    }
    let facts = &report.facts;
    let above = (facts.replica_bytes as f64 - facts.plain_bytes as f64) / MIB;
    lines.push(format!("bar cluster_replica_memory {above:.1} MiB <= {MEMORY_MIB_MAX}"));
    if let Some(reads) = reads {
        lines.push(format!("bar cluster_reads {:.3} x >= {READS_MIN}", reads.ratio()));
    }
    for (name, gap, goal) in [
        ("cluster_ingest_failover", gaps.ingester, INGEST_FAILOVER_S),
        ("cluster_log_failover", gaps.log, LOG_FAILOVER_S),
    ] {
        let gap = gap.map(|gap| format!("goal {name} {:.1} s <= {goal}", gap.as_secs_f64()));
        lines.extend(gap);
    }
    lines
}

/// Returns the lines of a run with faults.
pub(crate) fn chaos_lines(report: &Report) -> Vec<String> {
    let rounds = &report.rounds;
    let failed = rounds.iter().filter(|it| matches!(it.end, RoundEnd::Failed(_))).count() as u64;
    let mut lines = common_lines(report);
    lines.push(zero("cluster_unnamed_damages", rounds.iter().map(|it| it.unnamed).sum()));
    lines.push(zero("cluster_failed_rounds", failed));
    lines.push(at_least("cluster_rounds", rounds.len() as u64, ROUNDS_MIN));
    lines
}

/// Returns the lines of a soak.
pub(crate) fn soak_lines(report: &Report) -> Vec<String> {
    let mut lines = common_lines(report);
    lines.push(checked_blocks(report));
    if let Some(soak) = &report.soak {
        let growth = soak.growth_max();
        lines.extend(growth.map(|it| format!("bar cluster_soak_memory {it:.3} x <= {GROWTH_MAX}")));
        // A short soak is level, too.
        let minutes = soak.minutes();
        lines.push(format!("bar cluster_soak_time {minutes:.1} min >= {SOAK_MINUTES_MIN}"));
    }
    lines
}

/// Returns the lines about responses, sums and the log, which each run has.
fn common_lines(report: &Report) -> Vec<String> {
    let totals = &report.totals;
    let damages: u64 = report.rounds.iter().map(|round| round.damages.count()).sum();
    let equal = totals.equal + totals.equal_later;
    let repeated = 100.0 * totals.equal_later as f64 / equal.max(1) as f64;
    vec![
        zero("cluster_differences", totals.different),
        zero("cluster_wrong_responses", totals.wrong),
        zero("cluster_sum_differences", report.facts.sum_differences),
        zero("cluster_log_damages", report.log.count() + damages),
        // A run that compares nothing has no differences either.
        at_least("cluster_compared_responses", equal, RESPONSES_MIN),
        format!("bar cluster_equal_when_repeated {repeated:.3} % <= {REPEATED_PERCENT_MAX}"),
    ]
}

fn checked_blocks(report: &Report) -> String {
    at_least("cluster_checked_blocks", report.facts.checked_blocks, CHECKED_BLOCKS_MIN)
}

fn zero(name: &str, count: u64) -> String {
    format!("bar {name} {count} count <= 0")
}

fn at_least(name: &str, count: u64, count_min: u64) -> String {
    format!("bar {name} {count} count >= {count_min}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::report::tests::report;
    use crate::cluster::soak::tests::soak;

    fn assert_has(lines: &[String], expected: &[&str]) {
        for line in expected {
            assert!(lines.iter().any(|it| it == line), "{line}: {lines:?}");
        }
    }

    #[test]
    fn each_hard_bar_of_real_processes_has_a_line() {
        let reads = ReadCost { replica_us: 10.0, plain_us: 9.8, ratios: [0.9, 0.98, 1.1] };
        let gaps = Gaps { ingester: Some(Duration::from_millis(4_200)), log: None };
        let lines = compared_lines(&report(), Some(reads), gaps);
        assert_has(
            &lines,
            &[
                "bar cluster_differences 0 count <= 0",
                "bar cluster_compared_responses 500 count >= 10000",
                "bar cluster_equal_when_repeated 0.000 % <= 1",
                "bar cluster_checked_blocks 300 count >= 1000",
                "bar cluster_failed_requests 0 count <= 0",
                "bar cluster_replica_memory 50.0 MiB <= 64",
                "bar cluster_reads 0.980 x >= 0.95",
                "goal cluster_ingest_failover 4.2 s <= 6",
            ],
        );
    }

    #[test]
    fn the_faults_and_the_damages_of_all_rounds_are_counted() {
        let mut broken = report();
        broken.rounds[0].damages.doubled = 2;
        broken.rounds[1].unnamed = 1;
        broken.rounds[2].end = RoundEnd::Failed("not healthy".to_owned());
        broken.log.other = 3;
        assert_has(
            &chaos_lines(&broken),
            &[
                "bar cluster_log_damages 5 count <= 0",
                "bar cluster_unnamed_damages 1 count <= 0",
                "bar cluster_failed_rounds 1 count <= 0",
                "bar cluster_rounds 3 count >= 50",
            ],
        );
    }

    #[test]
    fn a_soak_has_lines_for_the_growth_of_memory_and_for_its_time() {
        let report = Report { rounds: Vec::new(), soak: Some(soak(104.0)), ..report() };
        assert_has(
            &soak_lines(&report),
            &[
                "bar cluster_sum_differences 0 count <= 0",
                "bar cluster_checked_blocks 300 count >= 1000",
                "bar cluster_soak_memory 1.040 x <= 1.05",
                "bar cluster_soak_time 60.0 min >= 60",
            ],
        );
    }
}
