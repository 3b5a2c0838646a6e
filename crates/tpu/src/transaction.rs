//! A received transaction, and the sink for it.

use std::time::Instant;

use bytes::Bytes;
use chain_solana::Sender;

/// The index of a peer in [`ConnectionAdmission`](crate::ConnectionAdmission): one identity, or one
/// address without an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerId(pub u32);

/// One complete transaction as it arrived.
#[derive(Clone, Debug)]
pub struct ReceivedTransaction {
    /// Bytes of the transaction: a slice of the datagram's buffer if it arrived in one piece. The buffer is reused
    /// when the last slice of it is dropped.
    pub bytes: Bytes,
    /// The peer that sent the transaction.
    pub peer: PeerId,
    /// Time at which its first byte was read.
    pub since: Instant,
}

/// Receives transactions on the shard's thread: it must not block or do expensive work.
pub trait TransactionSink: Send + Sync + 'static {
    /// Takes all of `batch` and leaves it empty, so that its memory is reused.
    fn push_batch(&self, batch: &mut Vec<ReceivedTransaction>);

    /// Returns the fill level of the queue behind it: 0 for empty, 1 for full.
    fn pressure(&self) -> f32 {
        0.0
    }

    /// Returns whether `peer` has more waiting than its share.
    fn is_over_share(&self, _peer: PeerId) -> bool {
        false
    }

    /// Sets the weight of `peer` and its client in the ledger. The default weight is 1.
    fn set_peer_weight(&self, _peer: PeerId, _sender: Sender) {}
}
