//! Why a session with a source ended. Each variant calls for another action of the operator.

use std::time::Duration;

use chain_kaspa::Refusal;
use http_client::HttpClientError;
use kaspa::{BorshError, Hash, Method, Network, Outpoint, ServerError};
use tokio::task::JoinError;
use tokio_tungstenite::tungstenite;

/// Why a session with a source ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Nothing accepts connections there, or the certificate is not trusted.
    #[error("no connection")]
    Connect(#[source] Box<HttpClientError>),
    /// The server does not speak WebSocket.
    #[error("the WebSocket handshake failed")]
    Handshake(#[source] Box<tungstenite::Error>),
    /// The source took too long.
    #[error("no {what} within {limit:?}")]
    Timeout {
        /// The step that took too long.
        what: &'static str,
        /// The time limit of the operation.
        limit: Duration,
    },
    /// The source closed the connection. kaspad does not send a close frame.
    #[error("the source closed the connection")]
    Closed,
    /// The connection broke, or what came is not WebSocket.
    #[error("the connection broke")]
    Broken(#[source] Box<tungstenite::Error>),
    /// A message exceeds the limit.
    #[error("a message has {bytes} bytes, at most {bytes_max} are read (message_bytes_max)")]
    MessageTooLong {
        /// Bytes of the message, as far as they are known.
        bytes: usize,
        /// Bytes that are allowed.
        bytes_max: usize,
    },
    /// More notifications came while a reply was awaited than are stored.
    #[error(
        "more than {bytes_max} bytes of notifications came before a reply (notification_bytes_max)"
    )]
    TooManyNotifications {
        /// Bytes that are allowed.
        bytes_max: usize,
    },
    /// A message in JSON came. The source is another port of kaspad.
    #[error("the source sends text; fix: name its port for wRPC in Borsh")]
    Text,
    /// A binary message came on a port for JSON.
    #[error("the source sends binary messages; fix: name its port for wRPC in JSON")]
    Binary,
    /// A message in JSON cannot be decoded.
    #[error("a message of the source is malformed: {reason}")]
    InvalidJson {
        /// Description of the malformed field.
        reason: String,
    },
    /// A message cannot be decoded.
    #[error("a message of the source is malformed")]
    Malformed(#[from] BorshError),
    /// A reply came to another request than the one that was sent.
    #[error("a reply does not belong to the request for {name}")]
    UnexpectedReply {
        /// The name of the operation.
        name: &'static str,
    },
    /// A reply came without a request.
    #[error("a reply came without a request")]
    UnrequestedReply,
    /// A reply contradicts itself.
    #[error("the reply to {} contradicts itself: {what}", .method.name())]
    Contradiction {
        /// The method that was called.
        method: Method,
        /// The contradiction, in words.
        what: &'static str,
    },
    /// The source refused a call.
    #[error("the source refused {name}: {error}")]
    Refused {
        /// The name of the operation.
        name: &'static str,
        /// The error of the source.
        error: ServerError,
    },
    /// The source is of another network.
    #[error("the source is of {source_network}, and {network} is followed (--network)")]
    WrongNetwork {
        /// The network of the source.
        source_network: Network,
        /// The network that is followed.
        network: Network,
    },
    /// The source is too old. Its replies lack the covenants of outputs, which commitments cover.
    #[error("the source has the version {version}, at least {min} is needed")]
    TooOld {
        /// The version of the source.
        version: String,
        /// The lowest version that can be followed.
        min: &'static str,
    },
    /// The source has another version of wRPC.
    #[error("the source has version {version} of wRPC, not {expected}")]
    WrongRpcVersion {
        /// The version of the source.
        version: u16,
        /// The version that is known.
        expected: u16,
    },
    /// The source has none of our newest blocks.
    #[error(
        "the source does not have block {block}, nor one of our newest blocks below it: {error}; \
         it is behind, or it starts above our chain"
    )]
    UnknownChain {
        /// The newest block.
        block: Hash,
        /// The error of the source.
        error: ServerError,
    },
    /// The source has another chain than ours, with less work. It is behind.
    #[error("the chain of the source has less work than ours, which ends at block {sink}")]
    LessWork {
        /// Our newest block.
        sink: Hash,
    },
    /// A block is a lie, or the source is broken.
    #[error("block {block} is refused")]
    RefusedBlock {
        /// The hash that the source has for the block.
        block: Hash,
        /// The rule that the block breaks.
        #[source]
        reason: Refusal,
    },
    /// The source removes blocks that are final here.
    #[error(
        "{removed} blocks leave the chain, and only the newest {depth_max} can (--reorg-depth); \
         the chain starts again from a snapshot below them, if one of them is on the source's chain"
    )]
    TooDeep {
        /// The number of removed blocks.
        removed: usize,
        /// The number of blocks that may be removed.
        depth_max: usize,
    },
    /// A block that was requested in pieces lacks a transaction that it accepts.
    #[error(
        "transaction {transaction}, which block {block} accepts, is in no block that it merges"
    )]
    MissingTransaction {
        /// The chain block.
        block: Hash,
        /// The transaction.
        transaction: Hash,
    },
    /// A transaction of a block that was requested in pieces spends an output that does not exist.
    #[error("output {} of {} is spent and not in the UTXO set", .outpoint.index, .outpoint.transaction_id)]
    UnknownOutput {
        /// The transaction and the index of the output.
        outpoint: Outpoint,
    },
    /// No chain block came for some time, and there are other sources.
    #[error("no chain block within {limit:?} (stall_timeout)")]
    Stalled {
        /// The time limit of the operation.
        limit: Duration,
    },
    /// The writing thread has ended.
    #[error("the writing thread has ended")]
    WriterEnded,
    /// A message made its decoder panic, on another thread.
    #[error("a message could not be decoded: its decoder panicked")]
    DecoderPanicked,
}

