//! The progress of a load, for another thread. It has no clock: rates are the reader's.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a running load. They only grow.
#[derive(Debug, Default)]
pub struct Progress {
    archive_bytes: AtomicU64,
    archive_bytes_total: AtomicU64,
    unpacked_bytes: AtomicU64,
    accounts: AtomicU64,
}

impl Progress {
    /// Bytes of the archives on disk that were read.
    pub fn archive_bytes(&self) -> u64 {
        self.archive_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the archives on disk; 0 until they are open.
    pub fn archive_bytes_total(&self) -> u64 {
        self.archive_bytes_total.load(Ordering::Relaxed)
    }

    /// Bytes of account storage that were loaded.
    pub fn unpacked_bytes(&self) -> u64 {
        self.unpacked_bytes.load(Ordering::Relaxed)
    }

    /// Accounts that were loaded, including older versions.
    pub fn accounts(&self) -> u64 {
        self.accounts.load(Ordering::Relaxed)
    }

    pub(crate) fn add_total(&self, bytes: u64) {
        self.archive_bytes_total.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn record_read(&self, bytes: usize) {
        self.archive_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn record_accounts(&self, accounts: u64, bytes: usize) {
        self.accounts.fetch_add(accounts, Ordering::Relaxed);
        self.unpacked_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
