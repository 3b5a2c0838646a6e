//! The result of the checks of a bank's transactions, and what the checks take.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use chain_solana::ResultOrigin;
use ledger::BlockId;
use solana::TransactionFault;

/// The result of a bank's checks.
pub(crate) struct CheckedBank {
    pub(crate) bank: BlockId,
    pub(crate) fault: Option<TransactionFault>,
    pub(crate) results: ResultOrigin,
}

/// The time that the threads take by check, and what waits for them.
#[derive(Debug, Default)]
pub(crate) struct CheckMetrics {
    pub(crate) signature_nanos: AtomicU64,
    pub(crate) entry_nanos: AtomicU64,
    pub(crate) balance_nanos: AtomicU64,
    /// Tasks that wait for a thread.
    pub(crate) queued_tasks: AtomicU64,
    /// Bytes of tasks that are not done, without the transactions and blocks, which history has.
    pub(crate) task_bytes: AtomicU64,
    /// Banks whose checks have started and are not done.
    pub(crate) open_banks: AtomicU64,
    /// Banks above the root whose transactions are not proven.
    pub(crate) unproven_banks: AtomicU64,
}

/// The time in which transactions were checked, by check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckTimes {
    /// Signatures of transactions.
    pub signatures: Duration,
    /// Entries: the hashes between them, and the Merkle trees of their signatures.
    pub entries: Duration,
    /// Balances, transfers and failed writes, compared with accounts.
    pub balances: Duration,
}
