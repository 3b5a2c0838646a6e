//! Work that no reader waits for when a bank becomes visible: new roots, the limits of history, freeing what readers saw
//! before. What readers saw is freed by another thread ([`FreeThread`](crate::free_thread::FreeThread)).
//!
//! In: what was put off. Out: the same effects and events as at once, in the same order among themselves, once the child of
//! the newest bank has been created: its SlotHashes confirms the bank, and nothing may delay that.
//! Bounds: it waits [`WAIT_MAX`], until the next update or the next tick; [`ROOTS_MAX`] roots.

use std::time::{Duration, Instant};

use super::Writer;
use crate::error::FollowError;
use crate::put_off::PutOff;

/// How long work waits for the child of the newest bank.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// Roots that are put off at once.
const ROOTS_MAX: usize = 16;

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
        let taken = std::mem::take(&mut self.put_off);
        let PutOff { roots, retired, has_limits, sent, .. } = taken;
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
        self.freeing.free((retired, std::mem::take(&mut self.put_off.retired)));
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
