//! The properties of a cluster and of a node that a test does not care about.
//!
//! A test that cares about some of them names these: `ClusterInfo { slot_ms: 4_000, ..cluster_info() }`.

use std::sync::Arc;

use chain_solana::ClusterInfo;
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

/// A cluster with slots of 400 ms from slot 0, epochs of one length and no active feature. The node has no addresses.
pub fn cluster_info() -> ClusterInfo {
    ClusterInfo {
        genesis_hash: Hash::new_from_array([5; 32]),
        genesis_unix_timestamp: 1_600_000_000,
        identity: Pubkey::new_from_array([50; 32]),
        epoch_schedule: EpochSchedule::without_warmup(),
        lamports_per_signature: 5_000,
        slot_ms: 400,
        first_slot: 0,
        shred_version: 1,
        feature_set: 2,
        features: Arc::default(),
        rpc: None,
        pubsub: None,
        tpu: None,
    }
}
