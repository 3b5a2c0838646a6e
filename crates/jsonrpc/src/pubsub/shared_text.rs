//! The text of a notification: encoded once, shared by all queues and writers that have it, and counted once until
//! the last of them drops it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use subscriptions::{Charge, QueueMemory};

/// Bytes of the allocation in addition to the text.
const OVERHEAD_BYTES: usize = 80;

/// A text that is counted while it is alive. Cloning it shares it.
#[derive(Clone)]
pub struct SharedText(Arc<Inner>);

struct Inner {
    text: String,
    charge: Charge,
}

impl SharedText {
    /// A text that is charged to `memory` ([`subscriptions::Subscriptions::queue_memory`]).
    pub fn new(text: String, memory: &Arc<QueueMemory>) -> Self {
        let charge = memory.charge(text.capacity() + OVERHEAD_BYTES);
        Self(Arc::new(Inner { text, charge }))
    }

    /// Its bytes in memory, divided by the number of its owners.
    pub(super) fn memory(&self) -> usize {
        self.0.charge.bytes() / Arc::strong_count(&self.0)
    }

    /// Whether dropping this one frees the text.
    pub(super) fn is_last(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_text_counts_once_until_the_last_has_gone() {
        let memory: Arc<QueueMemory> = Arc::default();
        let one = SharedText::new("x".repeat(1_000), &memory);
        let all = vec![one.clone(); 99];
        assert_eq!(memory.bytes(), 1_000 + OVERHEAD_BYTES);
        assert_eq!(one.memory(), (1_000 + OVERHEAD_BYTES) / 100);
        drop(all);
        assert!(one.is_last());
        drop(one);
        assert_eq!(memory.bytes(), 0);
    }
}
