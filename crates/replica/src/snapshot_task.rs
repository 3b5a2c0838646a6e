//! Writes snapshots while the replica serves.
//!
//! In: the state at the root, which the writer hands over at any time: a view costs a pointer. Out: snapshots in the
//! object store, where those that nobody needs are removed.
//! Bounds: one snapshot at a time. Its view retains the versions of accounts that are replaced meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cluster_snapshot::{Manifest, RemovalRules, WriteLimits, remove_old_snapshots, write_snapshot};
use ledger::Slot;
use tokio::time::MissedTickBehavior;

use crate::clock::unix_ms;
use crate::config::ReplicaConfig;
use crate::error::SnapshotFault;
use crate::input_queue::{Input, InputSender, WriterEnded};
use crate::snapshot_bank::RootState;
use crate::snapshot_cache::SnapshotCopies;
use crate::snapshots::SnapshotSources;
use crate::status::{ReplicaState, ReplicaStatus};

/// Age below which no snapshot is removed: other replicas may be loading it.
const YOUNGER_THAN: Duration = Duration::from_secs(3_600);

/// Writes snapshots.
pub(crate) struct SnapshotTask {
    pub(crate) config: Arc<ReplicaConfig>,
    pub(crate) sources: SnapshotSources,
    pub(crate) status: Arc<ReplicaStatus>,
    pub(crate) inputs: InputSender,
    pub(crate) copies: SnapshotCopies,
}

impl SnapshotTask {
    /// Writes a snapshot at each interval, while the log is followed. Runs until the writer has ended.
    pub(crate) async fn run(self, every: Duration) {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is at once.
        ticks.tick().await;
        let mut newest: Option<Slot> = None;
        loop {
            ticks.tick().await;
            if self.status.state() != ReplicaState::Ready {
                continue;
            }
            let state = match self.inputs.request(Input::Root).await {
                Err(WriterEnded) => return,
                Ok(None) => continue,
                Ok(Some(state)) => state,
            };
            let slot = state.bank.id().slot;
            if newest >= Some(slot) {
                continue;
            }
            match self.write(state).await {
                Ok(manifest) => {
                    newest = Some(slot);
                    self.status.written_snapshots.fetch_add(1, Ordering::Relaxed);
                    self.status.record_snapshot(manifest.made_at_ms);
                    self.copies.request(&manifest);
                }
                Err(err) => {
                    self.status.failed_snapshots.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(slot, err = &*err, "cannot write a snapshot");
                    continue;
                }
            }
            if let Err(err) = self.remove_old().await {
                tracing::warn!(err = &*err, "cannot remove old snapshots");
            }
        }
    }

    async fn write(&self, state: RootState) -> Result<Manifest, SnapshotFault> {
        let facts = state.facts(&self.config.cluster, unix_ms());
        let limits = WriteLimits::default();
        Ok(write_snapshot(&self.sources.depot, &state.view, facts, limits).await?)
    }

    /// Removes the snapshots that neither the rule of the configuration nor the oldest message of the log needs.
    async fn remove_old(&self) -> Result<(), SnapshotFault> {
        let Some(epoch) = self.sources.space.newest_epoch().await? else { return Ok(()) };
        let tail = self.sources.space.open_epoch(epoch).await?.tail().await?;
        let rules = RemovalRules {
            keep: self.config.snapshots_kept.max(1),
            newest_epoch: epoch,
            needed: Some(tail.first),
            younger_than: YOUNGER_THAN,
            now_ms: unix_ms(),
        };
        let depot = &self.sources.depot;
        let removed = remove_old_snapshots(depot, &self.config.cluster, &rules).await?;
        tracing::debug!(removed, "removed objects of old snapshots");
        Ok(())
    }
}
