//! The properties of a cluster that change while it runs: leaders, stakes, nodes, inflation, features, slot time.
//!
//! Out: the facts that a server reports about the cluster. A localnet knows all of them. A follower computes leaders
//! from the stakes of epochs, and gets the nodes from an upstream. A fact that it cannot know is `None`, and a server
//! reports that as an error. Nothing is guessed.
//! Bounds: the implementation's. A call returns shared data, and does not block.
//! Not here: properties that never change (`cluster_info`), accounts and blocks.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ledger::{Address, Slot};
use solana::EpochStakes;
use solana_account::ReadableAccount;
use solana_clock::Epoch;
use solana_feature_set::FeatureSet;
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_sdk_ids::sysvar;

use crate::{InflationSchedule, LeaderSchedule, View};

/// The stake in lamports of each vote account that has some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoteStakes(pub HashMap<Pubkey, u64>);

impl From<&EpochStakes> for VoteStakes {
    fn from(stakes: &EpochStakes) -> Self {
        Self(stakes.voters.iter().map(|voter| (voter.vote_account, voter.stake)).collect())
    }
}

impl VoteStakes {
    /// Returns the stake of a vote account in lamports; 0 for an unknown one.
    pub fn stake(&self, vote_account: &Pubkey) -> u64 {
        self.0.get(vote_account).copied().unwrap_or(0)
    }

    /// Returns the bytes in use by the map.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<(Pubkey, u64)>()
    }

    /// Returns the stake of all vote accounts in lamports.
    pub fn total(&self) -> u64 {
        self.0.values().fold(0, |total, stake| total.saturating_add(*stake))
    }
}

/// A node of the cluster, as gossip describes it. Unknown fields are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNode {
    /// The public key that identifies the node.
    pub identity: Pubkey,
    /// The address of gossip over UDP.
    pub gossip: Option<SocketAddr>,
    /// Shreds from other validators over UDP.
    pub tvu: Option<SocketAddr>,
    /// The address for transactions over UDP.
    pub tpu: Option<SocketAddr>,
    /// The address for transactions over QUIC.
    pub tpu_quic: Option<SocketAddr>,
    /// Forwarded transactions over UDP.
    pub tpu_forwards: Option<SocketAddr>,
    /// Forwarded transactions over QUIC.
    pub tpu_forwards_quic: Option<SocketAddr>,
    /// The address for votes over UDP.
    pub tpu_vote: Option<SocketAddr>,
    /// Requests for missing shreds over UDP.
    pub serve_repair: Option<SocketAddr>,
    /// The address of JSON-RPC over HTTP.
    pub rpc: Option<SocketAddr>,
    /// The address of PubSub over WebSocket.
    pub pubsub: Option<SocketAddr>,
    /// The release. `None` for this node: its server adds it.
    pub version: Option<String>,
    /// The name of the program. `None` for this node: its server adds it.
    pub client_id: Option<String>,
    /// The features that the node supports.
    pub feature_set: Option<u32>,
    /// The shred version, derived from the genesis hash.
    pub shred_version: Option<u16>,
}

/// Returns the rent parameters of a state. Features change them.
pub fn read_rent(view: &View) -> Rent {
    let account = view.record(&Address::from(sysvar::rent::ID.to_bytes()));
    account.and_then(|account| bincode::deserialize(account.0.data()).ok()).unwrap_or_default()
}

/// The changing properties of a cluster. `None` means unknown.
pub trait Cluster: Send + Sync {
    /// Returns the leaders of an epoch.
    fn leaders(&self, epoch: Epoch) -> Option<Arc<LeaderSchedule>>;

    /// Returns the stake that counts for each vote account in the epoch of `view`.
    fn stakes(&self, view: &View) -> Option<Arc<VoteStakes>>;

    /// Returns the vote accounts that had stake when the leaders of an epoch were determined. Unknown for a localnet,
    /// which has one leader.
    fn voters(&self, _epoch: Epoch) -> Option<Arc<VoteStakes>> {
        None
    }

    /// Returns the stakes of an epoch, with the identities and voters that counted when its leaders were determined.
    /// Unknown for a localnet.
    fn epoch_stakes(&self, _epoch: Epoch) -> Option<Arc<EpochStakes>> {
        None
    }

    /// Returns the newest slot for which a shred has arrived. Unknown without shreds.
    fn newest_shred_slot(&self) -> Option<Slot> {
        None
    }

    /// Returns the nodes, this one included if it is a member.
    fn nodes(&self) -> Option<Arc<[ClusterNode]>>;

    /// Returns the rates of inflation by epoch.
    fn inflation(&self) -> Option<Arc<InflationSchedule>>;

    /// Returns the features that are active at the newest start of an epoch.
    fn features(&self) -> Arc<FeatureSet>;

    /// Returns the intended milliseconds of the newest slot; 0 if every transaction has its own block.
    fn slot_ms(&self) -> u64;
}
