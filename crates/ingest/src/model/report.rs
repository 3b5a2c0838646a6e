//! Reports of replicas for tests.

use cluster_snapshot::fault_reports::FaultReport;

/// Returns the report of a replica that got past a message. Only its position counts, so its other numbers are wrong.
pub(crate) fn fault_report(generation: u64, sequence: u64, what: &str) -> FaultReport {
    FaultReport {
        cluster: "test".to_owned(),
        generation,
        sequence,
        record: u64::MAX,
        slot: u64::MAX,
        confirmed: u64::MAX,
        what: what.to_owned(),
        made_at_ms: u64::MAX,
    }
}
