//! The facts of a cluster and of this node in it that never change while it runs.

use std::net::SocketAddr;
use std::sync::Arc;

use ledger::Slot;
use solana_epoch_schedule::EpochSchedule;
use solana_feature_set::FeatureSet;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_rent::Rent;

use crate::InflationSchedule;

/// What was fixed at genesis or at start.
#[derive(Clone, Debug)]
pub struct ClusterInfo {
    /// Names the ledger; clients tell clusters apart by it.
    pub genesis_hash: Hash,
    /// Seconds since 1970.
    pub genesis_unix_timestamp: i64,
    /// This node's identity.
    pub identity: Pubkey,
    /// The vote account of this node's validator.
    pub vote_account: Pubkey,
    /// Which account pays airdrops.
    pub faucet: Pubkey,
    /// How slots make epochs.
    pub epoch_schedule: EpochSchedule,
    /// How fast lamports are made.
    pub inflation: InflationSchedule,
    /// What an account must hold to stay.
    pub rent: Rent,
    /// Lamports that each signature costs.
    pub lamports_per_signature: u64,
    /// Milliseconds of a slot; 0 if every transaction makes a block of its own.
    pub slot_ms: u64,
    /// The slot this node's ledger began with.
    pub first_slot: Slot,
    /// Derived from the genesis hash, as gossip has it.
    pub shred_version: u16,
    /// Identifies the features that the node knows, active or not, as `getVersion` has it.
    pub feature_set: u32,
    /// The features that are active in the ledger.
    pub features: Arc<FeatureSet>,
    /// Where JSON-RPC is served.
    pub rpc: Option<SocketAddr>,
    /// Where PubSub is served.
    pub pubsub: Option<SocketAddr>,
    /// Where transactions are taken over QUIC.
    pub tpu: Option<SocketAddr>,
}
