//! The result of the checks of a bank's transactions, and the time that they take.

use std::sync::atomic::AtomicU64;

use chain_solana::ResultOrigin;
use ledger::BlockId;
use solana::TransactionFault;

/// The result of a bank's checks.
pub(crate) struct CheckedBank {
    pub(crate) bank: BlockId,
    pub(crate) fault: Option<TransactionFault>,
    pub(crate) results: ResultOrigin,
}

/// Time of the threads by check, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct CheckTimes {
    pub(crate) signatures: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) balances: AtomicU64,
}
