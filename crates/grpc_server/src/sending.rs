//! Bytes of messages that left a client's queue and are not written to its socket.
//!
//! Shape: a [`Count`] is dropped with the last byte that it counts. HTTP/2 drops the bytes of a frame when it has
//! written the frame, so the sum is exact to a frame, wherever the bytes are: in the response's body, in hyper, or in
//! HTTP/2.
//! Bounds: they are part of a [`QueueBudget`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::budget::QueueBudget;

/// Counts the bytes of one client.
pub struct Sending {
    budget: Arc<QueueBudget>,
    bytes: AtomicUsize,
}

impl Sending {
    /// Counts nothing yet. The bytes are a part of the budget.
    pub fn new(budget: Arc<QueueBudget>) -> Self {
        Self { budget, bytes: AtomicUsize::new(0) }
    }

    /// Returns the bytes that are not written.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Counts bytes that the budget has already.
    pub fn count(self: &Arc<Self>, bytes: usize) -> Count {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.budget.start_sending(bytes);
        Count { sending: Arc::clone(self), bytes }
    }

    /// Counts bytes of a message that was in no queue. `None` if the budget has no space for them.
    pub fn try_count(self: &Arc<Self>, bytes: usize) -> Option<Count> {
        self.budget.try_add(bytes).then(|| self.count(bytes))
    }

    /// Bytes were written, or dropped with their connection.
    fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.budget.end_sending(bytes);
    }
}

/// Bytes that are counted until this is dropped.
pub struct Count {
    sending: Arc<Sending>,
    bytes: usize,
}

impl Count {
    /// Counts the bytes of another too.
    pub fn merge(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Counts `bytes` from now on: a message was compressed.
    pub fn resize(&mut self, bytes: usize) {
        if bytes > self.bytes {
            // The message is on its way, so its bytes are counted beyond the bound too.
            self.sending.budget.add(bytes - self.bytes);
            let more = self.sending.count(bytes - self.bytes);
            self.merge(more);
        } else {
            self.sending.release(self.bytes - bytes);
            self.bytes = bytes;
        }
    }

    /// Returns `content` as bytes. Dropping their last part ends the count.
    pub fn attach(self, content: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Counted { content, _count: self })
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.sending.release(self.bytes);
    }
}

struct Counted<T> {
    content: T,
    _count: Count,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Counted<T> {
    fn as_ref(&self) -> &[u8] {
        self.content.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_message_ends_its_count() {
        let budget = Arc::new(QueueBudget::new(1_000));
        let sending = Arc::new(Sending::new(Arc::clone(&budget)));
        let mut message = sending.try_count(600).expect("space").attach(vec![0; 600]);
        assert!(sending.try_count(600).is_none(), "no space for two");
        let first = message.split_to(100);
        drop(message);
        assert_eq!((sending.bytes(), budget.used_bytes(), budget.sending()), (600, 600, 600));
        drop(first);
        assert_eq!((sending.bytes(), budget.used_bytes(), budget.sending()), (0, 0, 0));
    }

    #[test]
    fn counts_are_merged_and_resized() {
        let budget = Arc::new(QueueBudget::new(1_000));
        let sending = Arc::new(Sending::new(Arc::clone(&budget)));
        let mut count = sending.try_count(100).expect("space");
        count.merge(sending.try_count(200).expect("space"));
        assert_eq!(sending.bytes(), 300);
        count.resize(50);
        assert_eq!((sending.bytes(), budget.used_bytes()), (50, 50));
        count.resize(700);
        assert_eq!((sending.bytes(), budget.used_bytes()), (700, 700));
        drop(count);
        assert_eq!((sending.bytes(), budget.used_bytes()), (0, 0));
    }
}
