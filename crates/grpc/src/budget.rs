//! The bytes of messages that wait for clients, in queues and in HTTP/2, and their bound.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of all queues, and of the messages that left them and are not written.
#[derive(Debug)]
pub(crate) struct QueueBudget {
    used: AtomicUsize,
    /// Of those, the bytes that left their queue.
    sending: AtomicUsize,
    pub(crate) bytes_max: usize,
}

impl QueueBudget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { used: AtomicUsize::new(0), sending: AtomicUsize::new(0), bytes_max }
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that left their queue and are not written.
    pub(crate) fn sending(&self) -> usize {
        self.sending.load(Ordering::Relaxed)
    }

    pub(crate) fn try_add(&self, bytes: usize) -> bool {
        let add = |used: usize| Some(used + bytes).filter(|sum| *sum <= self.bytes_max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Adds bytes whatever the bound: those by which a message grew when it was compressed.
    pub(crate) fn add(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were added leave their queue.
    pub(crate) fn start_sending(&self, bytes: usize) {
        self.sending.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that left their queue are written, or dropped.
    pub(crate) fn end_sending(&self, bytes: usize) {
        self.sending.fetch_sub(bytes, Ordering::Relaxed);
        self.release(bytes);
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
