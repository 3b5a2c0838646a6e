//! Finds and loads snapshots: the newest one from which the log can be read on, else an older one.
//!
//! In: the object store, the local copy, and the extent of the log. Out: a loaded snapshot, or for each one that exists
//! why it is not used.
//! Bounds: those of `cluster_snapshot`; the changes of a jump ([`ArchiveChanges`]).
//! Not here: writing snapshots (`snapshot_task`), the copy (`snapshot_cache`).

use std::sync::Arc;
use std::time::Duration;

use chain_solana::wire::RecordDigest;
use chain_solana::{Reader, View};
use cluster_snapshot::{
    Manifest, ManifestKey, PartSums, fetch_part, load_manifest, load_snapshot_parts,
};
use depot::Depot;
use follow::bank::{AccountAfter, ArchiveChanges};
use futures_util::{StreamExt, stream};
use ledger::Slot;
use replicated_log::{Log, LogError, LogSpace, Tail};
use snapshot_ledger::BulkLoader;
use snapshot_solana::AccountSink;
use solana::VerificationLevel;
use tokio::sync::oneshot;

use crate::config::ReplicaConfig;
use crate::error::SnapshotFault;
use crate::fault::level_name;
use crate::first_record::FirstRecord;
use crate::log_position::RecordPosition;
use crate::newest_generations::NewestGenerations;
use crate::snapshot_bank::SnapshotBank;
use crate::status::{ReplicaStatus, error_text};

/// Number of the newest snapshots of a generation that are tried.
const TRIED_MAX: usize = 8;

/// The sources of a replica: the log and the object store.
#[derive(Clone)]
pub(crate) struct SnapshotSources {
    pub(crate) space: Arc<dyn LogSpace>,
    pub(crate) depot: Depot,
    /// The copy of the newest snapshot.
    pub(crate) cache: Option<Depot>,
    /// The lowest level of proof of a snapshot that is used.
    pub(crate) level_min: Option<VerificationLevel>,
}

/// A snapshot from which the log can be read on.
pub(crate) struct UsableSnapshot {
    pub(crate) manifest: Manifest,
    pub(crate) bank: SnapshotBank,
    /// The store that has it.
    pub(crate) depot: Depot,
    pub(crate) is_cached: bool,
}

/// The extent of the log that a snapshot must fit to.
pub(crate) struct LogExtent {
    generation: u64,
    tail: Tail,
    pub(crate) first: Option<FirstRecord>,
}

impl LogExtent {
    pub(crate) async fn new(
        generation: u64,
        log: &dyn Log,
        timeout: Duration,
    ) -> Result<Self, LogError> {
        let tail = log.tail().await?;
        let first = FirstRecord::read(log, &tail, timeout).await?;
        Ok(Self { generation, tail, first })
    }

    /// Returns the digest of the first record, which distinguishes logs of the same generation.
    pub(crate) fn first_digest(&self) -> Option<RecordDigest> {
        self.first.as_ref().map(|first| first.digest)
    }

    /// Returns the digest that the first record states for the manifest with this key.
    fn digest_of(&self, key: &str) -> Option<[u8; 32]> {
        let record = &self.first.as_ref()?.record;
        (record.manifest_key == key).then_some(record.manifest_digest)
    }

    /// Whether the log may continue a snapshot with this name: it is of this generation, or the first record names it.
    fn may_continue(&self, key: &ManifestKey) -> bool {
        let is_first = |first: &FirstRecord| first.record.manifest_key == key.key;
        key.generation == self.generation || self.first.as_ref().is_some_and(is_first)
    }

