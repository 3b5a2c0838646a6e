//! Writes snapshots while the replica serves.
//!
//! In: the state at the root, which the writer hands over at any time: a view costs a pointer. Out: snapshots in the
//! object store, where those that no replica needs are removed.
//! Several replicas alternate: none writes while the newest snapshot of the generation is young. Two of them write at
//! the same time if one starts before the other has finished; their snapshots are of different blocks, or equal.
//! Bounds: one snapshot at a time. Its view retains the versions of accounts that are replaced meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cluster_snapshot::{
    Manifest, RemovalRules, SnapshotLoadError, WriteLimits, load_manifest, newest_snapshots,
    remove_old_snapshots, write_snapshot,
};
use depot::DepotError;
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

/// Number of times that the age of the newest snapshot is polled while it grows to the interval.
const POLLS: u32 = 4;
/// Shortest time between two polls.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(1);
/// Age below which a snapshot is retained: a replica may be loading it.
const RETAINED_AGE_MIN: Duration = Duration::from_secs(3_600);
/// Time of loads for which a snapshot is retained.
const RETAINED_LOADS: u64 = 4;

/// Writes snapshots.
pub(crate) struct SnapshotTask {
    pub(crate) config: Arc<ReplicaConfig>,
    pub(crate) sources: SnapshotSources,
    pub(crate) status: Arc<ReplicaStatus>,
    pub(crate) inputs: InputSender,
    pub(crate) copies: SnapshotCopies,
}

impl SnapshotTask {
    /// Writes a snapshot when the newest one is older than the interval, while the log is followed. Runs until the writer
    /// has ended.
    pub(crate) async fn run(self, interval: Duration) {
        let mut ticks = tokio::time::interval((interval / POLLS).max(POLL_INTERVAL_MIN));
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
            let generation = state.bank.position.generation;
            if generation != self.status.generation() {
                // The generation that is read now has not listed the root yet.
                continue;
            }
            match self.is_due(interval, generation).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(err) => {
                    tracing::warn!(err = &*err, "cannot list the snapshots");
                    continue;
                }
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

    /// Whether the newest intact snapshot of a generation is older than the interval. Those of other generations are of
    /// no use.
    async fn is_due(&self, interval: Duration, generation: u64) -> Result<bool, SnapshotFault> {
        let depot = &self.sources.depot;
        let keys = newest_snapshots(depot, &self.config.cluster).await?;
        for key in keys.into_iter().filter(|key| key.generation == generation) {
            match load_manifest(depot, &key.key, None).await {
                Ok(manifest) => return Ok(!is_young(manifest.made_at_ms, unix_ms(), interval)),
                // It was removed.
                Err(SnapshotLoadError::Depot(DepotError::NotFound { .. })) => {}
                Err(SnapshotLoadError::Depot(err)) => return Err(err.into()),
                Err(err) => tracing::warn!(%err, "a snapshot is damaged"),
            }
        }
        Ok(true)
    }

    async fn write(&self, state: RootState) -> Result<Manifest, SnapshotFault> {
        let facts = state.facts(&self.config.cluster, unix_ms());
        let limits = WriteLimits::default();
        Ok(write_snapshot(&self.sources.depot, &state.view, facts, limits).await?)
    }

    /// Removes the snapshots that neither the rule of the configuration, nor the oldest message of the log, nor a load needs.
    async fn remove_old(&self) -> Result<(), SnapshotFault> {
        let Some(generation) = self.sources.newest_generation(None).await? else { return Ok(()) };
        let tail = self.sources.space.open_generation(generation).await?.tail().await?;
        let rules = RemovalRules {
            keep: self.config.snapshots_kept.max(1),
            newest_generation: generation,
            needed: Some(tail.first),
            younger_than: retained_age(self.status.load_ms()),
            now_ms: unix_ms(),
        };
        let depot = &self.sources.depot;
        let removed = remove_old_snapshots(depot, &self.config.cluster, &rules).await?;
        tracing::debug!(removed, "removed objects of old snapshots");
        Ok(())
    }
}

/// Whether a snapshot was made less than `age` ago. One that was made later than that from now has a time that is wrong.
fn is_young(made_at_ms: u64, now_ms: u64, age: Duration) -> bool {
    u128::from(now_ms.abs_diff(made_at_ms)) < age.as_millis()
}

/// Returns the age below which snapshots are retained, from the time in which the last one was loaded.
fn retained_age(load_ms: u64) -> Duration {
    Duration::from_millis(load_ms.saturating_mul(RETAINED_LOADS)).max(RETAINED_AGE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_young_until_the_interval_has_passed() {
        let interval = Duration::from_secs(60);
        let young = [0, 59_999, 60_000].map(|age| is_young(1_000_000, 1_000_000 + age, interval));
        assert_eq!(young, [true, true, false]);
        // A clock that is a minute ahead delays a snapshot, and one that is a year ahead does not.
        let ahead =
            [59_999, 31_536_000_000].map(|ms| is_young(1_000_000 + ms, 1_000_000, interval));
        assert_eq!(ahead, [true, false]);
    }

    #[test]
    fn snapshots_are_retained_for_four_loads_and_an_hour() {
        assert_eq!(retained_age(1_000), Duration::from_secs(3_600));
        assert_eq!(retained_age(3_600_000), Duration::from_secs(4 * 3_600));
    }
}
