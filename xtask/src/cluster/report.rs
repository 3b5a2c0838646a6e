//! The tables at the end of a run, and its verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::cluster::comparison::Counts;
use crate::cluster::failover::FailoverCounters;
use crate::cluster::load::LoadCounters;
use crate::cluster::log_check::LogDamages;
use crate::cluster::soak::SoakReport;

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// A bound of the options was reached.
    Complete(String),
    /// A process has ended that should run.
    Broken(String),
}

/// The end of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoundEnd {
    /// Everything worked again after this time.
    Healed(Duration),
    /// For this reason it did not.
    Failed(String),
}

/// A fault and what followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoundReport {
    pub(crate) fault: String,
    pub(crate) end: RoundEnd,
    /// Equal responses, during the fault and afterwards.
    pub(crate) compared: u64,
    pub(crate) differences: u64,
    /// Responses that are not the producer's.
    pub(crate) wrong: u64,
    /// Damages of records that nodes found. A fault of the log itself makes none.
    pub(crate) record_faults: u64,
    /// Damages that no node named, and panics.
    pub(crate) unnamed: u64,
    pub(crate) damages: LogDamages,
}

impl RoundReport {
    /// A round that did not come to its end.
    pub(crate) fn from_failure(fault: String, reason: String) -> Self {
        Self {
            fault,
            end: RoundEnd::Failed(reason),
            compared: 0,
            differences: 0,
            wrong: 0,
            record_faults: 0,
            unnamed: 0,
            damages: LogDamages::default(),
        }
    }

    /// Formats the round as one line.
    pub(crate) fn line(&self) -> String {
        let end = match &self.end {
            RoundEnd::Healed(time) => format!("healed after {:.1} s", time.as_secs_f64()),
            RoundEnd::Failed(reason) => format!("FAILED: {reason}"),
        };
        format!(
            "{}: {end}; {} equal responses, {} different, {} wrong; log: {} damages, {} named by nodes; {} unnamed",
            self.fault,
            self.compared,
            self.differences,
            self.wrong,
            self.damages.count(),
            self.record_faults,
            self.unnamed
        )
    }
}

/// Facts of the processes at the end of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ProcessFacts {
    /// Sums and bank hashes that a replica computed otherwise than its log says.
    pub(crate) sum_differences: u64,
    /// Blocks that all replicas checked.
    pub(crate) checked_blocks: u64,
    /// Disagreements of the ingesters about accounts and banks.
    pub(crate) disagreements: u64,
    pub(crate) replica_bytes: u64,
    pub(crate) plain_bytes: u64,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) end: RunEnd,
    pub(crate) load: LoadCounters,
    pub(crate) compared_blocks: u64,
    pub(crate) totals: Counts,
    pub(crate) facts: ProcessFacts,
    pub(crate) log: LogDamages,
    /// `None` without a balancer, or in a run with faults.
    pub(crate) failover: Option<FailoverCounters>,
    pub(crate) rounds: Vec<RoundReport>,
    /// `None` unless the run is a soak.
    pub(crate) soak: Option<SoakReport>,
}

impl Report {
    /// Formats the tables.
    pub(crate) fn tables(&self) -> String {
        let Self { end, load, compared_blocks, totals, facts, log, failover, rounds, soak } = self;
        let (RunEnd::Complete(end) | RunEnd::Broken(end)) = end;
        let mut text = format!("\nThe run ended: {end}.\n\n| quantity | value |\n|---|---|\n");
        let mut row = |name: &str, value: u64| {
            // Writing to a String does not fail.
            let _ = writeln!(text, "| {name} | {value} |");
        };
        row("airdrops", load.airdrops);
        row("edited accounts", load.edits);
        row("forks", load.forks);
        row("calls of the load that were refused", load.refused);
        row("final blocks compared", *compared_blocks);
        row("equal responses", totals.equal + totals.equal_later);
        row("different responses of replicas", totals.different);
        row("responses that are not the producer's", totals.wrong);
        row("blocks whose sums replicas checked", facts.checked_blocks);
        row("different sums and bank hashes", facts.sum_differences);
        row("disagreements of the ingesters", facts.disagreements);
        row("missing in the log", log.missing);
        row("doubled in the log", log.doubled);
        row("out of order in the log", log.disordered);
        row("other damages of the log", log.other);
        row("resident MiB of a replica", facts.replica_bytes >> 20);
        row("resident MiB of a node without a log", facts.plain_bytes >> 20);
        if let Some(failover) = failover {
            row("requests while a replica was killed", failover.requests);
            row("failed before the response began", failover.failed);
            row("responses that were cut", failover.cut);
        }
        text.push_str(&rounds_table(rounds));
        if let Some(soak) = soak {
            text.push_str(&soak.tables());
        }
        text
    }