    /// Finds the position in the log after which a snapshot is continued, or the reason why there is none. The
    /// generation may start with a snapshot that was made in the previous generation.
    fn find_position(&self, manifest: &Manifest) -> Result<RecordPosition, String> {
        let generation = self.generation;
        if let Some(FirstRecord { record, .. }) = &self.first
            && record.manifest_key == manifest.key()
        {
            let number = record.block.number;
            return Ok(RecordPosition {
                generation,
                sequence: 0,
                number,
                digest: record.block_digest,
            });
        }
        let sequence = manifest.position;
        let Tail { first, last, .. } = self.tail;
        if manifest.generation != generation {
            return Err(format!(
                "it is of generation {}, the log is at {generation}",
                manifest.generation
            ));
        }
        if sequence > last {
            return Err(format!("it is of message {sequence}, and the log ends at {last}"));
        }
        if first > sequence + 1 {
            return Err(format!("it is of message {sequence}, and the log begins at {first}"));
        }
        let number = manifest.block.number;
        Ok(RecordPosition { generation, sequence, number, digest: manifest.block_digest })
    }
}

impl SnapshotSources {
    /// Returns the newest generation that has records: the generation before one without any continues meanwhile. The
    /// records of generations up to `known` are not requested.
    ///
    /// # Errors
    ///
    /// The log cannot be reached.
    pub(crate) async fn newest_generation(
        &self,
        known: Option<u64>,
    ) -> Result<Option<u64>, LogError> {
        let created = self.space.newest_generation().await?;
        let is_new = |newest: &u64| known.is_none_or(|known| *newest > known);
        let Some(newest) = created.filter(is_new) else { return Ok(created) };
        let oldest = known.map_or(0, |known| known.saturating_add(1));
        let mut generations = NewestGenerations::new(&*self.space, oldest, newest);
        let opened = generations.open_next().await?;
        Ok(opened.map(|opened| opened.generation).or(known))
    }

    /// Finds the snapshots from which the log can be read on, the newest first. Those at or below `above` are left out.
    /// Also returns why others are not used.
    pub(crate) async fn find_usable(
        &self,
        cluster: &str,
        extent: &LogExtent,
        above: Option<Slot>,
    ) -> FoundSnapshots {
        let mut found = FoundSnapshots::default();
        let stores = [(self.cache.as_ref(), true), (Some(&self.depot), false)];
        for (store, is_cached) in stores {
            let Some(store) = store else { continue };
            let keys = match cluster_snapshot::newest_snapshots(store, cluster).await {
                Ok(keys) => keys,
                Err(err) => {
                    found.reasons.push(error_text(&err));
                    continue;
                }
            };
            // Those of another generation must not hide the ones of this generation.
            let (keys, others): (Vec<_>, Vec<_>) =
                keys.into_iter().partition(|key| extent.may_continue(key));
            for ManifestKey { key, generation, .. } in others.into_iter().take(TRIED_MAX) {
                let text = format!(
                    "{key}: it is of generation {generation}, the log is at {}",
                    extent.generation
                );
                found.reasons.push(text);
            }
            for key in keys.into_iter().take(TRIED_MAX) {
                if above.is_some_and(|above| key.slot <= above) {
                    found.reasons.push(format!("{}: it is not newer than the ledger", key.key));
                    break;
                }
                let usable = match load_manifest(store, &key.key, extent.digest_of(&key.key)).await
                {
                    Err(err) => {
                        let key = &key.key;
                        let err = &err as &dyn std::error::Error;
                        tracing::warn!(key, err, "a snapshot is not used");
                        Err(error_text(err))
                    }
                    Ok(manifest) => self.find_bank(&manifest, extent).map(|bank| {
                        let depot = store.clone();
                        UsableSnapshot { manifest, bank, depot, is_cached }
                    }),
                };
                match usable {
                    Ok(usable) => found.usable.push(usable),
                    Err(reason) => found.reasons.push(format!("{}: {reason}", key.key)),
                }
            }
        }
        // The sort is stable, so of two equal ones the copy is first.
        found.usable.sort_by_key(|it| std::cmp::Reverse(it.manifest.block.slot));
        found
    }

