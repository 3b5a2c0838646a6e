//! The sender of transactions of a replica without an upstream.

use chain_solana::{SendError, Sender, TransactionSender, VerifiedTransaction};

/// Refuses every transaction, with an error that names `--upstream`.
pub(super) struct RefusingSender;

impl TransactionSender for RefusingSender {
    fn send(&self, _: Sender, _: VerifiedTransaction) -> Result<(), SendError> {
        Err(SendError::NoUpstream)
    }
}
