//! Snapshots of the own ledger: the one that a new generation starts with, and one of a running generation if replicas
//! write none.
//!
//! Output: a manifest in the store of the cluster. Cost: one pass over all accounts. The ledger's writer does not
//! wait.
//! Not here: when a snapshot is written (`plan`, `upkeep`).

use std::sync::Arc;
use std::time::Duration;

use chain_solana::wire::{BlockKey, BlockName};
use chain_solana::{Block, BlockInfo, Reader, View};
use cluster_snapshot::{
    Manifest, ManifestFields, ManifestKey, RemovalRules, SnapshotFacts, SnapshotLoadError,
    SnapshotWriteError, WriteLimits, load_manifest, newest_snapshots, remove_old_snapshots,
    write_snapshot,
};
use depot::{Depot, DepotError};
use ledger::{BlockId, Commitment, Slot};
use parking_lot::Mutex;
use snapshot_solana::stored_rows::{BankRow, ChainRow, EPOCHS_STORED};
use stakes_solana::epoch_stakes;

use crate::config::ChainFacts;
use crate::plan::{FoundSnapshots, LoggedBlock, SnapshotRequest, ViewBlock, WrittenSnapshot};

/// Nanoseconds of a slot of a ledger that makes a block for each transaction.
const NS_PER_SLOT_DEFAULT: u128 = 400_000_000;
/// Snapshots of the newest generation that are retained.
const SNAPSHOTS_RETAINED: usize = 3;

/// Why a snapshot was not written or not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LedgerSnapshotError {
    /// No view of the block is retained. It is tried again with a newer one.
    #[error("no view of slot {requested} is retained")]
    NoView { requested: Slot },
    /// Whether the cluster is of the own chain cannot be said.
    #[error(
        "none of the {damaged} snapshots of {cluster} can be read, so its chain is unknown: remove them, or choose \
         another --log-cluster"
    )]
    Unreadable { damaged: usize, cluster: String },
    #[error(transparent)]
    Write(#[from] SnapshotWriteError),
    #[error(transparent)]
    Depot(#[from] DepotError),
}

/// Writes snapshots of a ledger into the store of its cluster. Clones share the retained view.
#[derive(Clone)]
pub(crate) struct LedgerSnapshots {
    pub(crate) cluster: String,
    pub(crate) depot: Depot,
    pub(crate) reader: Reader,
    pub(crate) chain: ChainFacts,
    /// The view that the snapshot of the next generation is of.
    pub(crate) retained: Arc<Mutex<Option<View>>>,
}

/// The newest intact snapshot from which readers can follow a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsableSnapshot {
    pub(crate) generation: u64,
    pub(crate) slot: Slot,
    /// Sequence of the last message of the block's record; 0 if the generation starts with the snapshot.
    pub(crate) position: u64,
    pub(crate) made_at_ms: u64,
}

impl LedgerSnapshots {
    /// Returns the chain and the generations of the cluster's snapshots, or `None` if the store has none.
    pub(crate) async fn find_snapshots(
        &self,
    ) -> Result<Option<FoundSnapshots>, LedgerSnapshotError> {
        find_snapshots(&self.depot, &self.cluster).await
    }

    /// Returns the final view.
    pub(crate) fn final_view(&self) -> View {
        self.reader.view(Commitment::Finalized)
    }

    /// Retains the final view until [`Self::write_opening`]. Replaces an earlier one.
    pub(crate) fn retain_view(&self) -> ViewBlock {
        let view = self.final_view();
        let block = ViewBlock { id: view.block(), key: view_key(&view) };
        *self.retained.lock() = Some(view);
        block
    }

    /// Writes the snapshot that a generation starts with, of the retained view. Fails if that is not of the requested
    /// block.
    pub(crate) async fn write_opening(
        &self,
        request: SnapshotRequest,
        unix_ms: u64,
    ) -> Result<WrittenSnapshot, LedgerSnapshotError> {
        let SnapshotRequest { generation, block, number, block_digest } = request;
        let view = self.retained.lock().take().filter(|view| view.block() == block);
        let view = view.ok_or(LedgerSnapshotError::NoView { requested: block.slot })?;
        if let Some(manifest) = self.find_opening(generation, &view).await? {
            tracing::info!(
                generation,
                slot = block.slot,
                "an existing snapshot opens the generation"
            );
            return Ok(describe_manifest(&manifest));
        }
        let logged = LoggedBlock {
            generation,
            position: 0,
            name: BlockName { slot: block.slot, number },
            digest: block_digest,
        };
        Ok(describe_manifest(&self.write(&view, logged, unix_ms).await?))
    }

