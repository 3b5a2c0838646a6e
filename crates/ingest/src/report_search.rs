//! The search of a leader for the faults that replicas report, and the scan of the log at their positions.
//!
//! Input: the objects of the reports. Output: [`CheckedReport`]s of the followed generation.
//! Shape: a report is read once, and scanned until the result is known. The newest positions come first, because a
//! snapshot behind a damage is behind older ones, too.
//! Bounds: [`REPORTS_MAX`] reports; for each search [`LISTED_MAX`] names, [`READS_MAX`] objects,
//! [`SCANNED_REPORTS_MAX`] scans of at most [`SCAN_TIMEOUT`] and twice [`DELETIONS_MAX`] deletions. A report beyond the
//! end of the log is not read.
//! Not here: the reaction to a report (`plan`), the interval of the search (`upkeep`).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use cluster_snapshot::fault_reports::{
    FAULT_REPORT_BYTES_MAX, FaultReport, FaultScope, fault_report_dir, fault_report_key,
    parse_fault_report_key,
};
use depot::{Depot, DepotError, ObjectInfo};
use replicated_log::{Log, Tail};
use tokio::time::timeout;

use crate::notices::ErrorLines;
use crate::plan::CheckedReport;
use crate::scan::{ScanResult, scan_log};

/// Reports that are known at once, those of the highest positions. Replicas that stop at one message write one.
const REPORTS_MAX: usize = 256;
/// Names of one list. The oldest reports are removed while a generation has as many.
const LISTED_MAX: usize = 10_000;
/// Objects that one search reads.
const READS_MAX: usize = 32;
/// Objects that one search fails to read before it ends.
const FAILURES_MAX: u32 = 3;
/// Reports whose position one search scans.
const SCANNED_REPORTS_MAX: usize = 4;
/// Objects that one search deletes: as many of removed positions, and as many of older generations.
const DELETIONS_MAX: usize = 200;
/// Time limit of one scan. A log on a slow store needs longer, and is scanned again with the next search.
const SCAN_TIMEOUT: Duration = Duration::from_secs(60);

/// The reports of a generation.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportSearch {
    generation: u64,
    /// By position.
    found: BTreeMap<u64, FoundReport>,
}

#[derive(Clone, Debug)]
struct FoundReport {
    /// `None` if the object cannot be parsed.
    report: Option<FaultReport>,
    scan: Option<ScanResult>,
    scans: u32,
}

/// The store, and the log that this ingester leads.
pub(crate) struct SearchedLog<'a> {
    pub(crate) depot: &'a Depot,
    pub(crate) cluster: &'a str,
    pub(crate) log: &'a dyn Log,
    pub(crate) generation: u64,
    pub(crate) tail: Tail,
}

impl ReportSearch {
    /// Reads new reports, and scans the log. Errors are logged, and tried again with the next search.
    pub(crate) async fn search(&mut self, searched: &SearchedLog<'_>, lines: &ErrorLines) {
        if self.generation != searched.generation {
            *self = Self { generation: searched.generation, ..Self::default() };
        }
        if let Err(err) = self.read_reports(searched, lines).await {
            lines.report(&err);
        }
        self.scan_positions(searched.log, lines).await;
        if let Err(err) = remove_older_generations(searched).await {
            lines.report(&err);
        }
    }

    /// Returns the reports that were read, the newest positions first.
    pub(crate) fn checked_reports(&self) -> impl Iterator<Item = CheckedReport> {
        self.found.values().rev().filter_map(|found| {
            let report = found.report.clone()?;
            Some(CheckedReport { report, scan: found.scan })
        })
    }

    async fn read_reports(
        &mut self,
        searched: &SearchedLog<'_>,
        lines: &ErrorLines,
    ) -> Result<(), DepotError> {
        let SearchedLog { depot, cluster, generation, tail, .. } = searched;
        let before = generation.checked_sub(1);
        let before = before.map(|older| fault_report_key(cluster, older, u64::MAX));
        let dir = fault_report_dir(cluster);
        let listed = depot.list_after(&dir, &before.unwrap_or_default(), LISTED_MAX).await?;
        let objects: BTreeMap<u64, ObjectInfo> = listed
            .into_iter()
            .filter_map(|object| {
                let (of, sequence) = parse_fault_report_key(&object.key)?;
                (of == *generation).then_some((sequence, object))
            })
            .collect();
        // In a list, those of later generations follow.
        let is_cut = objects.len() >= LISTED_MAX;
        let existing = objects.range(..=tail.last).rev().take(REPORTS_MAX);
        let existing =
            existing.take_while(|(sequence, _)| sequence.saturating_add(1) >= tail.first);
        let lowest = existing.clone().last().map_or(u64::MAX, |(sequence, _)| *sequence);
        self.found.retain(|sequence, _| *sequence >= lowest && objects.contains_key(sequence));
        let unread = existing.filter(|(sequence, _)| !self.found.contains_key(*sequence));
        let unread: Vec<(&u64, &ObjectInfo)> = unread.take(READS_MAX).collect();
        let mut failures = 0;
        for (sequence, object) in unread {
            match read_report(depot, object).await {
                Ok(report) => {
                    let found = FoundReport { report, scan: None, scans: 0 };
                    self.found.insert(*sequence, found);
                }
                // An object that cannot be read does not hide the others. A store that is down gets few requests.
                Err(err) => {
                    failures += 1;
                    if failures == FAILURES_MAX {
                        return Err(err);
                    }
                    lines.report(&err);
                }
            }
        }
        // No replica is at a position that the limits of the log have removed.
        let removed_max = if is_cut { u64::MAX } else { tail.first.saturating_sub(1) };
        let removed = objects.range(..removed_max).take(DELETIONS_MAX);
        for (_, object) in removed {
            depot.delete(&object.key).await?;
        }
        Ok(())
    }

