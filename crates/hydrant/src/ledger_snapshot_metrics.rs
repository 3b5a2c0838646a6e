//! Metrics of the snapshots of a local ledger, to which `hydrant_revert` goes back.

use std::sync::Arc;

use chain_solana::ForkControl;
use metrics::{Collector, Exposition, MetricKind};

/// The snapshots, for a scrape.
pub(crate) struct LedgerSnapshotMetrics(pub(crate) Arc<dyn ForkControl>);

impl Collector for LedgerSnapshotMetrics {
    fn write(&self, out: &mut Exposition) {
        let usage = self.0.usage();
        let help = "Snapshots that hydrant_revert can go back to.";
        out.single("hydrant_fork_snapshots", MetricKind::Gauge, help, usage.snapshots);
        let help = "Blocks above the oldest snapshot.";
        out.single("hydrant_fork_snapshot_blocks", MetricKind::Gauge, help, usage.blocks);
        // State and history have most of these bytes, so they are not reported as a part of the process's memory.
        let help = "Estimated bytes of these blocks, with the accounts that they wrote.";
        out.single("hydrant_fork_snapshot_bytes", MetricKind::Gauge, help, usage.bytes);
        let help = "Snapshots that were dropped because a limit was reached.";
        let name = "hydrant_fork_snapshots_expired_total";
        out.single(name, MetricKind::Counter, help, usage.expired);
    }
}
