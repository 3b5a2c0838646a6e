//! What the writer puts off: new roots, the limits of history, what readers saw before.
//!
//! In: roots, tips that moved, publications. Out: the same, for the writer to do once no reader waits (`writer`).
//! Bounds: [`RETIRED_MAX`] former versions. The writer bounds the roots.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{BlockInfo, HistorySnapshot};
use ledger::BlockId;
use query::Retired;
use solana::Account;

/// Former versions that are not freed at once.
const RETIRED_MAX: usize = 3;

/// What readers saw before a publication.
type RetiredVersions = (Arc<HistorySnapshot>, Retired<Account, BlockInfo>);

/// What is put off.
#[derive(Default)]
pub(crate) struct PutOff {
    pub(crate) roots: VecDeque<BlockId>,
    pub(crate) retired: Vec<RetiredVersions>,
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

    /// Whether the limits of history are enforced.
    pub(crate) fn is_within_limits(&self) -> bool {
        !self.has_limits
    }
}