    /// Returns an error if a hard bar of the issue is missed.
    pub(crate) fn check(&self) -> Result<()> {
        if let RunEnd::Broken(reason) = &self.end {
            anyhow::bail!("{reason}");
        }
        let totals = &self.totals;
        ensure!(totals.equal > 0, "nothing was compared");
        ensure!(totals.different == 0, "{} responses of replicas differ", totals.different);
        ensure!(totals.wrong == 0, "{} responses are not the producer's", totals.wrong);
        let sums = self.facts.sum_differences;
        ensure!(sums == 0, "{sums} sums differ");
        ensure!(self.facts.checked_blocks > 0, "no replica has checked a block");
        ensure!(self.log.count() == 0, "the log is damaged: {:?}", self.log.examples);
        let failed = self.failover.map_or(0, |failover| failover.failed);
        ensure!(failed == 0, "{failed} requests failed while a replica was killed");
        for (number, round) in self.rounds.iter().enumerate() {
            let number = number + 1;
            if let RoundEnd::Failed(reason) = &round.end {
                anyhow::bail!("round {number}, {}: {reason}", round.fault);
            }
            ensure!(round.unnamed == 0, "round {number}, {}: a damage has no name", round.fault);
            ensure!(round.damages.count() == 0, "round {number}: {:?}", round.damages.examples);
        }
        self.soak.as_ref().map_or(Ok(()), SoakReport::check)
    }
}

/// The rounds of one kind of fault.
#[derive(Default)]
struct FaultRow {
    rounds: u64,
    failed: u64,
    longest: Duration,
    compared: u64,
    differences: u64,
    wrong: u64,
    damages: LogDamages,
    unnamed: u64,
}

