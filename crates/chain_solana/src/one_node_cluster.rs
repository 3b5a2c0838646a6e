//! A cluster of one node, which leads every slot: that of a localnet.
//!
//! In: the fixed properties of the cluster, and accounts. Out: all properties of a cluster; none is unknown.
//! Cost: [`Cluster::stakes`] reads every stake account of the view.

use std::sync::Arc;

use ledger::Address;
use solana::{Account, key_kind};
use solana_account::ReadableAccount;
use solana_clock::Epoch;
use solana_feature_set::FeatureSet;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{stake, sysvar};
use solana_stake_interface::stake_history::StakeHistory;
use solana_stake_interface::state::StakeStateV2;

use crate::{
    Cluster, ClusterInfo, ClusterNode, InflationSchedule, LeaderSchedule, View, VoteStakes,
};

/// The new, faster warmup rate of stake is active since the first epoch of this ledger.
const NEW_RATE_ACTIVATION_EPOCH: Option<Epoch> = Some(0);

/// The cluster of a localnet: one node, which leads every slot.
pub struct OneNodeCluster {
    info: Arc<ClusterInfo>,
    inflation: Arc<InflationSchedule>,
    nodes: Arc<[ClusterNode]>,
}

impl OneNodeCluster {
    /// Creates the cluster of the node with these properties.
    pub fn new(info: Arc<ClusterInfo>, inflation: InflationSchedule) -> Self {
        let node = ClusterNode {
            identity: info.identity,
            tpu_quic: info.tpu,
            // Forwarded transactions are handled like those of clients.
            tpu_forwards_quic: info.tpu,
            rpc: info.rpc,
            pubsub: info.pubsub,
            feature_set: Some(info.feature_set),
            shred_version: Some(info.shred_version),
            ..ClusterNode::default()
        };
        Self { info, inflation: Arc::new(inflation), nodes: Arc::new([node]) }
    }
}

impl Cluster for OneNodeCluster {
    fn leaders(&self, epoch: Epoch) -> Option<Arc<LeaderSchedule>> {
        let slots = self.info.epoch_schedule.get_slots_in_epoch(epoch);
        Some(Arc::new(LeaderSchedule::with_one_leader(self.info.identity, slots)))
    }

    fn stakes(&self, view: &View) -> Option<Arc<VoteStakes>> {
        let epoch = self.info.epoch_schedule.get_epoch(view.block().slot);
        let history = view.record(&address(&sysvar::stake_history::ID));
        let history: StakeHistory = history
            .and_then(|account| bincode::deserialize(account.0.data()).ok())
            .unwrap_or_default();
        let mut stakes = VoteStakes::default();
        for (_, account) in view.records_by_key(key_kind::PROGRAM, &address(&stake::ID)) {
            let Some((voter, stake)) = read_delegation(&account, epoch, &history) else { continue };
            *stakes.0.entry(voter).or_default() += stake;
        }
        Some(Arc::new(stakes))
    }

    fn nodes(&self) -> Option<Arc<[ClusterNode]>> {
        Some(Arc::clone(&self.nodes))
    }

    fn inflation(&self) -> Option<Arc<InflationSchedule>> {
        Some(Arc::clone(&self.inflation))
    }

    fn features(&self) -> Arc<FeatureSet> {
        Arc::clone(&self.info.features)
    }

    fn slot_ms(&self) -> u64 {
        self.info.slot_ms
    }
}

/// Returns the vote account of a stake account, and the stake that counts for it in an epoch.
fn read_delegation(
    account: &Account,
    epoch: Epoch,
    history: &StakeHistory,
) -> Option<(Pubkey, u64)> {
    let state = bincode::deserialize::<StakeStateV2>(account.0.data()).ok()?;
    let delegation = state.delegation()?;
    let stake = delegation.stake_v2(epoch, history, NEW_RATE_ACTIVATION_EPOCH);
    Some((delegation.voter_pubkey, stake))
}

fn address(pubkey: &Pubkey) -> Address {
    Address::from(pubkey.to_bytes())
}
