//! Why a peer did not send its UTXO set. Each variant calls for another action of the operator.

use std::time::Duration;

use http_client::shorten_message;
use kaspa::{Hash, Network, Outpoint};
use tonic::{Code, Status};

/// Why a peer did not send its UTXO set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// Nothing accepts connections there.
    #[error("no connection")]
    Connect(#[source] Box<tonic::transport::Error>),
    /// The peer took too long.
    #[error("no {step} within {limit:?}")]
    Timeout {
        /// The step that took too long.
        step: &'static str,
        /// The time limit.
        limit: Duration,
    },
    /// The peer ended the stream.
    #[error("the peer closed the connection")]
    Closed,
    /// The connection broke, or the peer sent something other than a node's message.
    #[error("the connection broke: {reason}")]
    Broken {
        /// The status of gRPC.
        reason: String,
    },
    /// The peer does not read our messages.
    #[error("the peer does not read")]
    NotReading,
    /// The peer refused us.
    #[error("the peer refuses the connection: {reason}")]
    Rejected {
        /// The reason of the peer.
        reason: String,
    },
    /// The peer is of another network.
    #[error("the peer is of the network {found:?}, and {network} is followed (--network)")]
    OtherNetwork {
        /// The name of the peer's network.
        found: String,
        /// The network that is followed.
        network: Network,
    },
    /// The peer is too old.
    #[error("the peer has version {version} of the protocol, at least {min} is needed")]
    TooOld {
        /// The version of the peer.
        version: u32,
        /// The lowest version that sends UTXO sets as they are read here.
        min: u32,
    },
    /// The peer has another pruning point. It moves every few hours, and not at all nodes at the same time.
    #[error("block {block} is not the pruning point of the peer")]
    UnexpectedPruningPoint {
        /// The pruning point of the source.
        block: Hash,
    },
    /// A message exceeds the limit.
    #[error("a message has more than {bytes_max} bytes (message_bytes_max)")]
    MessageTooLong {
        /// The limit.
        bytes_max: usize,
    },
    /// A chunk of UTXOs cannot be decoded.
    #[error("a chunk of UTXOs is malformed: {field}")]
    MalformedChunk {
        /// The malformed field.
        field: &'static str,
    },
    /// A chunk has more UTXOs than kaspad sends.
    #[error("a chunk has more than {utxos_max} UTXOs")]
    ChunkTooLong {
        /// The limit.
        utxos_max: usize,
    },
    /// A chunk follows the last one, which is the one with fewer UTXOs than the others.
    #[error("a chunk of UTXOs follows the last one")]
    ChunkAfterLast,
    /// The set ends without the chunk that is shorter than the others, which may be empty.
    #[error("the UTXO set ends before its last chunk")]
    NoLastChunk,
    /// A UTXO comes twice.
    #[error("UTXO {} of {} is repeated", .outpoint.index, .outpoint.transaction_id)]
    Repeated {
        /// The UTXO.
        outpoint: Outpoint,
    },
    /// A UTXO comes after one that it precedes in the order of a node's database.
    #[error("UTXO {} of {} is out of order", .outpoint.index, .outpoint.transaction_id)]
    OutOfOrder {
        /// The UTXO.
        outpoint: Outpoint,
    },
    /// A UTXO is of a block above the pruning point.
    #[error(
        "UTXO {} of {} has the DAA score {score}, above {pruning_point_score} of the pruning point",
        .outpoint.index, .outpoint.transaction_id
    )]
    TooNew {
        /// The UTXO.
        outpoint: Outpoint,
        /// Its DAA score.
        score: u64,
        /// The DAA score of the pruning point.
        pruning_point_score: u64,
    },
    /// The set is longer than any that is expected.
    #[error("the UTXO set has more than {bytes_max} bytes (set_bytes_max)")]
    SetTooLong {
        /// The limit.
        bytes_max: u64,
    },
    /// The peer sends another set than the peer before. One of them lies, and the end of the set shows which.
    #[error("the peer sends other UTXOs than the one before, above the first {utxos}")]
    OtherSet {
        /// The number of UTXOs in chunks that both sent.
        utxos: u64,
    },
    /// The set is not the one to which the pruning point commits: a UTXO was changed, left out, added or is of another
    /// block.
    #[error(
        "the UTXO set of {utxos} UTXOs has the hash {computed}, and pruning point {block} commits to {committed}"
    )]
    WrongCommitment {
        /// The number of UTXOs.
        utxos: u64,
        /// The pruning point.
        block: Hash,
        /// The hash of the set.
        computed: Hash,
        /// The commitment of the pruning point.
        committed: Hash,
    },
}

impl PeerError {
    /// Converts the status of a stream.
    pub(crate) fn from_status(status: &Status, message_bytes_max: usize) -> Self {
        match status.code() {
            Code::OutOfRange => Self::MessageTooLong { bytes_max: message_bytes_max },
            code => {
                Self::Broken { reason: format!("{code:?}: {}", shorten_message(status.message())) }
            }
        }
    }

    /// Returns the text that anyone may read. It has no words of the peer or the system, which may name an address.
    pub(crate) fn public_text(&self) -> String {
        match self {
            Self::Broken { .. } => "the connection broke".to_owned(),
            Self::Rejected { .. } => "the peer refuses the connection".to_owned(),
            Self::OtherNetwork { .. } => "the peer is of another network".to_owned(),
            error => error.to_string(),
        }
    }

    /// Whether the peer sent a set that cannot be true, or can never send a set that is. It is not tried again.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::OtherNetwork { .. }
                | Self::TooOld { .. }
                | Self::MessageTooLong { .. }
                | Self::MalformedChunk { .. }
                | Self::ChunkTooLong { .. }
                | Self::ChunkAfterLast
                | Self::NoLastChunk
                | Self::Repeated { .. }
                | Self::OutOfOrder { .. }
                | Self::TooNew { .. }
                | Self::SetTooLong { .. }
                | Self::WrongCommitment { .. }
        )
    }
}
