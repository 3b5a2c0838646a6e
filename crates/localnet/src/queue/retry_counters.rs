//! Counts of the transactions that could not run yet (`retries`). The executing thread counts, and the metrics read.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts, written by the executing thread.
#[derive(Default)]
pub(crate) struct RetryCounters {
    waiting: AtomicU64,
    bytes: AtomicU64,
    retried: AtomicU64,
    expired: AtomicU64,
    refused: AtomicU64,
}

/// Transactions that could not run yet, and that wait for a write of their fee payer or nonce account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryStats {
    /// Transactions that wait.
    pub waiting: u64,
    /// Bytes of the transactions that wait.
    pub bytes: u64,
    /// Tries after the first one, since the start.
    pub retried: u64,
    /// Transactions that waited until their blockhash was too old or their retries were used up.
    pub expired: u64,
    /// Transactions that were dropped because too many waited, of all clients or of theirs.
    pub refused: u64,
}

impl RetryCounters {
    pub(crate) fn set_waiting(&self, count: u64, bytes: u64) {
        self.waiting.store(count, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_retried(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_expired(&self) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> RetryStats {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RetryStats {
            waiting: count(&self.waiting),
            bytes: count(&self.bytes),
            retried: count(&self.retried),
            expired: count(&self.expired),
            refused: count(&self.refused),
        }
    }
}
