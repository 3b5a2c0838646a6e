//! This node: health, identity, version, addresses.
//!
//! One node is the whole cluster. So it is the only cluster node, it receives no shreds, and no other node needs
//! a snapshot from it.

use serde_json::Value;
use solana_rpc_client_types::response::{
    RpcApiVersion, RpcContactInfo, RpcIdentity, RpcVersionInfo,
};

use super::{Class, Method, MethodOutput, MethodResult};
use crate::custom_error::RpcCustomError;
use crate::error::RpcError;
use crate::health::Status;
use crate::node::Node;
use crate::params::Params;

pub(super) const METHODS: &[Method] = &[
    Method { name: "getHealth", class: Class::Inline, run: health },
    Method { name: "getIdentity", class: Class::Inline, run: identity },
    Method { name: "getVersion", class: Class::Inline, run: version },
    Method { name: "getGenesisHash", class: Class::Inline, run: genesis_hash },
    Method { name: "getClusterNodes", class: Class::Inline, run: cluster_nodes },
    Method { name: "getHighestSnapshotSlot", class: Class::Inline, run: highest_snapshot_slot },
    Method { name: "getMaxRetransmitSlot", class: Class::Inline, run: newest_slot },
    Method { name: "getMaxShredInsertSlot", class: Class::Inline, run: newest_slot },
    Method { name: "getAgGenesisCert", class: Class::Inline, run: alpenglow_certificate },
];

/// The client id that `getClusterNodes` reports.
const CLIENT_ID: &str = "Hydrant";

/// The release of Agave whose shapes and behaviour are implemented.
pub fn api_version() -> String {
    RpcApiVersion::default().to_string()
}

fn health(node: &Node, params: Params<'_>) -> MethodResult {
    params.none()?;
    check_health(node)?;
    MethodOutput::json(&"ok")
}

/// -32005 if the state is behind.
pub(super) fn check_health(node: &Node) -> Result<(), RpcError> {
    let num_slots_behind = match node.health.status() {
        Status::Ok => return Ok(()),
        Status::Unknown => None,
        Status::Behind { slots } => Some(slots),
    };
    let mut err = RpcError::from(RpcCustomError::NodeUnhealthy { num_slots_behind });
    if let (Some(data), Some([processed, ..])) =
        (err.data.as_mut().and_then(Value::as_object_mut), node.health.slot_ages(node.pool.now()))
    {
        // In addition to what Agave reports: time since the last block.
        data.insert("lastBlockAgeMs".to_owned(), (processed.as_millis() as u64).into());
    }
    Err(err)
}

fn identity(node: &Node, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&RpcIdentity { identity: node.cluster.identity.to_string() })
}

fn version(node: &Node, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&RpcVersionInfo {
        solana_core: api_version(),
        feature_set: Some(node.cluster.feature_set),
    })
}

fn genesis_hash(node: &Node, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&node.cluster.genesis_hash.to_string())
}

fn cluster_nodes(node: &Node, params: Params<'_>) -> MethodResult {
    params.none()?;
    let cluster = &node.cluster;
    MethodOutput::json(&[RpcContactInfo {
        pubkey: cluster.identity.to_string(),
        gossip: None,
        tvu: None,
        tpu: None,
        tpu_quic: cluster.tpu,
        tpu_forwards: None,
        // Forwarded transactions are handled like those of clients.
        tpu_forwards_quic: cluster.tpu,
        tpu_vote: None,
        serve_repair: None,
        rpc: cluster.rpc,
        pubsub: cluster.pubsub,
        version: Some(api_version()),
        client_id: Some(CLIENT_ID.into()),
        feature_set: Some(cluster.feature_set),
        shred_version: Some(cluster.shred_version),
    }])
}

fn highest_snapshot_slot(_: &Node, params: Params<'_>) -> MethodResult {
    params.none()?;
    Err(RpcCustomError::NoSnapshot.into())
}

/// There are no shreds, so this is the newest slot.
fn newest_slot(node: &Node, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&node.reader.view(ledger::Commitment::Processed).block().slot)
}

/// There is none: this ledger votes on chain, like a cluster that has not migrated to Alpenglow.
fn alpenglow_certificate(_: &Node, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&None::<()>)
}
