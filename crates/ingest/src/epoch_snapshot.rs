//! The snapshot that a new epoch starts with, and the chain of the newest one.
//!
//! Output: a manifest in the store of the cluster. Cost: one pass over all accounts. The ledger's writer does not
//! wait.
//! Not here: snapshots of running epochs. Replicas write those.

use std::sync::Arc;

use chain_solana::wire::BlockName;
use chain_solana::{Block, BlockInfo, Reader, View, VoteStakes};
use cluster_snapshot::{
    ManifestFields, SnapshotFacts, SnapshotLoadError, SnapshotWriteError, WriteLimits,
    load_manifest, newest_snapshots, write_snapshot,
};
use depot::{Depot, DepotError};
use futures_util::future::BoxFuture;
use ledger::{Address, BlockId, Commitment, Slot};
use parking_lot::Mutex;
use snapshot_solana::stored_rows::{BankRow, ChainRow};
use solana::{EpochStakes, EpochVoter};
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_vote_interface::state::VoteStateV4;

use crate::config::ChainFacts;
use crate::log_chain::BlockKey;
use crate::plan::{SnapshotRequest, ViewBlock, WrittenSnapshot};

/// Nanoseconds of a slot of a ledger that makes a block for each transaction.
const NS_PER_SLOT_DEFAULT: u128 = 400_000_000;

/// Why a snapshot was not written or not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EpochSnapshotError {
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
    #[error(transparent)]
    Load(#[from] SnapshotLoadError),
}

/// The snapshots of a cluster.
pub(crate) trait EpochSnapshots: Send + Sync {
    /// Returns the genesis hash of the newest snapshot, or `None` if the store has none.
    fn genesis_hash(&self) -> BoxFuture<'static, Result<Option<Hash>, EpochSnapshotError>>;

    /// Retains the final view until [`Self::write`], in place of an earlier one.
    fn retain_view(&self) -> ViewBlock;

    /// Writes a snapshot of the retained view. Fails if that is not of the requested block.
    fn write(
        &self,
        request: SnapshotRequest,
        unix_ms: u64,
    ) -> BoxFuture<'static, Result<WrittenSnapshot, EpochSnapshotError>>;
}

/// Snapshots of a ledger in a store.
#[derive(Clone)]
pub(crate) struct StoredSnapshots {
    pub(crate) cluster: String,
    pub(crate) depot: Depot,
    pub(crate) reader: Reader,
    pub(crate) chain: ChainFacts,
    /// The view that the next snapshot is of.
    pub(crate) view: Arc<Mutex<Option<View>>>,
}

impl EpochSnapshots for StoredSnapshots {
    fn genesis_hash(&self) -> BoxFuture<'static, Result<Option<Hash>, EpochSnapshotError>> {
        let this = self.clone();
        Box::pin(async move { newest_genesis_hash(&this.depot, &this.cluster).await })
    }

    fn retain_view(&self) -> ViewBlock {
        let view = self.reader.view(Commitment::Finalized);
        let id = view.block();
        let key = BlockKey { slot: id.slot, blockhash: view.meta().last_blockhash() };
        *self.view.lock() = Some(view);
        ViewBlock { id, key }
    }

    fn write(
        &self,
        request: SnapshotRequest,
        unix_ms: u64,
    ) -> BoxFuture<'static, Result<WrittenSnapshot, EpochSnapshotError>> {
        let this = self.clone();
        let view = self.view.lock().take().filter(|view| view.block() == request.block);
        Box::pin(async move {
            let requested = request.block.slot;
            let view = view.ok_or(EpochSnapshotError::NoView { requested })?;
            this.write_view(&view, request, unix_ms).await
        })
    }
}

