//! The bytes of a notification or of a long message: encoded once, shared by all queues and writers that have them, and
//! counted once until the last of them drops them.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use subscriptions::{Charge, QueueMemory};

use crate::message::{MessageKind, OutgoingMessage};

/// Bytes of the allocation in addition to the content.
const OVERHEAD_BYTES: usize = 80;

/// Bytes of a message that are counted while they are alive. Cloning shares them.
#[derive(Clone)]
pub struct SharedBytes(Arc<Inner>);

struct Inner {
    kind: MessageKind,
    bytes: Vec<u8>,
    charge: Charge,
}

impl SharedBytes {
    /// Creates a message, or the beginning of one, that is charged to `memory`
    /// ([`subscriptions::Subscriptions::queue_memory`]).
    pub fn new(message: impl Into<OutgoingMessage>, memory: &Arc<QueueMemory>) -> Self {
        let message = message.into();
        let kind = message.kind();
        let bytes = message.into_bytes();
        let charge = memory.charge(bytes.capacity() + OVERHEAD_BYTES);
        Self(Arc::new(Inner { kind, bytes, charge }))
    }

    /// Returns the kind of the message.
    pub fn kind(&self) -> MessageKind {
        self.0.kind
    }

    /// Returns its bytes in memory, divided by the number of its owners.
    pub(crate) fn memory(&self) -> usize {
        self.0.charge.bytes() / Arc::strong_count(&self.0)
    }

    /// Returns whether dropping this one frees the bytes.
    pub(crate) fn is_last(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({:?}, {} bytes)", self.kind(), self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_bytes_count_once_until_the_last_owner_drops_them() {
        let memory: Arc<QueueMemory> = Arc::default();
        let one = SharedBytes::new("x".repeat(1_000), &memory);
        let all = vec![one.clone(); 99];
        assert_eq!(memory.bytes(), 1_000 + OVERHEAD_BYTES);
        assert_eq!(one.memory(), (1_000 + OVERHEAD_BYTES) / 100);
        drop(all);
        assert!(one.is_last());
        drop(one);
        assert_eq!(memory.bytes(), 0);
    }
}
