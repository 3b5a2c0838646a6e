//! What the writer puts off: new roots, the limits of history, freeing what readers saw before and what a source sent.
//!
//! In: roots, tips that moved, publications. Out: the same, for the writer to do once no reader waits (`writer`).
//! Bounds: [`RETIRED_MAX`] former versions, the accounts of one bank. The writer bounds the roots.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{BlockInfo, HistorySnapshot};
use feed::{AccountWrite, BankAccounts};
use ledger::BlockId;
use query::Retired;
use solana::Account;
use solana_account::ReadableAccount;

use crate::convert::WrittenAccount;

/// Former versions that are not freed at once.
const RETIRED_MAX: usize = 3;

/// What readers saw before a publication.
type RetiredVersions = (Arc<HistorySnapshot>, Retired<Account, BlockInfo>);

/// What is put off.
#[derive(Default)]
pub(crate) struct PutOff {
    pub(crate) roots: VecDeque<BlockId>,
    pub(crate) retired: Vec<RetiredVersions>,
    /// The accounts of the last bank as its source sent them. The ledger has them in its own form.
    pub(crate) sent: BankAccounts<WrittenAccount>,
    /// Whether the limits of history are to be enforced.
    pub(crate) has_limits: bool,
    /// When the first of it was put off.
    pub(crate) since: Option<Duration>,
    pub(crate) waits_for_child: bool,
}

impl PutOff {
    /// A bank is whole: its child may be created at any moment.
    pub(crate) fn wait_for_child(&mut self) {
        self.waits_for_child = true;
    }

    /// The child of the newest bank was created.
    pub(crate) fn begin(&mut self) {
        self.waits_for_child = false;
    }

    /// A bank is the root.
    pub(crate) fn root(&mut self, bank: BlockId, now: Duration) {
        self.roots.push_back(bank);
        self.since.get_or_insert(now);
    }

    /// The tip has moved.
    pub(crate) fn limits(&mut self, now: Duration) {
        self.has_limits = true;
        self.since.get_or_insert(now);
    }

    /// Readers do not see this any more.
    pub(crate) fn retire(&mut self, retired: RetiredVersions, now: Duration) {
        if self.retired.len() >= RETIRED_MAX {
            self.retired.clear();
        }
        self.retired.push(retired);
        self.since.get_or_insert(now);
    }

    /// The accounts of a bank, as its source sent them, are not needed any more.
    pub(crate) fn free_sent(&mut self, sent: BankAccounts<WrittenAccount>, now: Duration) {
        self.sent = sent;
        self.since.get_or_insert(now);
    }

    /// Estimated bytes of what is freed later. Cost: O(accounts).
    pub(crate) fn sent_bytes(&self) -> usize {
        let bytes = |write: &AccountWrite<WrittenAccount>| {
            size_of_val(write) + size_of::<Vec<u8>>() + write.account.account.0.data().len()
        };
        self.sent.iter().map(bytes).sum()
    }

    /// Whether the limits of history are enforced.
    pub(crate) fn is_within_limits(&self) -> bool {
        !self.has_limits
    }
}
