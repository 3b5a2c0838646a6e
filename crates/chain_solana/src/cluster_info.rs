//! The properties of a cluster and of this node that never change while it runs.
//!
//! Not here: properties that change (`cluster`).

use std::net::SocketAddr;
use std::sync::Arc;

use ledger::Slot;
use solana_epoch_schedule::EpochSchedule;
use solana_feature_set::FeatureSet;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

/// Properties that are fixed at genesis or at start.
#[derive(Clone, Debug)]
pub struct ClusterInfo {
    /// The hash that identifies the ledger and the cluster.
    pub genesis_hash: Hash,
    /// Creation time of the cluster in seconds since 1970.
    pub genesis_unix_timestamp: i64,
    /// The public key that identifies this node.
    pub identity: Pubkey,
    /// The lengths of the cluster's epochs.
    pub epoch_schedule: EpochSchedule,
    /// Lamports that each signature costs: a constant of Agave, whatever the fee rate in genesis is.
    pub lamports_per_signature: u64,
    /// Milliseconds of a slot at start; 0 if every transaction has its own block. `Cluster::slot_ms` has the current
    /// value.
    pub slot_ms: u64,
    /// The first slot of this node's ledger.
    pub first_slot: Slot,
    /// Derived from the genesis hash, as in gossip.
    pub shred_version: u16,
    /// Identifies the features that the node supports, active or not, as in `getVersion`.
    pub feature_set: u32,
    /// The features that were active at start. `Cluster::features` has the current ones.
    pub features: Arc<FeatureSet>,
    /// The address of JSON-RPC. If it is unspecified, clients get the one that they reached
    /// ([`crate::reachable_address`]). This also applies to `pubsub` and `tpu`.
    pub rpc: Option<SocketAddr>,
    /// The address of PubSub over WebSocket.
    pub pubsub: Option<SocketAddr>,
    /// The address that receives transactions over QUIC.
    pub tpu: Option<SocketAddr>,
}
