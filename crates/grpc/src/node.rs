//! The calls that read the ledger once.

use std::sync::Arc;

use chain_solana::{Block, ClusterInfo, Reader};
use ledger::{Commitment, Slot};
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
/// The version of Agave that the ledger behaves like.
const SOLANA_VERSION: [u32; 3] = [4, 2, 2];

/// The newest block of a commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestBlock {
    /// Slot of the block.
    pub slot: Slot,
    /// Number of blocks before this one.
    pub block_height: u64,
    /// Blockhash of the block.
    pub blockhash: Hash,
    /// The last block height at which transactions may use its hash.
    pub last_valid_block_height: u64,
}

/// The reads of a ledger that the calls need.
pub trait LedgerReader: Send + Sync {
    /// The newest block of a commitment; `None` as long as no block has it.
    fn newest(&self, commitment: Commitment) -> Option<NewestBlock>;

    /// The newest slot of a commitment, and whether transactions may use the blockhash after it.
    fn is_blockhash_valid(&self, blockhash: &Hash, commitment: Commitment) -> Option<(Slot, bool)>;
}

impl LedgerReader for Reader {
    fn newest(&self, commitment: Commitment) -> Option<NewestBlock> {
        let view = self.view(commitment);
        let blockhash = view.meta().last_blockhash();
        Some(NewestBlock {
            slot: view.block().slot,
            block_height: view.meta().block_height,
            blockhash,
            // The newest hash has age 0, so it has a last valid height.
            last_valid_block_height: view.meta().last_valid_block_height(&blockhash)?,
        })
    }

    fn is_blockhash_valid(&self, blockhash: &Hash, commitment: Commitment) -> Option<(Slot, bool)> {
        let view = self.view(commitment);
        Some((view.block().slot, view.meta().blockhashes.is_valid(blockhash)))
    }
}

/// The ledger and the properties of the node.
pub struct GrpcNode {
    /// Reader of the ledger's newest blocks.
    pub reader: Box<dyn LedgerReader>,
    /// The cluster and the addresses of this node, if it is part of one.
    pub cluster: Option<Arc<ClusterInfo>>,
    /// The name and version of the program.
    pub program: (&'static str, &'static str),
    /// The newest finalized blocks of an earlier run, the oldest first: `from_slot` goes back to them for clients that
    /// need neither accounts nor entries, which are not stored.
    pub stored_blocks: Vec<Arc<Block>>,
}

impl GrpcNode {
    pub(crate) fn latest_blockhash(
        &self,
        request: &GetLatestBlockhashRequest,
    ) -> Result<GetLatestBlockhashResponse, Status> {
        let newest = self.newest(request.commitment)?;
        Ok(GetLatestBlockhashResponse {
            slot: newest.slot,
            blockhash: newest.blockhash.to_string(),
            last_valid_block_height: newest.last_valid_block_height,
        })
    }

    pub(crate) fn block_height(
        &self,
        request: &GetBlockHeightRequest,
    ) -> Result<GetBlockHeightResponse, Status> {
        let block_height = self.newest(request.commitment)?.block_height;
        Ok(GetBlockHeightResponse { block_height })
    }

    pub(crate) fn slot(&self, request: &GetSlotRequest) -> Result<GetSlotResponse, Status> {
        Ok(GetSlotResponse { slot: self.newest(request.commitment)?.slot })
    }

    pub(crate) fn is_blockhash_valid(
        &self,
        request: &IsBlockhashValidRequest,
    ) -> Result<IsBlockhashValidResponse, Status> {
        let blockhash = request
            .blockhash
            .parse::<Hash>()
            .map_err(|err| Status::invalid_argument(format!("blockhash: {err}")))?;
        let commitment = commitment(request.commitment)?;
        let valid = self.reader.is_blockhash_valid(&blockhash, commitment);
        let (slot, valid) = valid.ok_or_else(no_block)?;
        Ok(IsBlockhashValidResponse { slot, valid })
    }

    fn newest(&self, requested: Option<i32>) -> Result<NewestBlock, Status> {
        self.reader.newest(commitment(requested)?).ok_or_else(no_block)
    }

    /// JSON in a string, as the plugin's.
    pub(crate) fn version(&self, _: &GetVersionRequest) -> Result<GetVersionResponse, Status> {
        let (package, version) = self.program;
        let [major, minor, patch] = SOLANA_VERSION;
        let identity = self.cluster.as_ref().map(|cluster| cluster.identity.to_string());
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
            "extra": { "hostname": identity },
        });
        Ok(GetVersionResponse { version: json.to_string() })
    }

    /// This node, as gossip describes it.
    pub(crate) fn contact_info(&self) -> Option<SubscribeUpdateContactInfoNode> {
        let cluster = self.cluster.as_ref()?;
        let [version_major, version_minor, version_patch] = SOLANA_VERSION;
        let start_ms = u64::try_from(cluster.genesis_unix_timestamp).unwrap_or(0) * 1_000;
        Some(SubscribeUpdateContactInfoNode {
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
        })
    }
}

fn no_block() -> Status {
    Status::unavailable("no block of this commitment is known yet")
}
