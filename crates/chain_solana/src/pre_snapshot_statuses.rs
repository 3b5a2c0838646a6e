//! Transactions that were executed before a ledger's history starts.

use ledger::Slot;
use solana_signature::Signature;
use solana_transaction_error::TransactionError;

/// The results of transactions that are in no block of the history.
pub trait PreSnapshotStatuses: Send + Sync {
    /// Returns the slot and the result of a finalized transaction.
    fn find(&self, signature: &Signature) -> Option<(Slot, Result<(), TransactionError>)>;
}
