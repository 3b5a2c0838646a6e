//! Work that the writer defers: new roots, banks to be executed, the limits of history, freeing former versions and the
//! accounts of a source.
//!
//! In: roots, tips that moved, publications. Out: the same, for the writer to apply once no reader waits (`writer`).
//! Bounds: [`RETIRED_MAX`] former versions, the accounts of one bank. The writer bounds the roots.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{BlockInfo, HistorySnapshot};
use feed::{BankAccounts, LastWrite};
use ledger::BlockId;
use query::Retired;
use solana::Account;
use solana_account::ReadableAccount;

use crate::convert::WrittenAccount;

/// Maximum time that deferred work waits for a child, or for the checks of a bank.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// Maximum number of former versions that are freed later.
const RETIRED_MAX: usize = 3;

/// The versions that a publication replaced.
type RetiredVersions = (Arc<HistorySnapshot>, Retired<Account, BlockInfo>);

/// Work that waits until no reader waits for the writer.
#[derive(Default)]
pub(crate) struct DeferredWork {
    pub(crate) roots: VecDeque<BlockId>,
    /// Banks that became the tip and may be executed.
    pub(crate) executions: Vec<BlockId>,
    pub(crate) retired: Vec<RetiredVersions>,
    /// The accounts of the last bank as its source sent them. The ledger has them in its own form.
    pub(crate) sent: BankAccounts<WrittenAccount>,
    /// Whether the limits of history must be enforced.
    pub(crate) has_limits: bool,
    /// When the oldest deferred work was added, since the writer's start.
    pub(crate) since: Option<Duration>,
    pub(crate) waits_for_child: bool,
}

impl DeferredWork {
    /// Makes deferred work wait for the child of a bank that is now whole: it may be created at any moment.
    pub(crate) fn wait_for_child(&mut self) {
        self.waits_for_child = true;
    }

    /// Ends the wait: the child of the newest bank was created.
    pub(crate) fn end_wait(&mut self) {
        self.waits_for_child = false;
    }

    /// Whether there is work that waits no longer. With `is_checking`, the result of a bank's checks is about to come,
    /// and a confirmation with it.
    pub(crate) fn is_due(&self, now: Duration, is_checking: bool) -> bool {
        let Some(since) = self.since else { return false };
        let waits = self.waits_for_child || is_checking;
        let is_full = self.retired.len() >= RETIRED_MAX;
        !waits || is_full || now.saturating_sub(since) >= WAIT_MAX
    }

    pub(crate) fn push_root(&mut self, bank: BlockId, now: Duration) {
        self.roots.push_back(bank);
        self.since.get_or_insert(now);
    }

    /// Defers queueing a bank for its execution.
    pub(crate) fn push_execution(&mut self, bank: BlockId, now: Duration) {
        self.executions.push(bank);
        self.since.get_or_insert(now);
    }

    /// Defers the limits of history, after the tip has moved.
    pub(crate) fn defer_limits(&mut self, now: Duration) {
        self.has_limits = true;
        self.since.get_or_insert(now);
    }

    /// Defers freeing versions that readers can no longer get.
    pub(crate) fn retire(&mut self, retired: RetiredVersions, now: Duration) {
        if self.retired.len() >= RETIRED_MAX {
            self.retired.clear();
        }
        self.retired.push(retired);
        self.since.get_or_insert(now);
    }

    /// Defers freeing the accounts of a bank as its source sent them.
    pub(crate) fn free_sent(&mut self, sent: BankAccounts<WrittenAccount>, now: Duration) {
        self.sent = sent;
        self.since.get_or_insert(now);
    }

    /// Estimates the bytes of the accounts that are freed later. Cost: O(accounts).
    pub(crate) fn sent_bytes(&self) -> usize {
        let bytes = |write: &LastWrite<WrittenAccount>| {
            size_of_val(write) + size_of::<Vec<u8>>() + write.account.account.0.data().len()
        };
        self.sent.iter().map(bytes).sum()
    }

    /// Whether no limit of history waits to be enforced.
    pub(crate) fn is_within_limits(&self) -> bool {
        !self.has_limits
    }
}

#[cfg(test)]
mod tests {
    use chain_solana::{History, HistoryLimits};
    use query::{Ledger, LedgerConfig};
    use testkit::test_ledger::block_info;

    use super::*;

    #[test]
    fn work_waits_for_the_child_and_for_checks_but_not_for_long() {
        let added = Duration::from_secs(1);
        let root = BlockId { slot: 1, version: 0 };
        let mut deferred = DeferredWork::default();
        assert!(!deferred.is_due(added, false), "there is none");
        deferred.wait_for_child();
        deferred.push_root(root, added);
        assert!(!deferred.is_due(added, false));
        deferred.end_wait();
        assert!(!deferred.is_due(added, true));
        assert!(deferred.is_due(added, false));
        assert!(!deferred.is_due(added + WAIT_MAX - Duration::from_nanos(1), true));
        assert!(deferred.is_due(added + WAIT_MAX, true));
    }

    #[test]
    fn a_full_list_of_former_versions_waits_for_nothing() {
        let info = block_info(1);
        let root = info.block;
        let history = History::new(HistoryLimits { blocks_max: 10, bytes_max: 1 << 20 }, root);
        let (mut ledger, _reader) =
            Ledger::<Account, BlockInfo>::new(LedgerConfig::new(1_000), root, Arc::new(info));
        let added = Duration::from_secs(1);
        let mut deferred = DeferredWork::default();
        deferred.wait_for_child();
        for _ in 0..RETIRED_MAX {
            assert!(!deferred.is_due(added, true));
            deferred.retire((history.publish_first(), ledger.publish_first()), added);
        }
        assert!(deferred.is_due(added, true));
    }
}
