//! Work that no reader waits for when a bank becomes visible: new roots, the limits of history, freeing what readers saw
//! before.
//!
//! In: roots, tips that moved, publications. Out: the same effects and events as at once, in the same order among themselves, once
//! the child of the newest bank has been created: its SlotHashes confirms the bank, and nothing may delay that.
//! Bounds: it waits [`WAIT_MAX`], until the next update or the next tick; [`ROOTS_MAX`] roots, [`RETIRED_MAX`] former
//! versions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain_solana::{BlockInfo, HistorySnapshot};
use ledger::BlockId;
use query::Retired;
use solana::Account;

use super::Writer;
use crate::error::FollowError;

/// How long work waits for the child of the newest bank.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// Roots that are put off at once.
const ROOTS_MAX: usize = 16;

/// Former versions that are not freed at once.
const RETIRED_MAX: usize = 3;

/// What readers saw before a publication.
type RetiredVersions = (Arc<HistorySnapshot>, Retired<Account, BlockInfo>);

/// What is put off.
#[derive(Default)]
pub(super) struct PutOff {
    roots: VecDeque<BlockId>,
    retired: Vec<RetiredVersions>,
    /// Whether the limits of history are to be enforced.
    has_limits: bool,
    /// When the first of it was put off.
    since: Option<Duration>,
    waits_for_child: bool,
}

impl PutOff {
    /// A bank is whole: its child may be created at any moment.
    pub(super) fn wait_for_child(&mut self) {
        self.waits_for_child = true;
    }

    /// The child of the newest bank was created.
    pub(super) fn begin(&mut self) {
        self.waits_for_child = false;
    }

    /// A bank is the root.
    pub(super) fn root(&mut self, bank: BlockId, now: Duration) {
        self.roots.push_back(bank);
        self.since.get_or_insert(now);
    }

    /// The tip has moved.
    pub(super) fn limits(&mut self, now: Duration) {
        self.has_limits = true;
        self.since.get_or_insert(now);
    }

    /// Readers do not see this any more.
    pub(super) fn retire(&mut self, retired: RetiredVersions, now: Duration) {
        if self.retired.len() >= RETIRED_MAX {
            self.retired.clear();
        }
        self.retired.push(retired);
        self.since.get_or_insert(now);
    }

    /// Whether the limits of history are enforced.
    pub(super) fn is_within_limits(&self) -> bool {
        !self.has_limits
    }
}

impl Writer {
    /// Does what was put off, if it waits for nothing any more.
    pub(super) fn do_due(&mut self, now: Instant) -> Result<(), FollowError> {
        let Some(since) = self.put_off.since else { return Ok(()) };
        let waited = now.saturating_duration_since(self.started).saturating_sub(since);
        if self.put_off.waits_for_child && waited < WAIT_MAX {
            return Ok(());
        }
        self.do_put_off()
    }

    /// Does what was put off.
    pub(super) fn do_put_off(&mut self) -> Result<(), FollowError> {
        let PutOff { roots, retired, has_limits, .. } = std::mem::take(&mut self.put_off);
        let is_new = has_limits || !roots.is_empty();
        if has_limits {
            self.history.enforce_limits();
        }
        roots.into_iter().try_for_each(|bank| self.set_root(bank))?;
        if is_new {
            self.publish();
        }
        drop((retired, std::mem::take(&mut self.put_off.retired)));
        self.put_off.since = None;
        self.ledger.reclaim();
        Ok(())
    }

    /// Applies roots beyond the bound. They are published with what follows.
    pub(super) fn root_surplus(&mut self) -> Result<(), FollowError> {
        while self.put_off.roots.len() > ROOTS_MAX
            && let Some(bank) = self.put_off.roots.pop_front()
        {
            self.set_root(bank)?;
        }
        Ok(())
    }
}
