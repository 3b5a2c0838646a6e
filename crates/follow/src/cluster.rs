//! The cluster of a followed chain: its fixed properties, and its leaders, stakes, nodes and inflation, for servers.
//!
//! In: the snapshot's fields, the ledger's accounts, one fact of an upstream. The writer publishes stakes and leaders
//! (`cluster_tracker`), and `nodes` the nodes.
//! Bounds: those of the two. A reader loads one pointer.
//! Invariant: nothing is guessed. An unknown value is `None`.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use chain_solana::{
    Cluster, ClusterInfo, ClusterNode, InflationSchedule, LeaderSchedule, Reader, View, VoteStakes,
};
use http_client::{Client, Endpoint, HttpClientError, shorten_message};
use ledger::{BlockId, Commitment, Slot};
use parking_lot::RwLock;
use serde_json::json;
use snapshot_solana::BankFields;
use solana::EpochStakes;
use solana_clock::Epoch;
use solana_feature_set::FeatureSet;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;
use svm::{AccountSource, LAMPORTS_PER_SIGNATURE};

use crate::error::FollowError;

/// Bytes of an upstream's response: a hash, or an error.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// Facts that only an upstream knows.
#[derive(Clone, Debug)]
pub struct UpstreamFacts {
    /// Hash of the genesis configuration.
    pub genesis_hash: Hash,
}

impl UpstreamFacts {
    /// Requests them from an upstream's RPC. It blocks.
    pub fn request(upstream: &Endpoint) -> Result<Self, HttpClientError> {
        let mut client = Client::open_with_body_limit(upstream.clone(), RESPONSE_BYTES_MAX)?;
        let genesis = client.call("getGenesisHash", &json!([]))?;
        let genesis_hash = genesis.as_str().and_then(|text| Hash::from_str(text).ok());
        let genesis_hash = genesis_hash.ok_or_else(|| HttpClientError::Call {
            method: "getGenesisHash".into(),
            error: shorten_message(&format!("no hash: {genesis}")),
        })?;
        Ok(Self { genesis_hash })
    }
}

/// Returns the constant properties of the cluster of a snapshot. `identity` is this node's own.
pub fn cluster_info(
    fields: &BankFields,
    reader: &Reader,
    upstream: &UpstreamFacts,
    identity: Pubkey,
) -> Result<ClusterInfo, FollowError> {
    let view = reader.view(Commitment::Finalized);
    let features = svm::features::activated_in(&view);
    if view.account(&sysvar::rent::ID).is_none() {
        return Err(FollowError::Incomplete("rent sysvar"));
    }
    let epoch_schedule = fields.epoch_schedule.clone();
    Ok(ClusterInfo {
        genesis_hash: upstream.genesis_hash,
        genesis_unix_timestamp: fields.genesis_unix_timestamp,
        identity,
        epoch_schedule,
        lamports_per_signature: LAMPORTS_PER_SIGNATURE,
        slot_ms: slot_ms(fields),
        first_slot: fields.slot,
        shred_version: chain_solana::shred_version(&upstream.genesis_hash),
        feature_set: chain_solana::feature_set(),
        features: Arc::new(features),
        rpc: None,
        pubsub: None,
        tpu: None,
    })
}

/// Returns the milliseconds of a slot at the snapshot's block.
pub(crate) fn slot_ms(fields: &BankFields) -> u64 {
    u64::try_from(fields.ns_per_slot / 1_000_000).unwrap_or(u64::MAX)
}

/// The stakes, the voters and the leaders of an epoch.
#[derive(Clone)]
pub(crate) struct PublishedEpoch {
    pub(crate) stakes: Arc<EpochStakes>,
    pub(crate) voters: Arc<VoteStakes>,
    pub(crate) leaders: Option<Arc<LeaderSchedule>>,
}

/// The state that the writer publishes.
#[derive(Clone)]
pub(crate) struct Published {
    /// The stakes of the banks above the root, of the root, and of some below it.
    pub(crate) stakes: BTreeMap<BlockId, Arc<VoteStakes>>,
    pub(crate) epochs: BTreeMap<Epoch, PublishedEpoch>,
    pub(crate) inflation: Arc<InflationSchedule>,
    pub(crate) features: Arc<FeatureSet>,
    /// Milliseconds of a slot at the newest snapshot's block.
    pub(crate) slot_ms: u64,
}

/// Counters that the producer of a ledger shares with its cluster.
#[derive(Debug, Default)]
pub struct ClusterCounters {
    /// Slot of the processed tip.
    pub processed: AtomicU64,
    /// The newest slot with a shred that a source has seen; 0 if none has said so.
    pub shred_slot: AtomicU64,
    /// Estimated bytes of stakes and leaders.
    pub bytes: AtomicU64,
}

/// The cluster of a followed chain, for servers.
pub struct FollowedCluster {
    pub(crate) published: ArcSwap<Published>,
    nodes: RwLock<Option<Arc<[ClusterNode]>>>,
    counters: Arc<ClusterCounters>,
}

impl FollowedCluster {
    pub(crate) fn new(published: Published, counters: Arc<ClusterCounters>) -> Self {
        let published = ArcSwap::from_pointee(published);
        Self { published, nodes: RwLock::default(), counters }
    }

    pub(crate) fn set_nodes(&self, nodes: Vec<ClusterNode>) {
        *self.nodes.write() = Some(nodes.into());
    }
}

impl Cluster for FollowedCluster {
    fn leaders(&self, epoch: Epoch) -> Option<Arc<LeaderSchedule>> {
        self.published.load().epochs.get(&epoch)?.leaders.clone()
    }

    fn stakes(&self, view: &View) -> Option<Arc<VoteStakes>> {
        self.published.load().stakes.get(&view.block()).cloned()
    }

    fn voters(&self, epoch: Epoch) -> Option<Arc<VoteStakes>> {
        Some(Arc::clone(&self.published.load().epochs.get(&epoch)?.voters))
    }

    fn epoch_stakes(&self, epoch: Epoch) -> Option<Arc<EpochStakes>> {
        Some(Arc::clone(&self.published.load().epochs.get(&epoch)?.stakes))
    }

    fn newest_shred_slot(&self) -> Option<Slot> {
        Some(self.counters.shred_slot.load(Ordering::Relaxed)).filter(|slot| *slot > 0)
    }

    fn nodes(&self) -> Option<Arc<[ClusterNode]>> {
        self.nodes.read().clone()
    }

    fn inflation(&self) -> Option<Arc<InflationSchedule>> {
        Some(Arc::clone(&self.published.load().inflation))
    }

    fn features(&self) -> Arc<FeatureSet> {
        Arc::clone(&self.published.load().features)
    }

    fn slot_ms(&self) -> u64 {
        let published = self.published.load();
        let newest = self.counters.processed.load(Ordering::Relaxed);
        published.inflation.shortened_slot_ms(newest).unwrap_or(published.slot_ms)
    }
}
