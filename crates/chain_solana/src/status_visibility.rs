//! Whether a transaction has a status for clients that request it.
//!
//! A cluster shows nothing of the open block, and notifies a subscriber of a transaction no later than it responds with
//! its status. A localnet executes a transaction while its client is still subscribing, and shows the accounts of the
//! open block. So it hides the status of a transaction at first. The status is shown once a client was notified of the
//! transaction, by any notification or result, or by the ledger after its block is complete.
//! Invariant: a server shows the status of a transaction before it sends anything about it to a client.
//! Cost: one atomic load to read, one atomic store to show.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a transaction has a status. By default it has one, as on a ledger that shows only complete blocks.
#[derive(Debug)]
pub struct StatusVisibility(AtomicBool);

impl StatusVisibility {
    /// Creates a hidden status, until [`Self::show`].
    pub fn hidden() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Shows the status permanently.
    pub fn show(&self) {
        // The status is shown already in most calls: they write nothing to memory that threads share.
        if !self.is_shown() {
            self.0.store(true, Ordering::Release);
        }
    }

    /// Whether clients get the status.
    pub fn is_shown(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Default for StatusVisibility {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Clone for StatusVisibility {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.is_shown()))
    }
}