    async fn scan_positions(&mut self, log: &dyn Log, lines: &ErrorLines) {
        let due = self.found.iter().filter(|(_, found)| found.needs_scan());
        let mut due: Vec<(u32, Reverse<u64>)> =
            due.map(|(sequence, found)| (found.scans, Reverse(*sequence))).collect();
        due.sort_unstable();
        for (_, Reverse(sequence)) in due.into_iter().take(SCANNED_REPORTS_MAX) {
            let scanned = timeout(SCAN_TIMEOUT, scan_log(log, sequence)).await;
            let scan = scanned.unwrap_or(Ok(ScanResult::Unknown)).unwrap_or_else(|err| {
                lines.report(&err);
                ScanResult::Unknown
            });
            if let Some(found) = self.found.get_mut(&sequence) {
                found.scan = Some(scan);
                found.scans = found.scans.saturating_add(1);
            }
        }
    }
}

impl FoundReport {
    /// Whether another scan may have a different result.
    fn needs_scan(&self) -> bool {
        let scope = self.report.as_ref().and_then(|report| FaultScope::from_fault(&report.what));
        let is_open =
            matches!(self.scan, None | Some(ScanResult::Unknown | ScanResult::Unreadable { .. }));
        is_open && scope == Some(FaultScope::Messages)
    }
}

/// Reads a report. Returns `None` if it cannot be parsed, or was removed.
async fn read_report(
    depot: &Depot,
    object: &ObjectInfo,
) -> Result<Option<FaultReport>, DepotError> {
    let key = &object.key;
    let report = match depot.get(key, FAULT_REPORT_BYTES_MAX).await {
        Ok(body) => FaultReport::from_object(key, &body),
        Err(DepotError::NotFound { .. }) => return Ok(None),
        Err(DepotError::TooLong { .. }) => None,
        Err(err) => return Err(err),
    };
    if report.is_none() {
        tracing::warn!(key, "a report of a replica cannot be read");
    }
    Ok(report)
}

/// Removes reports of the generations before the followed one.
async fn remove_older_generations(searched: &SearchedLog<'_>) -> Result<(), DepotError> {
    let SearchedLog { depot, cluster, generation, .. } = searched;
    for object in depot.list_after(&fault_report_dir(cluster), "", DELETIONS_MAX).await? {
        if parse_fault_report_key(&object.key).is_some_and(|(of, _)| of < *generation) {
            depot.delete(&object.key).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use depot::DepotConfig;
    use replicated_log::LogSpace;
    use replicated_log::memory::MemoryLogSpace;

    use super::*;
    use crate::model::report::fault_report;

    const CLUSTER: &str = "test";
    const GENERATION: u64 = 3;

    async fn store_report(depot: &Depot, generation: u64, sequence: u64) {
        let report = fault_report(generation, sequence, "no_sum");
        depot.put_new(&report.key(), report.to_text().into()).await.expect("it is stored");
    }

    async fn list_positions(depot: &Depot) -> Vec<(u64, u64)> {
        let listed = depot.list(&fault_report_dir(CLUSTER)).await.expect("a list");
        listed.iter().filter_map(|object| parse_fault_report_key(&object.key)).collect()
    }

    /// A search in a log of this extent.
    async fn search(search: &mut ReportSearch, depot: &Depot, log: &dyn Log, tail: Tail) {
        let searched = SearchedLog { depot, cluster: CLUSTER, log, generation: GENERATION, tail };
        search.search(&searched, &ErrorLines::default()).await;
    }

    fn found_positions(search: &ReportSearch) -> Vec<u64> {
        search.checked_reports().map(|checked| checked.report.sequence).collect()
    }

    #[tokio::test]
    async fn a_flood_of_reports_is_read_in_parts_from_the_newest_position_on() {
        let space = MemoryLogSpace::new();
        space.create_generation(GENERATION).await.expect("a new generation");
        let log: Arc<dyn Log> = space.open_generation(GENERATION).await.expect("it exists");
        let depot = Depot::open("memory:", &DepotConfig::default()).expect("a store in memory");
        for sequence in (1..=300).chain([2_000, u64::MAX]) {
            store_report(&depot, GENERATION, sequence).await;
        }
        store_report(&depot, GENERATION - 1, 5).await;
        store_report(&depot, GENERATION + 1, 5).await;

        let mut reports = ReportSearch::default();
        search(&mut reports, &depot, &*log, Tail { first: 1, last: 1_000 }).await;
        assert_eq!(found_positions(&reports), (269..=300).rev().collect::<Vec<u64>>());
        for _ in 0..10 {
            search(&mut reports, &depot, &*log, Tail { first: 1, last: 1_000 }).await;
        }
        assert_eq!(found_positions(&reports), (45..=300).rev().collect::<Vec<u64>>());
        let stored = list_positions(&depot).await;
        assert!(!stored.contains(&(GENERATION - 1, 5)) && stored.contains(&(GENERATION + 1, 5)));

        // Positions that the limits of the log have removed.
        search(&mut reports, &depot, &*log, Tail { first: 200, last: 1_000 }).await;
        assert_eq!(found_positions(&reports), (199..=300).rev().collect::<Vec<u64>>());
        let oldest = list_positions(&depot).await.into_iter().min();
        assert_eq!(oldest, Some((GENERATION, 199)));
    }
}