impl SourceError {
    /// Converts an error of a connection.
    pub(crate) fn from_socket(error: tungstenite::Error) -> Self {
        use tungstenite::error::{CapacityError, ProtocolError};
        match error {
            tungstenite::Error::ConnectionClosed
            | tungstenite::Error::AlreadyClosed
            | tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                Self::Closed
            }
            tungstenite::Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
                Self::MessageTooLong { bytes: size, bytes_max: max_size }
            }
            error => Self::Broken(Box::new(error)),
        }
    }

    /// Converts the error of a task that decodes a message. A task that is cancelled ends with the follower.
    pub(crate) fn from_decoding(error: &JoinError) -> Self {
        if error.is_panic() { Self::DecoderPanicked } else { Self::WriterEnded }
    }

    /// Returns the text that anyone may read. Texts of the source are left out: they may be long or name an address.
    pub(crate) fn public_text(&self) -> String {
        match self {
            Self::UnknownChain { block, .. } => format!(
                "the source does not have block {block}, nor one of our newest blocks below it; it is behind, or it \
                 starts above our chain"
            ),
            Self::Refused { name, .. } => format!("the source refused {name}"),
            error => error.to_string(),
        }
    }

    /// Whether the source has another chain than ours from a final block on.
    pub(crate) fn is_halt(&self) -> bool {
        matches!(self, Self::TooDeep { .. } | Self::UnknownChain { .. })
    }

    /// Whether the source sent a block that cannot be true.
    pub fn is_lie(&self) -> bool {
        matches!(self, Self::RefusedBlock { .. } | Self::UnknownOutput { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_text_has_no_words_of_the_source() {
        let words = || ServerError::Text("cannot find header at 10.0.0.5".to_owned());
        let unknown = SourceError::UnknownChain { block: Hash([7; 32]), error: words() };
        let refused = SourceError::Refused { name: "getBlock", error: words() };
        for (error, expected) in [(unknown, "does not have block 0707"), (refused, "getBlock")] {
            assert!(error.to_string().contains("10.0.0.5"), "{error}");
            let text = error.public_text();
            assert!(text.contains(expected) && !text.contains("10.0.0.5"), "{text}");
        }
    }

    #[tokio::test]
    async fn a_decoder_that_panics_ends_the_session_only() {
        let panicked = tokio::spawn(async { panic!("a test") }).await;
        let error = panicked.map(|()| "nothing").expect_err("it panics");
        assert!(matches!(SourceError::from_decoding(&error), SourceError::DecoderPanicked));
        let cancelled = tokio::spawn(std::future::pending::<()>());
        cancelled.abort();
        let error = cancelled.await.expect_err("it is cancelled");
        assert!(matches!(SourceError::from_decoding(&error), SourceError::WriterEnded));
    }
}
