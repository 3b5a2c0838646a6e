//! Health, identity and version of the node.

use jsonrpc::Status;
use serde_json::json;

use super::world::{PROCESSED, World, hash, keypair};
use solana_signer::Signer;

#[test]
fn the_node_reports_what_it_is() {
    let world = World::new();
    let identity = keypair(1).pubkey().to_string();
    for (method, expected) in [
        ("getHealth", json!("ok")),
        ("getIdentity", json!({"identity": identity})),
        ("getVersion", json!({"solana-core": "4.2.2", "feature-set": 1234})),
        ("getGenesisHash", json!(hash(0).to_string())),
        ("getMaxRetransmitSlot", json!(PROCESSED)),
        ("getMaxShredInsertSlot", json!(PROCESSED)),
        ("getAgGenesisCert", json!(null)),
        (
            "getClusterNodes",
            json!([{
                "pubkey": identity,
                "gossip": null, "tvu": null, "tpu": null, "tpuQuic": null, "tpuForwards": null,
                "tpuForwardsQuic": null, "tpuVote": null, "serveRepair": null,
                "rpc": "127.0.0.1:8899", "pubsub": "127.0.0.1:8900",
                "version": "4.2.2", "clientId": "Hydrant", "featureSet": 1234,
                "shredVersion": 77,
            }]),
        ),
    ] {
        assert_eq!(world.ok(method, json!([])), expected, "{method}");
        let refused = world.call(method, &json!([1])).err();
        assert_eq!(
            refused.map(|err| (err.code, err.message)),
            Some((-32602, "Invalid parameters: No parameters were expected".into())),
            "{method}"
        );
    }
}

#[test]
fn a_node_that_lags_is_unhealthy() {
    let world = World::new();
    world.api.health.set(Status::Behind { slots: 151 });
    let err = world.check_refusal("getHealth", json!([]), -32005, "Node is behind by 151 slots");
    assert_eq!(err.data, Some(json!({"numSlotsBehind": 151})));
    world.api.health.set(Status::Unknown);
    let err = world.check_refusal("getHealth", json!([]), -32005, "Node is unhealthy");
    assert_eq!(err.data, Some(json!({"numSlotsBehind": null})));
}

#[test]
fn there_are_no_snapshots() {
    World::new().check_refusal("getHighestSnapshotSlot", json!([]), -32008, "No snapshot");
}
