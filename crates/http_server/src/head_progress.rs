//! The progress of a connection with the head of its next request.
//!
//! Not here: the time limits (`head_timer`).

use std::sync::atomic::{AtomicBool, Ordering};

/// The progress of a connection with the head of its next request. The socket and the timer share it.
#[derive(Default)]
pub(crate) struct HeadProgress {
    /// Whether there was a request before.
    is_used: AtomicBool,
    /// Whether bytes have arrived since the wait for the head began. Those that arrived before, with the previous
    /// request, are not known (`head_timer`).
    has_begun: AtomicBool,
}

impl HeadProgress {
    /// Notes that a head was complete.
    pub(crate) fn complete(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Notes that bytes have arrived.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Whether bytes have arrived since the wait for the head began.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Begins to wait for a head; returns whether there was a request before.
    pub(crate) fn begin_wait(&self) -> bool {
        self.has_begun.store(false, Ordering::Relaxed);
        self.is_used.load(Ordering::Relaxed)
    }
}
