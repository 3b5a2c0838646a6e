//! The hard bars and goals that real processes show, as the lines that `bars` reads.
//!
//! Not here: rates of the log, of snapshots and of a replica's writer (`benchmarks`, `cluster.rs`).

use crate::cluster::gaps::Gaps;
use crate::cluster::reads::ReadCost;
use crate::cluster::report::{Report, RoundEnd, RoundReport};

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
/// Goals: seconds without an append after the death of the ingester, and of the server that leads the log.
const INGEST_FAILOVER_S: f64 = 6.0;
const LOG_FAILOVER_S: f64 = 15.0;
const MIB: f64 = (1 << 20) as f64;

/// Returns the lines of a run that compared, and of one with faults.
pub(crate) fn bar_lines(
    compared: &Report,
    reads: Option<ReadCost>,
    gaps: Gaps,
    chaos: &Report,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut zero = |name: &str, value: u64| lines.push(format!("bar {name} {value} count <= 0"));
    zero("cluster_differences", compared.totals.different + chaos.totals.different);
    zero("cluster_wrong_responses", compared.totals.wrong + chaos.totals.wrong);
    zero("cluster_sum_differences", compared.facts.sum_differences + chaos.facts.sum_differences);
    let sum_rounds =
        |count: fn(&RoundReport) -> u64| -> u64 { chaos.rounds.iter().map(count).sum() };
    let damages = sum_rounds(|it| it.damages.count());
    zero("cluster_log_damages", compared.log.count() + chaos.log.count() + damages);
    zero("cluster_unnamed_damages", sum_rounds(|it| it.unnamed));
    let failed = sum_rounds(|it| u64::from(matches!(it.end, RoundEnd::Failed(_))));
    zero("cluster_failed_rounds", failed);
    if let Some(failover) = compared.failover {
        zero("cluster_failed_requests", failover.failed);
    }
    // A run that compares nothing has no differences either.
    let totals = [&compared.totals, &chaos.totals];
    let equal: u64 = totals.iter().map(|it| it.equal).sum();
    let equal_later: u64 = totals.iter().map(|it| it.equal_later).sum();
    for (name, count, count_min) in [
        ("cluster_compared_responses", equal + equal_later, RESPONSES_MIN),
        ("cluster_checked_blocks", compared.facts.checked_blocks, CHECKED_BLOCKS_MIN),
        ("cluster_rounds", chaos.rounds.len() as u64, ROUNDS_MIN),
    ] {
        lines.push(format!("bar {name} {count} count >= {count_min}"));
    }
    let repeated = 100.0 * equal_later as f64 / (equal + equal_later).max(1) as f64;
    lines
        .push(format!("bar cluster_equal_when_repeated {repeated:.3} % <= {REPEATED_PERCENT_MAX}"));
    let facts = &compared.facts;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::report::tests::report;

    #[test]
    fn each_hard_bar_of_real_processes_has_a_line() {
        let reads = ReadCost { replica_us: 10.0, plain_us: 9.8 };
        let gaps = Gaps { ingester: Some(Duration::from_millis(4_200)), log: None };
        let lines = bar_lines(&report(), Some(reads), gaps, &report());
        for line in [
            "bar cluster_differences 0 count <= 0",
            "bar cluster_log_damages 0 count <= 0",
            "bar cluster_compared_responses 1000 count >= 10000",
            "bar cluster_checked_blocks 300 count >= 1000",
            "bar cluster_rounds 3 count >= 50",
            "bar cluster_equal_when_repeated 0.000 % <= 1",
            "bar cluster_failed_requests 0 count <= 0",
            "bar cluster_replica_memory 50.0 MiB <= 64",
            "bar cluster_reads 0.980 x >= 0.95",
            "goal cluster_ingest_failover 4.2 s <= 6",
        ] {
            assert!(lines.iter().any(|it| it == line), "{line}: {lines:?}");
        }
        let mut wrong = report();
        wrong.rounds[0].damages.doubled = 2;
        wrong.log.other = 3;
        let lines = bar_lines(&report(), None, Gaps::default(), &wrong);
        assert!(lines.contains(&"bar cluster_log_damages 5 count <= 0".to_owned()), "{lines:?}");
    }
}
