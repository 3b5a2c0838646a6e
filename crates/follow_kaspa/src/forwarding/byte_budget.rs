//! A number of bytes that calls may use together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a permit.
const PERMIT_BYTES: usize = 1_024;

/// A number of bytes that calls may use together. Clones share it.
#[derive(Clone)]
pub(super) struct ByteBudget {
    permits: Arc<Semaphore>,
    permits_max: usize,
}

impl ByteBudget {
    pub(super) fn new(bytes_max: usize) -> Self {
        let permits_max = bytes_max.div_ceil(PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self { permits: Arc::new(Semaphore::new(permits_max)), permits_max }
    }

    /// Reserves the bytes of a message until the permit is dropped. `None` if they are not free. A message that is longer
    /// than the budget takes all of it.
    pub(super) fn try_reserve(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let permits = bytes.div_ceil(PERMIT_BYTES).clamp(1, self.permits_max);
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        Arc::clone(&self.permits).try_acquire_many_owned(permits).ok()
    }

    /// Returns the bytes that are reserved, in whole permits.
    pub(super) fn bytes_in_use(&self) -> usize {
        (self.permits_max - self.permits.available_permits()) * PERMIT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_free_again_once_their_permit_is_dropped() {
        let budget = ByteBudget::new(4 * PERMIT_BYTES);
        let one = budget.try_reserve(1).expect("a permit");
        let three = budget.try_reserve(2 * PERMIT_BYTES + 1).expect("three permits");
        assert_eq!(budget.bytes_in_use(), 4 * PERMIT_BYTES);
        assert!(budget.try_reserve(0).is_none());
        drop(one);
        assert!(budget.try_reserve(PERMIT_BYTES + 1).is_none());
        drop(three);
        let all = budget.try_reserve(usize::MAX).expect("all of them");
        assert_eq!(budget.bytes_in_use(), 4 * PERMIT_BYTES);
        drop(all);
        assert_eq!(budget.bytes_in_use(), 0);
    }
}