/// Formats a table with a line for each kind of fault.
fn rounds_table(rounds: &[RoundReport]) -> String {
    if rounds.is_empty() {
        return String::new();
    }
    let mut rows: BTreeMap<&str, FaultRow> = BTreeMap::new();
    for round in rounds {
        let row = rows.entry(&round.fault).or_default();
        row.rounds += 1;
        match &round.end {
            RoundEnd::Healed(time) => row.longest = row.longest.max(*time),
            RoundEnd::Failed(_) => row.failed += 1,
        }
        row.compared += round.compared;
        row.differences += round.differences;
        row.wrong += round.wrong;
        row.damages.missing += round.damages.missing;
        row.damages.doubled += round.damages.doubled;
        row.damages.disordered += round.damages.disordered;
        row.damages.other += round.damages.other;
        row.unnamed += round.unnamed;
    }
    let mut text = "\n| fault | rounds | failed | longest s until healed | equal responses | different | wrong | missing | \
                    doubled | out of order | other | unnamed |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for (fault, row) in rows {
        let FaultRow { rounds, failed, longest, compared, differences, wrong, damages, unnamed } =
            row;
        let LogDamages { missing, doubled, disordered, other, .. } = damages;
        let longest = longest.as_secs_f64();
        let _ = writeln!(
            text,
            "| {fault} | {rounds} | {failed} | {longest:.1} | {compared} | {differences} | {wrong} | {missing} | {doubled} | \
             {disordered} | {other} | {unnamed} |"
        );
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cluster::soak::tests::soak;

    fn round(fault: &str, seconds: u64) -> RoundReport {
        let healed = RoundEnd::Healed(Duration::from_secs(seconds));
        RoundReport {
            end: healed,
            compared: 10,
            ..RoundReport::from_failure(fault.to_owned(), String::new())
        }
    }

    pub(crate) fn report() -> Report {
        Report {
            end: RunEnd::Complete("the blocks are made".to_owned()),
            load: LoadCounters { airdrops: 5, ..LoadCounters::default() },
            compared_blocks: 100,
            totals: Counts { equal: 500, ..Counts::default() },
            facts: ProcessFacts {
                checked_blocks: 300,
                replica_bytes: 150 << 20,
                plain_bytes: 100 << 20,
                ..ProcessFacts::default()
            },
            log: LogDamages::default(),
            failover: Some(FailoverCounters { requests: 1_000, ..FailoverCounters::default() }),
            rounds: vec![round("kill", 3), round("cut", 9), round("kill", 5)],
            soak: None,
        }
    }

    #[test]
    fn the_tables_have_the_sums_and_a_row_for_each_fault() {
        let tables = report().tables();
        for row in [
            "The run ended: the blocks are made.",
            "| airdrops | 5 |",
            "| final blocks compared | 100 |",
            "| different responses of replicas | 0 |",
            "| resident MiB of a replica | 150 |",
            "| requests while a replica was killed | 1000 |",
            "| kill | 2 | 0 | 5.0 | 20 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |",
            "| cut | 1 | 0 | 9.0 | 10 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |",
        ] {
            assert!(tables.contains(row), "{row}\n{tables}");
        }
        let quiet = Report { rounds: Vec::new(), failover: None, ..report() };
        assert!(!quiet.tables().contains("| fault |"));
        assert!(!quiet.tables().contains("| process |"));
        let soak = Report { soak: Some(soak(104.0)), ..quiet };
        let tables = soak.tables();
        assert!(tables.contains("| replica1 | 720 | 100.0 | 104.0 | 1.040 |"), "{tables}");
        assert!(tables.contains("| position that all replicas have read | 898 |"), "{tables}");
    }

    #[test]
    fn each_missed_bar_fails_the_run() {
        let check = |change: fn(&mut Report)| {
            let mut report = report();
            change(&mut report);
            report.check()
        };
        check(|_| {}).unwrap();
        assert!(check(|report| report.end = RunEnd::Broken("it ended".to_owned())).is_err());
        assert!(check(|report| report.totals.equal = 0).is_err());
        assert!(check(|report| report.totals.different = 1).is_err());
        assert!(check(|report| report.totals.wrong = 1).is_err());
        assert!(check(|report| report.facts.sum_differences = 1).is_err());
        assert!(check(|report| report.facts.checked_blocks = 0).is_err());
        assert!(check(|report| report.log.doubled = 1).is_err());
        assert!(check(|report| report.rounds[1].unnamed = 1).is_err());
        assert!(check(|report| report.rounds[1].damages.missing = 1).is_err());
        check(|report| report.soak = Some(soak(104.0))).unwrap();
        assert!(check(|report| report.soak = Some(soak(106.0))).is_err());
        let failed = RoundReport::from_failure("kill".to_owned(), "not healthy".to_owned());
        let report = Report { rounds: vec![failed], ..report() };
        let error = report.check().unwrap_err().to_string();
        assert!(error.contains("round 1, kill: not healthy"), "{error}");
    }

    #[test]
    fn cut_responses_do_not_count_as_failed_requests() {
        let failover = |failed, cut| {
            let failover = FailoverCounters { requests: 9, failed, cut };
            Report { failover: Some(failover), ..report() }.check()
        };
        failover(0, 3).unwrap();
        assert!(failover(1, 0).is_err());
    }
}
