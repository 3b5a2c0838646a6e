//! The messages between nodes of Kaspa that an import needs: protocol buffers over one bidirectional stream of gRPC.
//!
//! Numbers of fields are those of kaspad 2.1.0. Unknown messages and fields are skipped. A chunk of UTXOs stays encoded
//! here, because its UTXOs are counted while they are decoded (`chunk`).

use bytes::Bytes;
use prost::{Message, Oneof};

/// The path of the stream.
pub(crate) const STREAM_PATH: &str = "/protowire.P2P/MessageStream";

/// A message in either direction.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PeerMessage {
    #[prost(oneof = "Payload", tags = "1, 6, 16, 17, 19, 20, 22, 25, 27, 33, 34, 44, 50")]
    pub(crate) payload: Option<Payload>,
}

/// The content of a message.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Payload {
    /// Addresses of other nodes. We know none.
    #[prost(message, tag = "1")]
    Addresses(Empty),
    #[prost(message, tag = "6")]
    RequestAddresses(Empty),
    #[prost(message, tag = "16")]
    Ping(Nonce),
    #[prost(message, tag = "17")]
    Pong(Nonce),
    /// The version of the other side is accepted.
    #[prost(message, tag = "19")]
    Verack(Empty),
    #[prost(message, tag = "20")]
    Version(Version),
    /// The reason for which the other side ends the connection.
    #[prost(message, tag = "22")]
    Reject(Reject),
    #[prost(bytes = "bytes", tag = "25")]
    UtxoChunk(Bytes),
    /// The requested block is not the pruning point of the peer, or not any longer.
    #[prost(message, tag = "27")]
    UnexpectedPruningPoint(Empty),
    #[prost(message, tag = "33")]
    RequestNextUtxoChunk(Empty),
    #[prost(message, tag = "34")]
    DoneUtxoChunks(Empty),
    #[prost(message, tag = "44")]
    RequestUtxoSet(RequestUtxoSet),
    /// The end of the handshake.
    #[prost(message, tag = "50")]
    Ready(Empty),
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Empty {}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Nonce {
    #[prost(uint64, tag = "1")]
    pub(crate) nonce: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Version {
    #[prost(uint32, tag = "1")]
    pub(crate) protocol_version: u32,
    #[prost(int64, tag = "3")]
    pub(crate) timestamp_ms: i64,
    /// 16 random bytes. A node refuses one with its own id, and a second connection of an id.
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) id: Bytes,
    #[prost(string, tag = "6")]
    pub(crate) user_agent: String,
    #[prost(bool, tag = "8")]
    pub(crate) disable_relay_tx: bool,
    /// The name with its prefix, as in `kaspa-mainnet`.
    #[prost(string, tag = "10")]
    pub(crate) network: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Reject {
    #[prost(string, tag = "1")]
    pub(crate) reason: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct RequestUtxoSet {
    #[prost(message, optional, tag = "1")]
    pub(crate) pruning_point: Option<PeerHash>,
}

/// A hash, or the id of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct PeerHash {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) bytes: Bytes,
}

/// A UTXO of a chunk.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct PeerUtxo {
    #[prost(message, optional, tag = "1")]
    pub(crate) outpoint: Option<PeerOutpoint>,
    #[prost(message, optional, tag = "2")]
    pub(crate) entry: Option<PeerUtxoEntry>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct PeerOutpoint {
    #[prost(message, optional, tag = "1")]
    pub(crate) transaction_id: Option<PeerHash>,
    #[prost(uint32, tag = "2")]
    pub(crate) index: u32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct PeerUtxoEntry {
    #[prost(uint64, tag = "1")]
    pub(crate) amount: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) script_public_key: Option<PeerScript>,
    #[prost(uint64, tag = "3")]
    pub(crate) block_daa_score: u64,
    #[prost(bool, tag = "4")]
    pub(crate) is_coinbase: bool,
    #[prost(message, optional, tag = "5")]
    pub(crate) covenant_id: Option<PeerHash>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct PeerScript {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) script: Bytes,
    #[prost(uint32, tag = "2")]
    pub(crate) version: u32,
}
