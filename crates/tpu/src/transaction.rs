//! A transaction as it came off the wire, and whoever takes it.

use std::time::Instant;

use bytes::Bytes;
use chain_solana::Sender;

/// A sender as the [`ConnectionAdmission`](crate::Gate) numbers them: one identity, or one address without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerId(pub u32);

/// One whole transaction.
#[derive(Clone, Debug)]
pub struct ReceivedTransaction {
    /// Its bytes, where they were received: a slice of the datagram's buffer if it came in one piece.
    /// The buffer is used again when the last slice of it is dropped.
    pub bytes: Bytes,
    /// Who sent it.
    pub peer: PeerId,
    /// When its first byte was read.
    pub since: Instant,
}

/// Takes transactions from a shard, on the shard's thread: it must neither wait nor work.
pub trait TransactionSink: Send + Sync + 'static {
    /// Takes all of `batch` and leaves it empty, so that its memory is used again.
    fn push_batch(&self, batch: &mut Vec<ReceivedTransaction>);

    /// How full whatever lies behind is: 0 for empty, 1 for full.
    fn pressure(&self) -> f32 {
        0.0
    }

    /// Whether `peer` has more waiting than its share.
    fn is_over_share(&self, _peer: PeerId) -> bool {
        false
    }

    /// What `peer` counts for, beside 1 for a stranger, and which client of the ledger it is.
    fn set_peer_weight(&self, _peer: PeerId, _sender: Sender) {}
}
