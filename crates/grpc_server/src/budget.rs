//! The bytes of messages that wait for clients, in queues and in HTTP/2, and their bound.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of all queues, and of the messages that left them and are not written.
#[derive(Debug)]
pub struct QueueBudget {
    used: AtomicUsize,
    /// Of those, the bytes that left their queue.
    sending: AtomicUsize,
    /// The most bytes that [`Self::try_add`] admits.
    pub bytes_max: usize,
}

impl QueueBudget {
    /// Creates an empty budget.
    pub fn new(bytes_max: usize) -> Self {
        Self { used: AtomicUsize::new(0), sending: AtomicUsize::new(0), bytes_max }
    }

    /// Returns the bytes in queues, and those that are not written.
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the bytes that left their queue and are not written.
    pub fn sending(&self) -> usize {
        self.sending.load(Ordering::Relaxed)
    }

    /// Adds bytes. Returns false, and adds nothing, if they exceed the bound.
    pub fn try_add(&self, bytes: usize) -> bool {
        let add = |used: usize| Some(used + bytes).filter(|sum| *sum <= self.bytes_max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Adds bytes whatever the bound: those by which a message grew when it was compressed.
    pub fn add(&self, bytes: usize) {
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

    /// Removes bytes that were added and left no queue.
    pub fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
