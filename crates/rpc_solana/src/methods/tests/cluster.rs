//! Clusters other than that of one node: several leaders, and facts that are unknown.

use std::num::NonZeroU64;
use std::sync::Arc;

use chain_solana::{Cluster, ClusterNode, InflationSchedule, LeaderSchedule, View, VoteStakes};
use serde_json::{Value, json};
use solana_feature_set::FeatureSet;
use solana_pubkey::Pubkey;
use solana_signer::Signer;

use super::world::{FINALIZED, World, keypair};

/// A cluster as a new follower knows it: the leaders of epoch 1, some nodes, and no other facts.
struct PartlyKnown;

fn leader(n: u8) -> Pubkey {
    keypair(n).pubkey()
}

impl Cluster for PartlyKnown {
    fn leaders(&self, epoch: u64) -> Option<Arc<LeaderSchedule>> {
        let turns = [1, 2, 1, 3, 3, 1, 2, 1].map(leader);
        let four = NonZeroU64::new(4).expect("it is not 0");
        (epoch == 1).then(|| Arc::new(LeaderSchedule::new(&turns, four, 32)))
    }

    fn stakes(&self, _: &View) -> Option<Arc<VoteStakes>> {
        None
    }

    fn nodes(&self) -> Option<Arc<[ClusterNode]>> {
        let own = ClusterNode { identity: leader(1), ..ClusterNode::default() };
        let version = Some("4.0.0".to_owned());
        let other = ClusterNode { identity: leader(2), version, ..ClusterNode::default() };
        Some(Arc::new([own, other]))
    }

    fn inflation(&self) -> Option<Arc<InflationSchedule>> {
        None
    }

    fn features(&self) -> Arc<FeatureSet> {
        Arc::default()
    }

    fn slot_ms(&self) -> u64 {
        400
    }
}

fn world() -> World {
    let mut world = World::new();
    world.api.cluster = Arc::new(PartlyKnown);
    world
}

fn text(n: u8) -> String {
    leader(n).to_string()
}

#[test]
fn several_leaders_take_turns() {
    let world = world();
    // Slot 48 is number 16 of epoch 1.
    assert_eq!(world.ok("getSlotLeader", json!([])), text(3));
    let leaders = [1, 1, 2, 2, 2, 2, 1].map(text);
    assert_eq!(world.ok("getSlotLeaders", json!([34, 7])), json!(leaders));
    let turns = |starts: &[u64]| -> Vec<u64> {
        starts.iter().flat_map(|start| *start..*start + 4).collect()
    };
    let one = turns(&[0, 8, 20, 28]);
    let two = turns(&[4, 24]);
    let three = turns(&[12, 16]);
    let all = json!({text(1): one, text(2): two, text(3): three});
    assert_eq!(world.ok("getLeaderSchedule", json!([])), all);
    let of = |n| world.ok("getLeaderSchedule", json!([40, {"identity": text(n)}]));
    assert_eq!(of(2), json!({text(2): two}));
    assert_eq!(of(9), json!({}));
}

#[test]
fn production_is_counted_for_each_leader() {
    let world = world();
    let production = |range: Value| world.value(FINALIZED, "getBlockProduction", json!([range]));
    // Slot 46 is in a window of leader 3 and has no block. Slot 48 is the first of its next window.
    assert_eq!(
        production(json!({})),
        json!({"byIdentity": {text(1): [8, 8], text(2): [4, 4], text(3): [5, 4]},
               "range": {"firstSlot": 32, "lastSlot": 48}})
    );
    assert_eq!(
        production(json!({"identity": text(3), "range": {"firstSlot": 45}}))["byIdentity"],
        json!({text(3): [4, 3]})
    );
    assert_eq!(
        production(json!({"identity": text(2), "range": {"firstSlot": 40}}))["byIdentity"],
        json!({})
    );
}

#[test]
fn what_is_unknown_is_an_error_and_nothing_is_invented() {
    let world = world();
    let no_schedule = "Invalid slot range: leader schedule for epoch 0 is unavailable";
    world.check_refusal("getSlotLeaders", json!([30, 4]), -32602, no_schedule);
    let range = json!([{"range": {"firstSlot": 30, "lastSlot": 40}}]);
    world.check_refusal("getBlockProduction", range, -32602, no_schedule);
    assert_eq!(world.ok("getLeaderSchedule", json!([3])), Value::Null);
    let processed = json!([{"commitment": "processed"}]);
    let message = "the leader of this slot is unknown to this node";
    world.check_refusal("getSlotLeader", processed, -32603, message);
    let message = "the stakes of this epoch are unknown to this node";
    world.check_refusal("getVoteAccounts", json!([]), -32603, message);
    world.check_refusal("getBlockCommitment", json!([48]), -32603, message);
    let message = "the inflation of the cluster is unknown to this node";
    world.check_refusal("getInflationGovernor", json!([]), -32603, message);
    world.check_refusal("getInflationRate", json!([]), -32603, message);
}

#[test]
fn all_cluster_nodes_are_listed() {
    let nodes = world().ok("getClusterNodes", json!([]));
    assert_eq!(nodes[0]["pubkey"], text(1));
    assert_eq!((&nodes[0]["version"], &nodes[0]["clientId"]), (&json!("4.2.2"), &json!("Hydrant")));
    assert_eq!(nodes[1]["pubkey"], text(2));
    assert_eq!((&nodes[1]["version"], &nodes[1]["clientId"]), (&json!("4.0.0"), &Value::Null));
}
