//! Work that no reader waits for when a bank becomes visible: new roots, the limits of history, freeing former
//! versions.
//! Another thread frees the versions ([`FreeThread`](crate::free_thread::FreeThread)).
//!
//! In: deferred work. Out: the deferred effects and events, in their original order, after the newest bank has a child
//! and the transactions of all banks are checked. The child's SlotHashes and the checks confirm the bank, so deferred
//! work waits for them.
//! Bounds: it runs earlier after 50 ms, or if its list of versions is full ([`DeferredWork::is_due`]), at the next update
//! or the next tick; [`ROOTS_MAX`] roots.

use std::time::Instant;

use super::Writer;
use crate::deferred::DeferredWork;
use crate::error::FollowError;

/// Maximum number of deferred roots.
const ROOTS_MAX: usize = 16;

impl Writer {
    /// Runs deferred work unless it still waits for the child bank, or for the checks of a bank.
    pub(super) fn run_deferred_if_due(&mut self, now: Instant) -> Result<(), FollowError> {
        let since_start = now.saturating_duration_since(self.started);
        if !self.deferred.is_due(since_start, self.verification.is_checking()) {
            return Ok(());
        }
        self.run_deferred()
    }

    /// Runs all deferred work at once.
    pub(super) fn run_deferred(&mut self) -> Result<(), FollowError> {
        let taken = std::mem::take(&mut self.deferred);
        let DeferredWork { roots, executions, retired, has_limits, sent, .. } = taken;
        // A new root removes the states that are read here.
        self.queue_executions(executions);
        let is_new = has_limits || !roots.is_empty();
        if has_limits {
            self.history.enforce_limits();
        }
        roots.into_iter().try_for_each(|bank| self.set_root(bank))?;
        if is_new {
            self.publish();
        }
        // Here, because their bytes are counted until they are freed.
        drop(sent);
        self.free_thread.free((retired, std::mem::take(&mut self.deferred.retired)));
        self.deferred.since = None;
        self.ledger.reclaim();
        Ok(())
    }

    /// Applies roots beyond the bound. The next publication shows them.
    pub(super) fn root_surplus(&mut self) -> Result<(), FollowError> {
        while self.deferred.roots.len() > ROOTS_MAX
            && let Some(bank) = self.deferred.roots.pop_front()
        {
            self.set_root(bank)?;
        }
        Ok(())
    }
}