/// Returns the genesis hash of the newest snapshot that can be read, or `None` if the store has none. Fails if it has
/// damaged ones only: the cluster is not new, and its chain is not known.
async fn newest_genesis_hash(
    depot: &Depot,
    cluster: &str,
) -> Result<Option<Hash>, EpochSnapshotError> {
    let mut damaged = 0;
    for found in newest_snapshots(depot, cluster).await? {
        match load_manifest(depot, &found.key, None).await {
            Ok(manifest) => return Ok(Some(manifest.fields.chain.genesis_hash)),
            Err(SnapshotLoadError::Depot(DepotError::NotFound { .. })) => {}
            Err(SnapshotLoadError::Depot(err)) => return Err(err.into()),
            Err(err) => {
                tracing::warn!(%err, "a snapshot is damaged");
                damaged += 1;
            }
        }
    }
    match damaged {
        0 => Ok(None),
        _ => Err(EpochSnapshotError::Unreadable { damaged, cluster: cluster.to_owned() }),
    }
}

impl StoredSnapshots {
    async fn write_view(
        &self,
        view: &View,
        request: SnapshotRequest,
        unix_ms: u64,
    ) -> Result<WrittenSnapshot, EpochSnapshotError> {
        let SnapshotRequest { epoch, block, number, block_digest } = request;
        let facts = SnapshotFacts {
            cluster: self.cluster.clone(),
            epoch,
            position: 0,
            block: BlockName { slot: block.slot, number },
            block_digest,
            fields: self.fields(view, number),
            made_at_ms: unix_ms,
        };
        let manifest = write_snapshot(&self.depot, view, facts, WriteLimits::default()).await?;
        Ok(WrittenSnapshot {
            number: manifest.block.number,
            block_digest: manifest.block_digest,
            manifest_key: manifest.key(),
            manifest_digest: manifest.digest(),
        })
    }

    fn fields(&self, view: &View, number: u64) -> ManifestFields {
        let meta = view.meta();
        let info = &self.chain.info;
        let epoch = info.epoch_schedule.get_epoch(meta.block.slot);
        let inflation = self.chain.cluster.inflation();
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
            epochs: [epoch, epoch + 1].map(|epoch| self.epoch_stakes(view, epoch)).into(),
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

    /// The stakes of an epoch, with the identities and voters that the vote accounts name now.
    fn epoch_stakes(&self, view: &View, epoch: u64) -> EpochStakes {
        let cluster = &self.chain.cluster;
        let stakes = cluster.voters(epoch).or_else(|| cluster.stakes(view));
        let stakes: Arc<VoteStakes> = stakes.unwrap_or_default();
        let voter = |(vote_account, stake): (&Pubkey, &u64)| {
            let account = view.record(&Address::from(vote_account.to_bytes()))?;
            let state = VoteStateV4::deserialize(account.0.data(), vote_account).ok()?;
            Some(EpochVoter {
                vote_account: *vote_account,
                node: state.node_pubkey,
                authorized_voter: state.authorized_voters.get_authorized_voter(epoch),
                stake: *stake,
            })
        };
        let staked = stakes.0.iter().filter(|(_, stake)| **stake > 0);
        let mut voters: Vec<EpochVoter> = staked.filter_map(voter).collect();
        voters.sort_unstable_by_key(|voter| voter.vote_account);
        EpochStakes { epoch, voters }
    }
}

#[cfg(test)]
mod tests {
    use depot::DepotConfig;

    use super::*;

    #[tokio::test]
    async fn damaged_snapshots_are_not_those_of_a_new_cluster() {
        let depot = Depot::open("memory:", &DepotConfig::default()).expect("a store in memory");
        assert_eq!(newest_genesis_hash(&depot, "test").await.expect("no snapshots"), None);
        let blockhash = Hash::new_from_array([7; 32]);
        let key = format!("snap/test/{:020}-{:010}-{blockhash}/manifest", 42, 3);
        depot.put_new(&key, "damaged".into()).await.expect("it is stored");
        let err = newest_genesis_hash(&depot, "test").await.expect_err("its chain is unknown");
        assert!(matches!(err, EpochSnapshotError::Unreadable { damaged: 1, .. }), "{err}");
    }
}
