//! Bundles: transactions that a ledger executes one after another in one block, all of them or none.
//!
//! Shape: [`BundleSender::send_bundle`] queues a bundle as if it was one transaction; its result is taken later.
//! Bounds: [`BUNDLE_TRANSACTIONS_MAX`]; the queue counts each transaction of a bundle.
//! Invariant: each bundle gets a result. A reply that is dropped means that the ledger ended.
//! Not here: ids and statuses of bundles (`rpc_solana`). A followed chain takes no bundles.

use ledger::Slot;
use solana_signature::Signature;
use solana_transaction_error::TransactionError;

use crate::pending::{Pending, PendingSender};
use crate::{SendError, Sender, VerifiedTransaction};

/// Transactions of a bundle at most, as Jito's block engine allows.
pub const BUNDLE_TRANSACTIONS_MAX: usize = 5;

/// Why a bundle had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// One of its transactions failed.
    #[error("transaction {signature} failed: {err}")]
    Transaction {
        /// Which one.
        signature: Signature,
        /// Why.
        err: TransactionError,
    },
    /// The ledger has no space for its accounts.
    #[error("the ledger has no space for the accounts (--max-addresses)")]
    LedgerFull,
}

/// The result of a bundle: the slot of the block that it is in. It is there once readers see the transactions.
pub type BundleResult = Result<Slot, BundleError>;

/// A bundle that has been queued.
pub type BundleCall = Pending<BundleResult>;

/// Where the result of a bundle goes.
pub type BundleReply = PendingSender<BundleResult>;

/// Accepts bundles for a ledger. Never blocks on the executing thread.
pub trait BundleSender: Send + Sync + 'static {
    /// Queues a bundle of 1 to [`BUNDLE_TRANSACTIONS_MAX`] transactions, among the transactions of its client and of
    /// the fee payer of its first transaction.
    fn send_bundle(
        &self,
        sender: Sender,
        transactions: Vec<VerifiedTransaction>,
    ) -> Result<BundleCall, SendError>;
}
