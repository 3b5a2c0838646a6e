//! The bound of the memory of accounts.
//!
//! In: the accounts that a transaction or a command writes, before and after. Out: whether they may be written.
//! A write that makes accounts longer is refused past the limit. A write of accounts that have data already is refused
//! only past a quarter more: the versions in blocks that are not final need memory, too. Wallets have no data, so
//! transfers continue.
//! Not here: the number of accounts (`--max-addresses`), the accounts that a new ledger starts with (`localnet`).

use std::sync::atomic::{AtomicU64, Ordering};

use query::TableFull;
use solana_account::{AccountSharedData, ReadableAccount};
use svm::is_same;

/// Bytes of accounts in memory, and their limit.
#[derive(Debug)]
pub struct AccountBytes {
    limit: u64,
    bytes: AtomicU64,
    refused: AtomicU64,
}

/// The state has no space for the writes of a transaction or a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoSpace {
    /// The address table is full.
    #[error(transparent)]
    Addresses(#[from] TableFull),
    /// The accounts would have too many bytes.
    #[error(
        "the accounts have {bytes} bytes, and {more} would be written: new data may use {limit}, and changes of \
         existing accounts a quarter more (--account-bytes-max)"
    )]
    AccountBytes {
        /// Bytes of all accounts in memory.
        bytes: u64,
        /// Bytes of data that would be written.
        more: u64,
        /// The setting. Existing accounts may change up to a quarter more.
        limit: u64,
    },
}

/// The bytes of data that writes need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WrittenBytes {
    /// Bytes by which accounts become longer.
    grown: u64,
    /// Bytes of the accounts that change.
    written: u64,
}

impl WrittenBytes {
    /// Adds the write of one account.
    pub(crate) fn add(&mut self, before: &AccountSharedData, after: &AccountSharedData) {
        let lengths = [before, after].map(|account| account.data().len() as u64);
        self.grown += lengths[1].saturating_sub(lengths[0]);
        if lengths[1] > 0 && !is_same(before, after) {
            self.written += lengths[1];
        }
    }
}

impl AccountBytes {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, bytes: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// Returns the bytes of all accounts in memory, when blocks were last published.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the limit of the bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the number of transactions and commands that were refused since the start.
    pub fn refused_writes(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn set_bytes(&self, bytes: usize) {
        self.bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Checks that there is space for writes, and counts a refusal.
    pub(crate) fn admit(&self, bytes: usize, writes: WrittenBytes) -> Result<(), NoSpace> {
        let admitted = self.check(bytes as u64, writes);
        if admitted.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Checks that there is space for the writes of a simulation.
    pub(crate) fn check_published(&self, writes: WrittenBytes) -> Result<(), NoSpace> {
        self.check(self.bytes(), writes)
    }

    fn check(&self, bytes: u64, writes: WrittenBytes) -> Result<(), NoSpace> {
        let limit = self.limit;
        let checks = [(writes.grown, limit), (writes.written, limit.saturating_add(limit / 4))];
        let is_full =
            |(more, limit): &(u64, u64)| *more > 0 && bytes.saturating_add(*more) > *limit;
        match checks.into_iter().find(is_full) {
            Some((more, _)) => Err(NoSpace::AccountBytes { bytes, more, limit }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(lamports: u64, bytes: usize) -> AccountSharedData {
        AccountSharedData::new(lamports, bytes, &Default::default())
    }

    fn writes(pairs: &[(usize, usize)]) -> WrittenBytes {
        let mut writes = WrittenBytes::default();
        pairs
            .iter()
            .for_each(|(before, after)| writes.add(&account(1, *before), &account(2, *after)));
        writes
    }

    #[test]
    fn accounts_grow_up_to_the_limit_and_change_up_to_a_quarter_more() {
        let accounts = AccountBytes::new(1_000);
        let grows = writes(&[(0, 60), (50, 90), (30, 10)]);
        assert_eq!(grows, WrittenBytes { grown: 100, written: 160 });
        assert_eq!(accounts.admit(900, grows), Ok(()));
        let full = NoSpace::AccountBytes { bytes: 901, more: 100, limit: 1_000 };
        assert_eq!(accounts.admit(901, grows), Err(full));
        let text = full.to_string();
        assert!(text.contains("901") && text.ends_with("(--account-bytes-max)"), "{text}");

        let changes = writes(&[(100, 100)]);
        assert_eq!(accounts.admit(1_150, changes), Ok(()));
        let full = NoSpace::AccountBytes { bytes: 1_151, more: 100, limit: 1_000 };
        assert_eq!(accounts.admit(1_151, changes), Err(full));
        // Transfers, deletions and unchanged accounts always fit.
        assert_eq!(accounts.admit(5_000, writes(&[(0, 0), (100, 0)])), Ok(()));
        let mut unchanged = WrittenBytes::default();
        unchanged.add(&account(1, 100), &account(1, 100));
        assert_eq!(accounts.admit(5_000, unchanged), Ok(()));
        assert_eq!(accounts.refused_writes(), 2);
    }
}