    /// Writes a snapshot of a block of a running generation.
    pub(crate) async fn write(
        &self,
        view: &View,
        block: LoggedBlock,
        unix_ms: u64,
    ) -> Result<Manifest, LedgerSnapshotError> {
        let LoggedBlock { generation, position, name, digest } = block;
        let facts = SnapshotFacts {
            cluster: self.cluster.clone(),
            generation,
            position,
            block: name,
            block_digest: digest,
            fields: self.fields(view, name.number),
            made_at_ms: unix_ms,
        };
        Ok(write_snapshot(&self.depot, view, facts, WriteLimits::default()).await?)
    }

    /// Returns the snapshot of this view that was written for a generation which has no records: by this process before
    /// it was started again, or by another ingester.
    async fn find_opening(
        &self,
        generation: u64,
        view: &View,
    ) -> Result<Option<Manifest>, LedgerSnapshotError> {
        let BlockKey { slot, blockhash } = view_key(view);
        let keys = newest_snapshots(&self.depot, &self.cluster).await?;
        let is_it = |key: &ManifestKey| {
            key.generation == generation && key.slot == slot && key.blockhash == blockhash
        };
        let Some(key) = keys.into_iter().find(is_it) else { return Ok(None) };
        Ok(load_intact(&self.depot, &key.key).await?)
    }

    /// Returns the newest snapshot of a generation from which a replica can follow it. `first` is its oldest message.
    pub(crate) async fn find_usable(
        &self,
        generation: u64,
        first: u64,
    ) -> Result<Option<UsableSnapshot>, LedgerSnapshotError> {
        let keys = newest_snapshots(&self.depot, &self.cluster).await?;
        for key in keys.into_iter().filter(|key| key.generation == generation) {
            let Some(manifest) = load_intact(&self.depot, &key.key).await? else { continue };
            // Older ones are of earlier positions.
            let is_usable = manifest.position + 1 >= first;
            let Manifest { position, made_at_ms, .. } = manifest;
            let usable = UsableSnapshot { generation, slot: key.slot, position, made_at_ms };
            return Ok(is_usable.then_some(usable));
        }
        Ok(None)
    }

    /// Removes the snapshots that no replica needs. `first` is the oldest message of the generation. Snapshots that are
    /// younger than `retained_age` stay: a replica may be loading one.
    pub(crate) async fn remove_old(
        &self,
        generation: u64,
        first: u64,
        retained_age: Duration,
        now_ms: u64,
    ) -> Result<usize, LedgerSnapshotError> {
        let rules = RemovalRules {
            keep: SNAPSHOTS_RETAINED,
            newest_generation: generation,
            needed: Some(first),
            younger_than: retained_age,
            now_ms,
        };
        Ok(remove_old_snapshots(&self.depot, &self.cluster, &rules).await?)
    }

    fn fields(&self, view: &View, number: u64) -> ManifestFields {
        let meta = view.meta();
        let info = &self.chain.info;
        let epoch = info.epoch_schedule.get_epoch(meta.block.slot);
        let cluster = &self.chain.cluster;
        let inflation = cluster.inflation();
        // A follower knows them, and a replica has their leaders.
        let first = (epoch + 2).saturating_sub(EPOCHS_STORED as u64);
        let past = (first..epoch).filter_map(|epoch| cluster.epoch_stakes(epoch));
        let newest = [epoch, epoch + 1].map(|epoch| epoch_stakes(&**cluster, view, epoch));
        let ns_per_slot = match info.slot_ms {
            0 => NS_PER_SLOT_DEFAULT,
            ms => u128::from(ms) * 1_000_000,
        };
        ManifestFields {
            chain: ChainRow {
                genesis_hash: info.genesis_hash,
                genesis_unix_timestamp: info.genesis_unix_timestamp,
                epoch_schedule: info.epoch_schedule.clone(),
                ns_per_slot,
                lamports_per_signature: info.lamports_per_signature,
                inflation: inflation.map_or_else(Default::default, |it| *it.inflation()),
            },
            bank: BankRow {
                blockhashes: meta.blockhashes.iter().copied().collect(),
                // The sum over all accounts is computed from them.
                lattice: None,
                jump: None,
            },
            epochs: past.map(Arc::unwrap_or_clone).chain(newest).collect(),
            block: self.block(meta, number),
            unix_timestamp: meta.unix_timestamp,
            capitalization: meta.capitalization,
            level: self.chain.level,
        }
    }

