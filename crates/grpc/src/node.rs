//! The calls that read the ledger once.

use std::sync::Arc;

use chain_solana::{ClusterInfo, Reader};
use solana_hash::Hash;
use tonic::Status;
use yellowstone_grpc_proto::geyser::{
    GetBlockHeightRequest, GetBlockHeightResponse, GetLatestBlockhashRequest,
    GetLatestBlockhashResponse, GetSlotRequest, GetSlotResponse, GetVersionRequest,
    GetVersionResponse, IsBlockhashValidRequest, IsBlockhashValidResponse,
    SubscribeUpdateContactInfoNode,
};

use crate::clock::now_ms;
use crate::filter::commitment;

/// The version of Yellowstone's proto.
const PROTO_VERSION: &str = "14.0.1";
/// Agave's version whose behaviour the ledger has.
const SOLANA_VERSION: [u32; 3] = [4, 2, 2];

/// The ledger, and what is known of the node.
pub struct GrpcNode {
    /// Reads blocks.
    pub reader: Reader,
    /// The cluster and the addresses of this node.
    pub cluster: Arc<ClusterInfo>,
    /// The name and version of the program.
    pub program: (&'static str, &'static str),
}

impl GrpcNode {
    pub(crate) fn latest_blockhash(
        &self,
        request: &GetLatestBlockhashRequest,
    ) -> Result<GetLatestBlockhashResponse, Status> {
        let view = self.reader.view(commitment(request.commitment)?);
        let blockhash = view.meta().last_blockhash();
        let last_valid = view.meta().last_valid_block_height(&blockhash);
        Ok(GetLatestBlockhashResponse {
            slot: view.block().slot,
            blockhash: blockhash.to_string(),
            // The newest hash has age 0, so it has a last valid height.
            last_valid_block_height: last_valid
                .ok_or_else(|| Status::internal("no blockhash is valid"))?,
        })
    }

    pub(crate) fn block_height(
        &self,
        request: &GetBlockHeightRequest,
    ) -> Result<GetBlockHeightResponse, Status> {
        let view = self.reader.view(commitment(request.commitment)?);
        Ok(GetBlockHeightResponse { block_height: view.meta().block_height })
    }

    pub(crate) fn slot(&self, request: &GetSlotRequest) -> Result<GetSlotResponse, Status> {
        let view = self.reader.view(commitment(request.commitment)?);
        Ok(GetSlotResponse { slot: view.block().slot })
    }

    pub(crate) fn is_blockhash_valid(
        &self,
        request: &IsBlockhashValidRequest,
    ) -> Result<IsBlockhashValidResponse, Status> {
        let blockhash = request
            .blockhash
            .parse::<Hash>()
            .map_err(|err| Status::invalid_argument(format!("blockhash: {err}")))?;
        let view = self.reader.view(commitment(request.commitment)?);
        let valid = view.meta().blockhashes.is_valid(&blockhash);
        Ok(IsBlockhashValidResponse { slot: view.block().slot, valid })
    }

    /// JSON in a string, as the plugin's.
    pub(crate) fn version(&self, _: &GetVersionRequest) -> Result<GetVersionResponse, Status> {
        let (package, version) = self.program;
        let [major, minor, patch] = SOLANA_VERSION;
        let json = serde_json::json!({
            "version": {
                "package": package,
                "version": version,
                "proto": PROTO_VERSION,
                "solana": format!("{major}.{minor}.{patch}"),
                "git": "",
                "rustc": "",
                "buildts": "",
            },
            "extra": { "hostname": self.cluster.identity.to_string() },
        });
        Ok(GetVersionResponse { version: json.to_string() })
    }

    /// This node, as gossip describes it.
    pub(crate) fn contact_info(&self) -> SubscribeUpdateContactInfoNode {
        let cluster = &self.cluster;
        let [version_major, version_minor, version_patch] = SOLANA_VERSION;
        let start_ms = u64::try_from(cluster.genesis_unix_timestamp).unwrap_or(0) * 1_000;
        SubscribeUpdateContactInfoNode {
            pubkey: cluster.identity.to_bytes().to_vec(),
            wallclock: now_ms(),
            outset: start_ms,
            shred_version: cluster.shred_version.into(),
            version_major,
            version_minor,
            version_patch,
            version_feature_set: cluster.feature_set,
            tpu_quic: cluster.tpu.map(|address| address.to_string()),
            rpc: cluster.rpc.map(|address| address.to_string()),
            rpc_pubsub: cluster.pubsub.map(|address| address.to_string()),
            ..SubscribeUpdateContactInfoNode::default()
        }
    }
}
