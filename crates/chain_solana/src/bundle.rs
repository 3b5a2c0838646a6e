//! Bundles: transactions that a ledger executes one after another in one block, all of them or none.
//!
//! Shape: [`BundleSender::send_bundle`] queues a bundle like a single transaction; its result is taken later.
//! Bounds: [`BUNDLE_TRANSACTIONS_MAX`]; the queue counts each transaction of a bundle.
//! Invariant: each bundle gets a result. A dropped reply means that the ledger ended.
//! Not here: ids and statuses of bundles (`rpc_solana`). A followed chain takes no bundles.

use ledger::Slot;
use solana_signature::Signature;
use solana_transaction_error::TransactionError;

use crate::pending::{Pending, PendingSender};
use crate::{SendError, Sender, VerifiedTransaction};

/// Maximum number of transactions of a bundle, as in Jito's block engine.
pub const BUNDLE_TRANSACTIONS_MAX: usize = 5;

/// Why a bundle had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// A transaction of the bundle failed.
    #[error("transaction {signature} failed: {err}")]
    Transaction {
        /// The signature of the failed transaction.
        signature: Signature,
        /// The error of the failed transaction.
        err: TransactionError,
    },
    /// The ledger has no space for its accounts.
    #[error("the ledger has no space for the accounts (--max-addresses)")]
    LedgerFull,
    /// The accounts of the ledger would have too many bytes.
    #[error("the ledger's accounts would have more than {limit} bytes (--account-bytes-max)")]
    AccountBytesFull {
        /// Maximum bytes of all accounts.
        limit: u64,
    },
}

/// The result of a bundle: the slot of its block. It is sent once readers see the transactions.
pub type BundleResult = Result<Slot, BundleError>;

/// The result of a queued bundle, once it is executed.
pub type BundleCall = Pending<BundleResult>;

/// The sending half of a [`BundleCall`], for the ledger.
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
