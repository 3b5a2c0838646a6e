//! What is fixed in a followed cluster: from the snapshot, from the ledger's accounts, and from an upstream.

use std::str::FromStr;
use std::sync::Arc;

use chain_solana::{
    Cluster, ClusterInfo, ClusterNode, InflationSchedule, LeaderSchedule, Reader, View, VoteStakes,
};
use ledger::Commitment;
use loadgen::{Client, Endpoint, LoadError};
use serde_json::{Value, json};
use snapshot_solana::BankFields;
use solana_account::ReadableAccount;
use solana_clock::Epoch;
use solana_hash::Hash;
use solana_inflation::Inflation;
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_sdk_ids::sysvar;
use svm::{AccountSource, LAMPORTS_PER_SIGNATURE};

use crate::error::FollowError;

/// What only an upstream knows.
#[derive(Clone, Debug)]
pub struct UpstreamFacts {
    /// The hash of genesis.
    pub genesis_hash: Hash,
    /// The parameters of inflation.
    pub inflation: Inflation,
}

impl UpstreamFacts {
    /// Requests them from an upstream's RPC. It blocks.
    pub fn request(upstream: &Endpoint) -> Result<Self, LoadError> {
        let mut client = Client::open(upstream.clone())?;
        let genesis = client.call("getGenesisHash", &json!([]))?;
        let genesis_hash = genesis.as_str().and_then(|text| Hash::from_str(text).ok());
        let genesis_hash = genesis_hash.ok_or_else(|| LoadError::Call {
            method: "getGenesisHash".into(),
            error: format!("no hash: {genesis}"),
        })?;
        let governor = client.call("getInflationGovernor", &json!([]))?;
        let rate = |name: &str| governor.get(name).and_then(Value::as_f64).unwrap_or_default();
        let mut inflation = Inflation::new_disabled();
        (inflation.initial, inflation.terminal) = (rate("initial"), rate("terminal"));
        (inflation.taper, inflation.foundation) = (rate("taper"), rate("foundation"));
        inflation.foundation_term = rate("foundationTerm");
        Ok(Self { genesis_hash, inflation })
    }
}

/// What never changes, of the cluster of a snapshot. `identity` is this node's own.
pub fn cluster_info(
    fields: &BankFields,
    reader: &Reader,
    upstream: &UpstreamFacts,
    identity: Pubkey,
) -> Result<ClusterInfo, FollowError> {
    let view = reader.view(Commitment::Finalized);
    let features = svm::features::active_in(&view);
    let rent = view.account(&sysvar::rent::ID);
    let rent = rent.and_then(|account| bincode::deserialize::<Rent>(account.0.data()).ok());
    let epoch_schedule = fields.epoch_schedule.clone();
    Ok(ClusterInfo {
        genesis_hash: upstream.genesis_hash,
        genesis_unix_timestamp: fields.genesis_unix_timestamp,
        identity,
        epoch_schedule,
        rent: rent.ok_or(FollowError::Incomplete("rent sysvar"))?,
        lamports_per_signature: LAMPORTS_PER_SIGNATURE,
        slot_ms: u64::try_from(fields.ns_per_slot / 1_000_000).unwrap_or(u64::MAX),
        first_slot: fields.slot,
        shred_version: chain_solana::shred_version(&upstream.genesis_hash),
        feature_set: chain_solana::feature_set(),
        features: Arc::new(features),
        rpc: None,
        pubsub: None,
        tpu: None,
    })
}

/// A followed cluster: its inflation is an upstream's. Leaders, stakes and nodes are not known here.
pub struct FollowedCluster {
    inflation: Arc<InflationSchedule>,
}

impl FollowedCluster {
    /// The cluster of `info`, with the inflation of an upstream.
    pub fn new(info: &ClusterInfo, upstream: &UpstreamFacts) -> Self {
        let (schedule, features) = (&info.epoch_schedule, &info.features);
        let inflation = InflationSchedule::new(upstream.inflation, schedule, features);
        Self { inflation: Arc::new(inflation) }
    }
}

impl Cluster for FollowedCluster {
    fn leaders(&self, _: Epoch) -> Option<Arc<LeaderSchedule>> {
        None
    }

    fn stakes(&self, _: &View) -> Option<Arc<VoteStakes>> {
        None
    }

    fn nodes(&self) -> Option<Arc<[ClusterNode]>> {
        None
    }

    fn inflation(&self) -> Option<Arc<InflationSchedule>> {
        Some(Arc::clone(&self.inflation))
    }
}
