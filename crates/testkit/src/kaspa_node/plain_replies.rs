//! Replies to methods without parameters.

use kaspa::{MAX_SOMPI, Method, Network, RPC_API_VERSION};

use super::replies::{MethodResult, Replies, reply};
use super::wire::{DIFFICULTY, Structure, Value};

/// The version of the modelled program.
const SERVER_VERSION: &str = "2.1.0";
/// The id of the node among its peers.
const P2P_ID: &str = "91204467-c4b8-4428-9af9-df755dc7c391";
/// A fee estimate of an idle node, as it was recorded.
const FEE_ESTIMATE_BORSH: &str = "4a00000001000000000000005940822fdc10f8383b3f020000000000000000005940822fdc10f8\
    383b3f0000000000005940822fdc10f8383b3f010000000000000000005940822fdc10f8383b3f";
const FEE_ESTIMATE_JSON: &str = concat!(
    r#"{"lowBuckets":[{"estimatedSeconds":0.0004153829221287196,"feerate":100.0}],"#,
    r#""normalBuckets":[{"estimatedSeconds":0.0004153829221287196,"feerate":100.0},"#,
    r#"{"estimatedSeconds":0.0004153829221287196,"feerate":100.0}],"#,
    r#""priorityBucket":{"estimatedSeconds":0.0004153829221287196,"feerate":100.0}}"#
);

impl Replies<'_> {
    /// The reply to a method without parameters.
    pub(crate) fn respond_plain(&self, method: Method) -> MethodResult {
        let virtual_block = self.dag.virtual_block();
        let sink = self.dag.sink();
        Ok(match method {
            Method::Ping => Structure::with_version8(1),
            Method::GetServerInfo => reply()
                .field("rpcApiVersion", Value::U16(RPC_API_VERSION))
                .field("rpcApiRevision", Value::U16(0))
                .field("serverVersion", Value::Text(SERVER_VERSION.to_owned()))
                .field("networkId", Value::Network(Network::Simnet))
                .field("hasUtxoIndex", Value::Flag(self.has_utxo_index))
                .field("isSynced", Value::Flag(self.is_synced))
                .field("virtualDaaScore", Value::U64(virtual_block.ghostdag.daa_score)),
            Method::GetInfo => reply()
                .field("p2pId", Value::Text(P2P_ID.to_owned()))
                .field("mempoolSize", Value::U64(self.dag.mempool().len() as u64))
                .field("serverVersion", Value::Text(SERVER_VERSION.to_owned()))
                .field("isUtxoIndexed", Value::Flag(self.has_utxo_index))
                .field("isSynced", Value::Flag(self.is_synced))
                .field("hasNotifyCommand", Value::Flag(true))
                .field("hasMessageId", Value::Flag(true)),
            Method::GetSyncStatus => reply().field("isSynced", Value::Flag(self.is_synced)),
            Method::GetCurrentNetwork => {
                reply().field("network", Value::Choice { code: 3, name: "simnet" })
            }
            Method::GetSink => reply().field("sink", Value::Hash(sink.hash)),
            Method::GetSinkBlueScore => {
                reply().field("blueScore", Value::U64(sink.header.blue_score))
            }
            Method::GetConnectedPeerInfo => reply().field("peerInfo", Value::List(Vec::new())),
            Method::GetPeerAddresses => reply()
                .field("knownAddresses", Value::List(Vec::new()))
                .field("bannedAddresses", Value::List(Vec::new())),
            Method::GetBlockCount => reply()
                .field("headerCount", Value::U64(self.dag.block_count()))
                .field("blockCount", Value::U64(self.dag.block_count())),
            Method::GetCoinSupply => {
                let supply = self.dag.utxos().values().map(|entry| entry.amount).sum();
                reply()
                    .field("maxSompi", Value::U64(MAX_SOMPI))
                    .field("circulatingSompi", Value::U64(supply))
            }
            Method::GetBlockDagInfo => reply()
                .field("network", Value::Network(Network::Simnet))
                .field("blockCount", Value::U64(self.dag.block_count()))
                .field("headerCount", Value::U64(self.dag.block_count()))
                .field("tipHashes", Value::hashes(self.dag.tips()))
                .field("difficulty", Value::F64(DIFFICULTY))
                .field("pastMedianTime", Value::U64(sink.header.timestamp_ms))
                .field("virtualParentHashes", Value::hashes(&virtual_block.parents))
                .field("pruningPointHash", Value::Hash(self.pruning_point))
                .field("virtualDaaScore", Value::U64(virtual_block.ghostdag.daa_score))
                .field("sink", Value::Hash(sink.hash)),
            Method::GetFeeEstimate => reply().field(
                "estimate",
                Value::Recorded {
                    borsh: recorded_bytes(FEE_ESTIMATE_BORSH),
                    json: FEE_ESTIMATE_JSON,
                },
            ),
            method => return Err(format!("the model node has no {}", method.name())),
        })
    }
}

fn recorded_bytes(digits: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    (0..digits.len()).step_by(2).map(pair).collect()
}