    /// Returns the bank of a snapshot at its position in the log, or why the snapshot is not used.
    fn find_bank(&self, manifest: &Manifest, extent: &LogExtent) -> Result<SnapshotBank, String> {
        let position = extent.find_position(manifest)?;
        let bank = SnapshotBank::new(manifest, position).map_err(|err| err.to_string())?;
        if bank.level < self.level_min {
            let found = level_name(bank.level);
            let needed = level_name(self.level_min);
            return Err(format!(
                "its ingester requires the level {found}, and {needed} is needed here (--verify-min)"
            ));
        }
        Ok(bank)
    }
}

/// The snapshots that were found.
#[derive(Default)]
pub(crate) struct FoundSnapshots {
    pub(crate) usable: Vec<UsableSnapshot>,
    /// Why others are not used.
    pub(crate) reasons: Vec<String>,
}

impl FoundSnapshots {
    /// The reasons as one text.
    pub(crate) fn reasons_text(&self) -> String {
        match self.reasons.is_empty() {
            true => "there is none".to_owned(),
            false => self.reasons.join("; "),
        }
    }
}

impl UsableSnapshot {
    /// Loads the accounts into a new ledger.
    pub(crate) async fn load(&self, config: &ReplicaConfig) -> Result<BulkLoader, SnapshotFault> {
        let ledger = config.ledger.clone();
        let mut manifest = self.manifest.clone();
        // The root has the name that the log gives it.
        manifest.fields.block.id = self.bank.id();
        Ok(load_snapshot_parts(&self.depot, &manifest, ledger, config.load_threads).await?)
    }

    /// Compares the accounts with a running ledger. Returns those that differ.
    ///
    /// Memory: the accounts that differ, and some parts. Cost: a lookup of each account of both.
    pub(crate) async fn compare(
        &self,
        config: &ReplicaConfig,
        view: View,
        reader: Reader,
        status: &ReplicaStatus,
    ) -> Result<Vec<AccountAfter>, SnapshotFault> {
        let gauge = Arc::clone(&status.changes_bytes);
        let bytes_max = config.changes_bytes_max;
        let mut changes = ArchiveChanges::new(view, reader, true, bytes_max, gauge);
        let entries = self.manifest.parts.clone();
        let parts = entries.into_iter().map(|entry| fetch_part(self.depot.clone(), entry));
        let mut parts = stream::iter(parts).buffer_unordered(config.load_threads.max(1));
        let mut sums = PartSums::default();
        while let Some(part) = parts.next().await {
            let part = part?;
            sums.add(&part);
            let loaded = part.accounts.into_iter().map(|it| (it.pubkey, Some(it.account.0)));
            changes.put(loaded.collect())?;
        }
        sums.check(&self.manifest)?;
        // It looks at all accounts of the ledger, which takes minutes for a large one.
        Ok(run_on_thread(|| changes.into_changes()).await??)
    }
}

/// Runs work on a thread of its own. If the caller is dropped, the thread ends with the work, and nothing waits for it: a
/// runtime would wait for its blocking tasks when the program ends.
async fn run_on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SnapshotFault> {
    let (done, received) = oneshot::channel();
    let thread = std::thread::Builder::new().name("replica-compare".into());
    thread.spawn(move || {
        // The caller may have ended.
        let _ = done.send(work());
    })?;
    Ok(received.await?)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use futures_util::FutureExt;
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn nothing_waits_for_the_thread_of_a_dropped_comparison() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let (started, is_started) = sync_channel::<()>(1);
        let (release, is_released) = sync_channel::<()>(1);
        let (ended, is_ended) = sync_channel::<()>(1);
        let compared = run_on_thread(move || {
            started.send(()).expect("the test waits");
            is_released.recv().expect("the test waits");
            ended.send(()).expect("the test waits");
        });
        runtime.block_on(async {
            let mut compared = std::pin::pin!(compared);
            assert!(compared.as_mut().now_or_never().is_none(), "it waits for the test");
            is_started.recv().expect("it runs");
        });
        drop(runtime);
        release.send(()).expect("it waits");
        is_ended.recv().expect("it ends by itself");
    }
}
