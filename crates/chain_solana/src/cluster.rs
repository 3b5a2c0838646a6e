//! What changes in a cluster while it runs: leaders, stakes, nodes, inflation.
//!
//! Out: what a server reports about the cluster. A localnet knows all of it. A follower computes leaders from the stakes
//! of epochs, and gets the nodes from an upstream; what it cannot know is `None`, and a server reports
//! that as an error. Nothing is guessed.
//! Bounds: the implementation's. A call returns shared data, and does not block.
//! Not here: what never changes (`cluster_info`), accounts and blocks.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ledger::Slot;
use solana::EpochStakes;
use solana_clock::Epoch;
use solana_pubkey::Pubkey;

use crate::{InflationSchedule, LeaderSchedule, View};

/// The stake of each vote account that has some, in lamports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoteStakes(pub HashMap<Pubkey, u64>);

impl From<&EpochStakes> for VoteStakes {
    fn from(stakes: &EpochStakes) -> Self {
        Self(stakes.voters.iter().map(|voter| (voter.vote_account, voter.stake)).collect())
    }
}

impl VoteStakes {
    /// The stake of a vote account.
    pub fn of(&self, vote_account: &Pubkey) -> u64 {
        self.0.get(vote_account).copied().unwrap_or(0)
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<(Pubkey, u64)>()
    }

    /// The stake of all vote accounts.
    pub fn total(&self) -> u64 {
        self.0.values().fold(0, |total, stake| total.saturating_add(*stake))
    }
}

/// A node of the cluster, as gossip describes it. What is unknown is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNode {
    /// The node's identity.
    pub identity: Pubkey,
    /// Gossip over UDP.
    pub gossip: Option<SocketAddr>,
    /// Shreds from other validators over UDP.
    pub tvu: Option<SocketAddr>,
    /// Transactions over UDP.
    pub tpu: Option<SocketAddr>,
    /// Transactions over QUIC.
    pub tpu_quic: Option<SocketAddr>,
    /// Forwarded transactions over UDP.
    pub tpu_forwards: Option<SocketAddr>,
    /// Forwarded transactions over QUIC.
    pub tpu_forwards_quic: Option<SocketAddr>,
    /// Votes over UDP.
    pub tpu_vote: Option<SocketAddr>,
    /// Requests for missing shreds over UDP.
    pub serve_repair: Option<SocketAddr>,
    /// JSON-RPC.
    pub rpc: Option<SocketAddr>,
    /// PubSub.
    pub pubsub: Option<SocketAddr>,
    /// The release. `None` for this node: its server knows it.
    pub version: Option<String>,
    /// The program. `None` for this node: its server knows it.
    pub client_id: Option<String>,
    /// The features that the node supports.
    pub feature_set: Option<u32>,
    /// The shred version.
    pub shred_version: Option<u16>,
}

/// What changes in a cluster. `None` means unknown.
pub trait Cluster: Send + Sync {
    /// The leaders of an epoch.
    fn leaders(&self, epoch: Epoch) -> Option<Arc<LeaderSchedule>>;

    /// The stake that counts for each vote account in the epoch of `view`.
    fn stakes(&self, view: &View) -> Option<Arc<VoteStakes>>;

    /// The vote accounts that had stake when the leaders of an epoch were determined. Unknown for a localnet, which has
    /// one leader.
    fn voters(&self, _epoch: Epoch) -> Option<Arc<VoteStakes>> {
        None
    }

    /// The newest slot of which a shred was seen. Unknown without shreds.
    fn newest_shred_slot(&self) -> Option<Slot> {
        None
    }

    /// The nodes, this one included if it is a member.
    fn nodes(&self) -> Option<Arc<[ClusterNode]>>;

    /// The rates of inflation.
    fn inflation(&self) -> Option<Arc<InflationSchedule>>;
}