    /// The block of a view, with the number of its record.
    fn block(&self, meta: &BlockInfo, number: u64) -> Block {
        let history = self.chain.history.snapshot();
        let stored = history.block(meta.block.slot, Commitment::Finalized);
        let previous = meta.blockhashes.iter().nth_back(1).copied().unwrap_or_default();
        Block {
            id: BlockId { slot: meta.block.slot, version: number },
            parent: BlockId { slot: meta.parent.slot, version: 0 },
            block_height: meta.block_height,
            blockhash: meta.last_blockhash(),
            previous_blockhash: stored.map_or(previous, |block| block.previous_blockhash),
            bank_hash: meta.bank_hash,
            hash_components: meta.hash_components,
            block_time: stored.map_or(meta.unix_timestamp, |block| block.block_time),
            transaction_count: meta.transaction_count,
            transactions: Vec::new(),
            rewards: Vec::new(),
            reward_partitions: stored.and_then(|block| block.reward_partitions),
            entries: Vec::new(),
            writes: Vec::new(),
        }
    }
}

/// Returns the name of the block of a view.
pub(crate) fn view_key(view: &View) -> BlockKey {
    BlockKey { slot: view.block().slot, blockhash: view.meta().last_blockhash() }
}

/// Reads a manifest. Returns `None` if it was removed, or is damaged.
async fn load_intact(depot: &Depot, key: &str) -> Result<Option<Manifest>, DepotError> {
    match load_manifest(depot, key, None).await {
        Ok(manifest) => Ok(Some(manifest)),
        Err(SnapshotLoadError::Depot(DepotError::NotFound { .. })) => Ok(None),
        Err(SnapshotLoadError::Depot(err)) => Err(err),
        Err(err) => {
            tracing::warn!(%err, "a snapshot is damaged");
            Ok(None)
        }
    }
}

/// Returns the chain and the generations of a cluster's snapshots, or `None` if the store has none. Fails if it has
/// damaged ones only: the cluster is not new, and its chain is not known.
async fn find_snapshots(
    depot: &Depot,
    cluster: &str,
) -> Result<Option<FoundSnapshots>, LedgerSnapshotError> {
    let keys = newest_snapshots(depot, cluster).await?;
    let newest_generation = keys.iter().map(|key| key.generation).max().unwrap_or(0);
    let damaged = keys.len();
    for key in keys {
        if let Some(manifest) = load_intact(depot, &key.key).await? {
            return Ok(Some(FoundSnapshots {
                genesis_hash: manifest.fields.chain.genesis_hash,
                newest_generation,
                // The snapshot that opens a generation is written before the generation exists.
                logged_generation: (manifest.position > 0).then_some(manifest.generation),
            }));
        }
    }
    match damaged {
        0 => Ok(None),
        _ => Err(LedgerSnapshotError::Unreadable { damaged, cluster: cluster.to_owned() }),
    }
}

fn describe_manifest(manifest: &Manifest) -> WrittenSnapshot {
    WrittenSnapshot {
        number: manifest.block.number,
        block_digest: manifest.block_digest,
        manifest_key: manifest.key(),
        manifest_digest: manifest.digest(),
    }
}

#[cfg(test)]
mod tests {
    use cluster_snapshot::MANIFEST_BYTES_MAX;
    use depot::DepotConfig;

    use super::*;

    #[tokio::test]
    async fn damaged_snapshots_are_not_those_of_a_new_cluster() {
        let depot = Depot::open("memory:", &DepotConfig::default()).expect("a store in memory");
        assert_eq!(find_snapshots(&depot, "test").await.expect("no snapshots"), None);
        let blockhash = solana_hash::Hash::new_from_array([7; 32]);
        let key = format!("snap/test/{:020}-{:010}-{blockhash}/manifest", 42, 3);
        depot.put_new(&key, "damaged".into()).await.expect("it is stored");
        let err = find_snapshots(&depot, "test").await.expect_err("its chain is unknown");
        assert!(matches!(err, LedgerSnapshotError::Unreadable { damaged: 1, .. }), "{err}");
    }

    #[tokio::test]
    async fn a_manifest_that_is_too_long_does_not_end_a_search() {
        let depot = Depot::open("memory:", &DepotConfig::default()).expect("a store in memory");
        let blockhash = solana_hash::Hash::new_from_array([7; 32]);
        let key = format!("snap/test/{:020}-{:010}-{blockhash}/manifest", 42, 3);
        let body = vec![0; MANIFEST_BYTES_MAX + 1];
        depot.put_new(&key, body.into()).await.expect("it is stored");
        let found = load_intact(&depot, &key).await.expect("the store is intact");
        assert!(found.is_none(), "it is damaged");
    }
}
