//! The content of requests, replies and notifications, whatever their encoding.

use crate::address::KaspaAddress;
use crate::hash::Hash;
use crate::header::Header;
use crate::network::Network;
use crate::operation::Event;
use crate::transaction::Transaction;
use crate::utxo::{Outpoint, UtxoEntry};

/// The version of wRPC. A client refuses a node that has a newer one.
pub const RPC_API_VERSION: u16 = 1;

/// The largest amount that will ever exist, as in the reply to getCoinSupply.
pub const MAX_SOMPI: u64 = 29_000_000_000 * 100_000_000;

/// A UTXO with the address that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressUtxo {
    /// The address. `None` if the script has none.
    pub address: Option<KaspaAddress>,
    /// The transaction and the index that name the output.
    pub outpoint: Outpoint,
    /// The amount, the script and the age of the output.
    pub entry: UtxoEntry,
}

/// The balance of an address, in the reply to getBalancesByAddresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBalance {
    /// The address whose balance it is.
    pub address: KaspaAddress,
    /// The amount in sompi.
    pub balance: u64,
}

/// The reply to getServerInfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// The version of wRPC.
    pub rpc_api_version: u16,
    /// The revision of that version.
    pub rpc_api_revision: u16,
    /// The version of kaspad.
    pub server_version: String,
    /// The network of the node.
    pub network: Network,
    /// Whether UTXOs are found by address.
    pub has_utxo_index: bool,
    /// Whether the node is in sync.
    pub is_synced: bool,
    /// The DAA score of the virtual block.
    pub virtual_daa_score: u64,
}

/// The reply to getInfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The id of the node among its peers.
    pub p2p_id: String,
    /// The number of transactions in the mempool.
    pub mempool_size: u64,
    /// The version of kaspad.
    pub server_version: String,
    /// Whether UTXOs are found by address.
    pub is_utxo_indexed: bool,
    /// Whether the node is in sync.
    pub is_synced: bool,
    /// Whether subscriptions can be stopped.
    pub has_notify_command: bool,
    /// Whether requests have ids.
    pub has_message_id: bool,
}

/// The reply to getCoinSupply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoinSupply {
    /// The largest amount that will ever exist, in sompi.
    pub max_sompi: u64,
    /// The sum of all UTXOs, in sompi.
    pub circulating_sompi: u64,
}

/// The reply to getBlockDagInfo.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockDagInfo {
    /// The network of the node.
    pub network: Network,
    /// The number of stored blocks.
    pub block_count: u64,
    /// The number of headers.
    pub header_count: u64,
    /// The blocks without children.
    pub tip_hashes: Vec<Hash>,
    /// The difficulty of the proof of work.
    pub difficulty: f64,
    /// The median time of past blocks, in Unix milliseconds.
    pub past_median_time_ms: u64,
    /// The parents of the virtual block.
    pub virtual_parents: Vec<Hash>,
    /// The block below which history may be deleted.
    pub pruning_point: Hash,
    /// The DAA score of the virtual block.
    pub virtual_daa_score: u64,
    /// The tip of the selected chain.
    pub sink: Hash,
}

/// A block: the reply to getBlock, without its verbose data about neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The hash that the node has for the block.
    pub hash: Hash,
    /// The header, from which the hash is computed.
    pub header: Header,
    /// The transactions. Empty if the request left them out.
    pub transactions: Vec<Transaction>,
}

/// The reply to getBlockTemplate, without its transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTemplate {
    /// The header. It commits to the UTXO set of the virtual block.
    pub header: Header,
    /// Whether the node is in sync.
    pub is_synced: bool,
}

/// The transactions that a chain block accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedIds {
    /// The hash of the chain block.
    pub accepting_block: Hash,
    /// The ids of the transactions that it accepted.
    pub transaction_ids: Vec<Hash>,
}

/// A change of the selected chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainChange {
    /// Blocks that left the chain, the highest first.
    pub removed: Vec<Hash>,
    /// Blocks that joined the chain, the lowest first.
    pub added: Vec<Hash>,
    /// The acceptance of added blocks, if it was requested.
    pub accepted: Vec<AcceptedIds>,
}

