//! Faults of the log that replicas report: the leader opens a generation from its own state, which the damaged record
//! is not needed for.
//!
//! Not here: the search for reports (`upkeep`), their format (`cluster_snapshot::fault_reports`).

use std::time::Duration;

use cluster_snapshot::fault_reports::FaultReport;

use super::phase::Phase;
use super::{Now, Plan};

/// Least time between two generations that reports open. A replica that is damaged itself may report each of them.
const REPORT_INTERVAL: Duration = Duration::from_secs(1_800);
/// The fault of a replica that is older than the records. A new generation would have such records, too.
const VERSION_FAULT: &str = "version";

impl Plan {
    /// Opens a generation if a replica cannot continue in the followed one, and a snapshot of the own root is of use to
    /// it. Until the root is there, the report is found again and again.
    pub(super) fn handle_report(&mut self, report: &FaultReport, now: Now) {
        let Phase::Following(following) = &self.phase else { return };
        let is_current = self.is_leader() && report.generation == following.generation;
        let is_passed = self.own.root_key().slot > report.slot.max(report.confirmed);
        let is_due = self.reported_at.is_none_or(|at| now.elapsed >= at + REPORT_INTERVAL);
        if !is_current || !is_passed || !is_due || report.what == VERSION_FAULT {
            return;
        }
        self.reported_at = Some(now.elapsed);
        let FaultReport { generation, sequence, what, .. } = report;
        let reason = format!("a replica cannot continue after message {sequence}: {what}");
        self.open_generation(generation + 1, reason.into());
    }
}
