//! Transactions that were executed before a ledger's history starts, or in a gap of it.

use ledger::Slot;
use solana_signature::Signature;
use solana_transaction_error::TransactionError;

/// The results of transactions that are in no block of the history.
pub trait PreSnapshotStatuses: Send + Sync {
    /// Returns the slot and the result of a transaction. Its block is an ancestor of a confirmed one.
    fn find(&self, signature: &Signature) -> Option<(Slot, Result<(), TransactionError>)>;
}
