//! Damages of the followed log behind which it continues: those that replicas report, and those that the leader finds
//! when it reads its own records again. Readers get past them with a snapshot of a block behind them, which the leader
//! writes while it appends.
//!
//! Invariant: only the scan of the log says that a record is damaged. An intact record is wrong only if an ingester has
//! another block, and a replica refuses it. A report alone causes a scan, and at most that the next snapshot is written
//! earlier. So a replica with damaged memory cannot stop the log.
//! Not here: the search for reports and their scans (`report_search`), the snapshot (`upkeep`), a log that cannot be
//! continued (`next_generation`).

use cluster_snapshot::fault_reports::{FaultReport, FaultScope};
use ledger::Slot;

use super::compared_blocks::Comparison;
use super::phase::Phase;
use super::{CheckedReport, KnownSnapshot, Notice, Now, Plan, ReportOutcome};
use crate::scan::ScanResult;

/// Damages of a stored message. All others may be those of another log.
pub(super) const STORED_DAMAGES: [&str; 5] = ["missing", "body", "digest", "value", "length"];

impl Plan {
    /// Handles a report of the followed generation, if this ingester leads. The same report is found again and again.
    pub(super) fn handle_report(&mut self, checked: &CheckedReport, now: Now) {
        let Phase::Following(following) = &self.phase else { return };
        let FaultReport { generation, sequence, .. } = checked.report;
        let is_current = self.is_leader() && generation == following.generation;
        // A replica may have read an append whose reply has not arrived.
        if !is_current || sequence > following.chain.position() {
            return;
        }
        self.reports.start_generation(generation);
        if self.reports.is_handled(sequence) {
            return;
        }
        if let Some(outcome) = self.find_outcome(checked, now) {
            self.reports.set_handled(sequence);
            self.counters.reports[outcome as usize] += 1;
            let what = checked.report.what.clone();
            let slot = self.find_reported_slot(&checked.report, outcome);
            self.notices.push(Notice::Reported { sequence, slot, what, outcome });
        }
    }

    /// Returns the slot of the block that differs, or else the newest slot that the replica had read.
    fn find_reported_slot(&self, report: &FaultReport, outcome: ReportOutcome) -> Slot {
        let FaultReport { sequence, slot, .. } = *report;
        match outcome {
            ReportOutcome::Different => self.compared_blocks.find_slot(sequence).unwrap_or(slot),
            _ => slot,
        }
    }

    /// Returns the outcome of a report, or `None` if it is not known yet.
    fn find_outcome(&mut self, checked: &CheckedReport, now: Now) -> Option<ReportOutcome> {
        let FaultReport { sequence, slot, what, .. } = &checked.report;
        if checked.is_difference() {
            self.compared_blocks.note_comparison(sequence.saturating_add(1), *slot, false);
            return Some(ReportOutcome::Disagreement);
        }
        match FaultScope::from_fault(what) {
            None => return Some(ReportOutcome::Lasting),
            Some(FaultScope::Chain) => return Some(self.check_content(&checked.report)),
            Some(FaultScope::Messages) => {}
        }
        match checked.scan? {
            ScanResult::Intact => Some(ReportOutcome::Intact),
            ScanResult::Removed => Some(ReportOutcome::Removed),
            ScanResult::Damaged { last } => {
                self.reports.note_whole_record();
                self.reports.need_snapshot(last);
                Some(ReportOutcome::Damaged)
            }
            ScanResult::Unreadable { last } => {
                // The next records may be whole.
                self.reports.need_snapshot(last);
                if self.reports.note_unreadable(last) {
                    self.end_unreadable_generation(*sequence, now);
                    return Some(ReportOutcome::Damaged);
                }
                None
            }
            ScanResult::Unknown => None,
        }
    }

    /// Determines whether the ingester of a record is wrong, or the replica that refuses the record's block. The record
    /// is at or before the position of the report, because a replica reads ahead of the block that it checks.
    fn check_content(&mut self, report: &FaultReport) -> ReportOutcome {
        let newest = self.followed_log().map_or(0, |log| log.record);
        let FaultReport { sequence, record, .. } = *report;
        match self.compared_blocks.find_comparison(sequence, record.min(newest)) {
            Comparison::Different => {
                self.reports.need_snapshot(sequence);
                ReportOutcome::Different
            }
            // The ledgers of all ingesters may be wrong.
            Comparison::Equal => {
                self.reports.await_snapshot(sequence);
                ReportOutcome::Equal
            }
            Comparison::Unknown => {
                self.reports.await_snapshot(sequence);
                ReportOutcome::Chain
            }
        }
    }

    /// Notes a snapshot of the followed generation, of this ingester or of a replica.
    pub(super) fn note_snapshot(&mut self, snapshot: KnownSnapshot) {
        let KnownSnapshot { generation, position } = snapshot;
        self.compared_blocks.note_snapshot(generation, position);
        if let Phase::Following(following) = &self.phase
            && following.generation == generation
        {
            self.reports.start_generation(generation);
            self.reports.note_snapshot(position);
        }
    }

    /// Notes that the snapshots were listed in a term of this ingester.
    pub(super) fn note_snapshots_listed(&mut self, term: u64) {
        if self.is_leader() && self.followed_log().is_some_and(|log| log.term == term) {
            self.reports.note_snapshots_listed();
        }
    }

    /// Passes over a damaged message that the leader has appended itself: it knows the chain behind it. Returns `false`
    /// if the log cannot be continued.
    pub(super) fn pass_damage(&mut self, what: &str, sequence: u64) -> bool {
        if !self.is_leader() || !STORED_DAMAGES.contains(&what) {
            return false;
        }
        let Phase::Following(following) = &mut self.phase else { return false };
        let end = following.chain.position();
        if sequence > end {
            return false;
        }
        self.reports.start_generation(following.generation);
        if !self.reports.pass_damage(end) {
            return false;
        }
        following.skip_to_end();
        self.damages = 0;
        self.obstacle = None;
        self.counters.passed_damages += 1;
        self.notices.push(Notice::PassesDamage { sequence, end });
        true
    }

    /// Returns the message that the block of a snapshot must be behind, if readers need one now.
    pub(crate) fn needed_snapshot(&self) -> Option<u64> {
        self.reports.needed_after().filter(|_| self.leads_reported_generation())
    }

    /// Returns whether the next snapshot is due earlier than usual.
    pub(crate) fn awaits_snapshot(&self) -> bool {
        self.leads_reported_generation() && self.reports.awaited_after().is_some()
    }

    fn leads_reported_generation(&self) -> bool {
        let Phase::Following(following) = &self.phase else { return false };
        self.is_leader() && following.generation == self.reports.generation()
    }
}