/// A chain block with the transactions that it accepts, from getVirtualChainFromBlockV2 at its level Full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptingBlock {
    /// The hash that the node has for the block. Compare it with that of the header.
    pub hash: Hash,
    /// The header, from which the hash is computed.
    pub header: Header,
    /// The accepted transactions, in the order of acceptance.
    pub transactions: Vec<AcceptedTransaction>,
}

/// A transaction that a chain block accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedTransaction {
    /// The id that the node has for the transaction. A commitment covers it.
    pub id: Hash,
    /// The accepted transaction, as its block has it.
    pub transaction: Transaction,
    /// The outputs that it spends, one for each input.
    pub spent: Vec<UtxoEntry>,
    /// The block that contains it.
    pub block_hash: Hash,
    /// The time of that block, in Unix milliseconds.
    pub block_time_ms: u64,
}

/// The events that a subscription is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All UTXOs if the list is empty, else those of the addresses.
    UtxosChanged {
        /// The addresses whose UTXOs are reported.
        addresses: Vec<KaspaAddress>,
    },
    /// Changes of the selected chain.
    VirtualChainChanged {
        /// Whether the ids of accepted transactions are included.
        include_accepted_transaction_ids: bool,
    },
    /// Another event, which has no parameters.
    Other(Event),
}

/// UTXOs that were added and removed by one change of the virtual state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UtxoChanges {
    /// The UTXOs that were created.
    pub added: Vec<AddressUtxo>,
    /// The spent ones, and those of reverted blocks.
    pub removed: Vec<AddressUtxo>,
}

/// A message that a node sends without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// A block was added. Its bytes are passed on as they came, in the encoding of the message.
    BlockAdded(Vec<u8>),
    /// The selected chain changed.
    VirtualChainChanged(ChainChange),
    /// A block violates finality.
    FinalityConflict {
        /// The block that violates finality.
        violating_block: Hash,
    },
    /// A conflict was resolved.
    FinalityConflictResolved {
        /// The block that is final.
        finality_block: Hash,
    },
    /// UTXOs were added and removed.
    UtxosChanged(UtxoChanges),
    /// The blue score of the tip changed.
    SinkBlueScoreChanged {
        /// The blue score of the new tip.
        sink_blue_score: u64,
    },
    /// The DAA score of the virtual block changed.
    VirtualDaaScoreChanged {
        /// The DAA score of the new virtual block.
        virtual_daa_score: u64,
    },
    /// The whole UTXO set was replaced: everything must be read again.
    PruningPointUtxoSetOverride,
    /// There is a new block template.
    NewBlockTemplate,
}

/// An error of wRPC. The number of each variant is its code in Borsh.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// Code 3. The operation is known, and not a method.
    #[error("RPC method not found")]
    NotFound,
    /// Code 8. The parameters of a request in JSON do not have the shape of its method.
    #[error("request deserialization error")]
    InvalidParams,
    /// Code 9. The payload of a request in Borsh does not have the shape of its method. kaspad names it after the
    /// response.
    #[error("response serialization error")]
    InvalidPayload,
    /// Code 13. The method failed.
    #[error("{0}")]
    Text(String),
    /// An error with a code that is not known.
    #[error("error code {0} of wRPC")]
    Other(u8),
}

impl Scope {
    /// Returns the event that it belongs to.
    pub fn event(&self) -> Event {
        match self {
            Self::UtxosChanged { .. } => Event::UtxosChanged,
            Self::VirtualChainChanged { .. } => Event::VirtualChainChanged,
            Self::Other(event) => *event,
        }
    }
}

impl Notification {
    /// Returns the event that it belongs to.
    pub fn event(&self) -> Event {
        match self {
            Self::BlockAdded(_) => Event::BlockAdded,
            Self::VirtualChainChanged(_) => Event::VirtualChainChanged,
            Self::FinalityConflict { .. } => Event::FinalityConflict,
            Self::FinalityConflictResolved { .. } => Event::FinalityConflictResolved,
            Self::UtxosChanged(_) => Event::UtxosChanged,
            Self::SinkBlueScoreChanged { .. } => Event::SinkBlueScoreChanged,
            Self::VirtualDaaScoreChanged { .. } => Event::VirtualDaaScoreChanged,
            Self::PruningPointUtxoSetOverride => Event::PruningPointUtxoSetOverride,
            Self::NewBlockTemplate => Event::NewBlockTemplate,
        }
    }
}
