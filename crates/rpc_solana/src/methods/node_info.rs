//! This node: health, identity, version, addresses; and the other nodes of the cluster.
//!
//! The node receives no shreds.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use chain_solana::{ClusterNode, reachable_address};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodOutput, MethodResult, MethodSpec, Status};
use ledger::Commitment;
use response_cache::Dependencies;
use serde_json::Value;
use solana_rpc_client_types::response::{
    RpcApiVersion, RpcContactInfo, RpcIdentity, RpcSnapshotSlotInfo, RpcVersionInfo,
};

use super::upstream;
use crate::custom_error::RpcCustomError;
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    MethodSpec::new("getHealth", Execution::Inline, health).stateless(),
    MethodSpec::new("getIdentity", Execution::Inline, identity)
        .with_revalidation_dependencies(no_dependency)
        .stateless(),
    MethodSpec::new("getVersion", Execution::Inline, version)
        .with_revalidation_dependencies(no_dependency)
        .stateless(),
    MethodSpec::new("getGenesisHash", Execution::Inline, genesis_hash)
        .with_revalidation_dependencies(no_dependency)
        .stateless(),
    MethodSpec::new("getClusterNodes", Execution::Inline, cluster_nodes)
        .with_revalidation_dependencies(nodes_dependency)
        .stateless(),
    MethodSpec::new("getHighestSnapshotSlot", SNAPSHOT_SLOT, highest_snapshot_slot),
    MethodSpec::new("getMaxRetransmitSlot", Execution::Inline, newest_slot),
    MethodSpec::new("getMaxShredInsertSlot", Execution::Inline, newest_slot),
    MethodSpec::new("getAgGenesisCert", Execution::Inline, alpenglow_certificate),
];

/// On the pool if there is an upstream: the call waits for its response.
const SNAPSHOT_SLOT: Execution<SolanaApi> = Execution::ByCost {
    class_max: cpu_pool::Class::Light,
    class: |api, _, _| api.upstream.as_ref().map(|_| cpu_pool::Class::Light),
};

/// The client id that `getClusterNodes` reports.
const CLIENT_ID: &str = "Hydrant";

/// Returns the release of Agave whose shapes and behaviour are implemented.
pub fn api_version() -> String {
    RpcApiVersion::default().to_string()
}

fn health(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    check_health(api)?;
    if api.health.has_announced_end() {
        let mut err = RpcError::from(RpcCustomError::NodeUnhealthy { num_slots_behind: None });
        if let Some(data) = err.data.as_mut().and_then(Value::as_object_mut) {
            // A member that Agave does not have. Transactions are still accepted.
            data.insert("draining".to_owned(), true.into());
        }
        return Err(err);
    }
    MethodOutput::json(&"ok")
}

/// Returns -32005 if the state is behind.
pub(super) fn check_health(api: &SolanaApi) -> Result<(), RpcError> {
    let num_slots_behind = match api.health.status() {
        Status::Ok => return Ok(()),
        Status::Unknown => None,
        Status::Behind { slots } => Some(slots),
    };
    let mut err = RpcError::from(RpcCustomError::NodeUnhealthy { num_slots_behind });
    if let (Some(data), Some([processed, ..])) =
        (err.data.as_mut().and_then(Value::as_object_mut), api.health.slot_ages(api.pool.now()))
    {
        // A member that Agave does not have: the time since the last block.
        data.insert("lastBlockAgeMs".to_owned(), (processed.as_millis() as u64).into());
    }
    Err(err)
}

/// Returns no dependencies: the result never changes while the node runs.
pub(super) fn no_dependency(_: &SolanaApi, _: Params<'_>) -> Option<Dependencies> {
    Some(Dependencies::none(Commitment::Finalized, None))
}

/// Returns the dependency of the list of nodes: the list itself, which is replaced as a whole. While a reference to it
/// exists, no other list has its address.
fn nodes_dependency(api: &SolanaApi, _: Params<'_>) -> Option<Dependencies> {
    let seen = Arc::downgrade(&api.cluster.nodes()?);
    let is_same = move |api: &SolanaApi| {
        api.cluster.nodes().is_some_and(|nodes| Weak::ptr_eq(&Arc::downgrade(&nodes), &seen))
    };
    Some(Dependencies::none(Commitment::Finalized, None).with_precondition(is_same))
}

fn identity(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&RpcIdentity { identity: api.cluster_info.identity.to_string() })
}

fn version(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&RpcVersionInfo {
        solana_core: api_version(),
        feature_set: Some(api.cluster_info.feature_set),
    })
}

fn genesis_hash(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&api.cluster_info.genesis_hash.to_string())
}

fn cluster_nodes(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let nodes = api.cluster.nodes().ok_or_else(|| unknown("the nodes of the cluster are"))?;
    let own = |text: String, node: &ClusterNode| {
        (node.identity == api.cluster_info.identity).then_some(text)
    };
    let contact_info = |node: &ClusterNode| {
        let reached = params.reached().filter(|_| node.identity == api.cluster_info.identity);
        let address = |bound: Option<SocketAddr>| reachable_address(bound?, reached);
        RpcContactInfo {
            pubkey: node.identity.to_string(),
            gossip: address(node.gossip),
            tvu: address(node.tvu),
            tpu: address(node.tpu),
            tpu_quic: address(node.tpu_quic),
            tpu_forwards: address(node.tpu_forwards),
            tpu_forwards_quic: address(node.tpu_forwards_quic),
            tpu_vote: address(node.tpu_vote),
            serve_repair: address(node.serve_repair),
            rpc: address(node.rpc),
            pubsub: address(node.pubsub),
            version: node.version.clone().or_else(|| own(api_version(), node)),
            client_id: node.client_id.clone().or_else(|| own(CLIENT_ID.to_owned(), node)),
            feature_set: node.feature_set,
            shred_version: node.shred_version,
        }
    };
    MethodOutput::json(&nodes.iter().map(contact_info).collect::<Vec<_>>())
}

/// Returns -32603 for a fact about the cluster that the node cannot know. `what` ends with a verb.
pub(super) fn unknown(what: &str) -> RpcError {
    RpcError::internal_with(format!("{what} unknown to this node"))
}

fn highest_snapshot_slot(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    if let Some(called) = upstream::call(api, "getHighestSnapshotSlot", None) {
        return called;
    }
    let full = api.snapshots.as_ref().and_then(|snapshots| snapshots.newest_slot());
    let full = full.ok_or(RpcCustomError::NoSnapshot)?;
    MethodOutput::json(&RpcSnapshotSlotInfo { full, incremental: None })
}

/// Returns the newest slot for which a shred has arrived. Without shreds, the newest slot.
fn newest_slot(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    let processed = || api.reader.view(Commitment::Processed).block().slot;
    MethodOutput::json(&api.cluster.newest_shred_slot().unwrap_or_else(processed))
}

/// Returns null: this ledger votes on chain, like a cluster that has not migrated to Alpenglow.
fn alpenglow_certificate(_: &SolanaApi, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&None::<()>)
}
