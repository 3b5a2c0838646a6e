//! The hard bars and goals that real processes show, as the lines that `bars` reads.
//!
//! Not here: rates of the log, of snapshots and of a replica's writer (`benchmarks`, `cluster.rs`).

use crate::cluster::gaps::Gaps;
use crate::cluster::reads::ReadCost;
use crate::cluster::report::{Report, RoundEnd, RoundReport};

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
    zero("cluster_wrong_answers", compared.totals.wrong + chaos.totals.wrong);
    zero("cluster_sum_differences", compared.facts.sum_differences + chaos.facts.sum_differences);
    let sum = |count: fn(&Report) -> u64| count(compared) + count(chaos);
    let of_rounds =
        |count: fn(&RoundReport) -> u64| -> u64 { chaos.rounds.iter().map(count).sum() };
    let missing = sum(|it| it.log.missing) + of_rounds(|it| it.damages.missing);
    let doubled = sum(|it| it.log.doubled) + of_rounds(|it| it.damages.doubled);
    let disordered = sum(|it| it.log.disordered) + of_rounds(|it| it.damages.disordered);
    zero("cluster_log_missing", missing);
    zero("cluster_log_doubled", doubled);
    zero("cluster_log_out_of_order", disordered);
    zero("cluster_unnamed_damages", of_rounds(|it| it.unnamed));
    zero("cluster_failed_rounds", of_rounds(|it| u64::from(matches!(it.end, RoundEnd::Failed(_)))));
    if let Some(failover) = compared.failover {
        zero("cluster_failed_requests", failover.failed);
    }
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
            "bar cluster_log_missing 0 count <= 0",
            "bar cluster_failed_requests 0 count <= 0",
            "bar cluster_replica_memory 50.0 MiB <= 64",
            "bar cluster_reads 0.980 x >= 0.95",
            "goal cluster_ingest_failover 4.2 s <= 6",
        ] {
            assert!(lines.iter().any(|it| it == line), "{line}: {lines:?}");
        }
        let mut wrong = report();
        wrong.rounds[0].damages.doubled = 2;
        let lines = bar_lines(&report(), None, Gaps::default(), &wrong);
        assert!(lines.contains(&"bar cluster_log_doubled 2 count <= 0".to_owned()), "{lines:?}");
    }
}
