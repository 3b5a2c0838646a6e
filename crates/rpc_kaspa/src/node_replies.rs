//! The replies to getServerInfo, getInfo and getSyncStatus: the upstream's, with the fields that differ here.
//!
//! UTXOs are found by address, whether or not the upstream has an index. The DAA score is that of the state that
//! requests are answered from. The node is not in sync after a block that was refused, and while the chain is not up to
//! date ([`KaspaRpc::report_problem`]): the upstream is, before the chain has reached its sink.

use kaspa::{
    BorshReply, BorshServerMessage, JsonServerMessage, Method, NodeInfo, Operation, ServerInfo,
    encode_borsh_sync_status, encode_json_sync_status,
};
use serde::Deserialize;

use crate::kaspa_rpc::KaspaRpc;

/// A method with a reply that may differ from the upstream's.
enum AdaptedMethod {
    ServerInfo,
    NodeInfo,
    SyncStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonServerInfo {
    rpc_api_version: u16,
    rpc_api_revision: u16,
    server_version: String,
    is_synced: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonNodeInfo {
    p2p_id: String,
    mempool_size: u64,
    server_version: String,
    is_synced: bool,
    has_notify_command: bool,
    has_message_id: bool,
}

/// Returns another reply in Borsh, if the operation has one. `None`: the upstream's is passed on.
pub(crate) fn adapt_borsh(
    rpc: &KaspaRpc,
    id: u64,
    operation: Operation,
    frame: &[u8],
) -> Option<Vec<u8>> {
    let method = find_adapted_method(operation)?;
    let message = BorshServerMessage::parse(frame).ok()?;
    let BorshServerMessage::Reply(BorshReply { result: Ok(structure), .. }) = message else {
        return None;
    };
    match method {
        AdaptedMethod::ServerInfo => {
            let info = ServerInfo::decode_borsh(structure).ok()?;
            Some(adapt_server_info(rpc, info).encode_borsh(id))
        }
        AdaptedMethod::NodeInfo => {
            let info = NodeInfo::decode_borsh(structure).ok()?;
            Some(adapt_node_info(rpc, info).encode_borsh(id))
        }
        AdaptedMethod::SyncStatus => {
            rpc.find_problem().map(|_| encode_borsh_sync_status(id, false))
        }
    }
}

/// Returns another reply in JSON, if the operation has one. `None`: the upstream's is passed on.
pub(crate) fn adapt_json(
    rpc: &KaspaRpc,
    id: u64,
    operation: Operation,
    text: &str,
) -> Option<Vec<u8>> {
    let method = find_adapted_method(operation)?;
    let params = JsonServerMessage::parse(text).ok()?.result().ok()??.get();
    match method {
        AdaptedMethod::ServerInfo => {
            let info: JsonServerInfo = serde_json::from_str(params).ok()?;
            let info = ServerInfo {
                rpc_api_version: info.rpc_api_version,
                rpc_api_revision: info.rpc_api_revision,
                server_version: info.server_version,
                network: rpc.network,
                has_utxo_index: true,
                is_synced: info.is_synced,
                virtual_daa_score: 0,
            };
            Some(adapt_server_info(rpc, info).encode_json(id))
        }
        AdaptedMethod::NodeInfo => {
            let info: JsonNodeInfo = serde_json::from_str(params).ok()?;
            let info = NodeInfo {
                p2p_id: info.p2p_id,
                mempool_size: info.mempool_size,
                server_version: info.server_version,
                is_utxo_indexed: true,
                is_synced: info.is_synced,
                has_notify_command: info.has_notify_command,
                has_message_id: info.has_message_id,
            };
            Some(adapt_node_info(rpc, info).encode_json(id))
        }
        AdaptedMethod::SyncStatus => rpc.find_problem().map(|_| encode_json_sync_status(id, false)),
    }
}

fn find_adapted_method(operation: Operation) -> Option<AdaptedMethod> {
    match operation {
        Operation::Method(Method::GetServerInfo) => Some(AdaptedMethod::ServerInfo),
        Operation::Method(Method::GetInfo) => Some(AdaptedMethod::NodeInfo),
        Operation::Method(Method::GetSyncStatus) => Some(AdaptedMethod::SyncStatus),
        _ => None,
    }
}

fn adapt_server_info(rpc: &KaspaRpc, info: ServerInfo) -> ServerInfo {
    let status = rpc.chain.status();
    ServerInfo {
        network: rpc.network,
        has_utxo_index: true,
        is_synced: info.is_synced && rpc.find_problem().is_none(),
        virtual_daa_score: status.virtual_daa_score,
        ..info
    }
}

fn adapt_node_info(rpc: &KaspaRpc, info: NodeInfo) -> NodeInfo {
    let is_synced = info.is_synced && rpc.find_problem().is_none();
    NodeInfo { is_utxo_indexed: true, is_synced, ..info }
}
