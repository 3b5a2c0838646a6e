//! The metrics of a replica.

use std::sync::atomic::{AtomicU64, Ordering};

use ::metrics::{Collector, Exposition, MetricKind};

use super::{LoadReason, ReplicaState, ReplicaStatus};
use crate::clock::unix_ms;
use crate::fault_kind::FaultKind;

impl Collector for ReplicaStatus {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let bytes = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            ("replica_queue", bytes(&self.queued_bytes)),
            ("replica_changes", bytes(&self.changes_bytes)),
            ("replica_cluster", bytes(&self.cluster.bytes)),
        ]
    }

    fn write(&self, out: &mut Exposition) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let gauge = MetricKind::Gauge;
        let help = "The state of the replica: 1 for the one that it is in.";
        let mut family = out.family("hydrant_replica_state", gauge, help);
        let state = self.state();
        for known in ReplicaState::ALL {
            family.put(&[("state", known.name())], u64::from(known == state));
        }
        let help = "Position in the log of the newest whole record: the log's generation, the sequence of the record's \
                    last message, the number of the record, and the writer's term.";
        let mut family = out.family("hydrant_log_position", gauge, help);
        for (of, counter) in [
            ("generation", &self.generation),
            ("sequence", &self.sequence),
            ("record", &self.record),
            ("term", &self.term),
        ] {
            family.put(&[("of", of)], count(counter));
        }
        let help = "Messages of the log after the last one that was read.";
        out.single("hydrant_log_pending", gauge, help, self.pending());
        let help =
            "Slots of the log that are not shown: estimated from the messages that were not read.";
        out.single("hydrant_log_lag_slots", gauge, help, self.lag_slots());
        let help = "Time from the making of the newest block's record until it was written here, by the clocks of both \
                    machines.";
        out.single("hydrant_log_lag_seconds", gauge, help, self.lag_seconds());
        self.write_faults(out);
        let help = "Snapshots that were loaded, by cause.";
        let name = "hydrant_replica_snapshot_loads_total";
        let mut family = out.family(name, MetricKind::Counter, help);
        for (reason, counter) in LoadReason::ALL.iter().zip(&self.loads) {
            family.put(&[("cause", reason.name())], count(counter));
        }
        let help = "Time in which the last snapshot was loaded. The log must reach back at least four times as far.";
        out.single("hydrant_replica_load_seconds", gauge, help, count(&self.load_ms) as f64 / 1e3);
        let help = "What was read from the log, and what became of it.";
        let mut family = out.family("hydrant_replica_events_total", MetricKind::Counter, help);
        for (event, counter) in [
            ("message", &self.messages),
            ("block", &self.blocks),
            ("skipped", &self.skipped),
            ("reverted_block", &self.reverted),
            ("jump", &self.jumps),
            ("written_snapshot", &self.written_snapshots),
            ("failed_snapshot", &self.failed_snapshots),
        ] {
            family.put(&[("event", event)], count(counter));
        }
        let help = "Blocks above the root.";
        out.single("hydrant_replica_unrooted_blocks", gauge, help, count(&self.unrooted));
        let help = "Time in which the accounts of blocks were hashed.";
        let name = "hydrant_replica_hash_seconds_total";
        out.single(name, MetricKind::Counter, help, count(&self.hash_nanos) as f64 / 1e9);
        let made_at_ms = count(&self.snapshot_made_at_ms);
        if made_at_ms > 0 {
            let age_ms = unix_ms().saturating_sub(made_at_ms);
            let help = "Age of the newest known snapshot.";
            out.single("hydrant_snapshot_age_seconds", gauge, help, age_ms as f64 / 1e3);
        }
    }
}

impl ReplicaStatus {
    fn write_faults(&self, out: &mut Exposition) {
        let counter = MetricKind::Counter;
        let help = "Faults of the log, by kind. Messages that were delivered again are skipped.";
        let mut family = out.family("hydrant_log_faults_total", counter, help);
        for kind in FaultKind::ALL.into_iter().filter(|kind| !kind.is_loss()) {
            family.put(&[("fault", kind.name())], self.faults(kind));
        }
        let help = "Losses of the log or of its messages, which outages and retention cause, too.";
        let mut family = out.family("hydrant_log_losses_total", counter, help);
        for kind in FaultKind::ALL.into_iter().filter(|kind| kind.is_loss()) {
            family.put(&[("loss", kind.name())], self.faults(kind));
        }
    }
}
