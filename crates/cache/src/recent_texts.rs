//! Remembers recent requests by the hash of their text, so that only responses to repeated ones are stored (as the
//! doorkeeper of TinyLFU).
//!
//! Bounds: a fixed number of slots, four bytes each. A text that loses its slot to another is no longer recent. Two
//! texts of the same hash count as the same one, so a result must not depend on it, only whether it is stored.

use std::sync::atomic::{AtomicU32, Ordering};

use quick_cache::DefaultHashBuilder;

/// The mark of an empty slot: those of texts are odd.
const EMPTY: u32 = 0;

/// The texts of recent requests.
pub struct RecentTexts {
    hasher: DefaultHashBuilder,
    slots: Box<[AtomicU32]>,
}

impl RecentTexts {
    /// Creates an empty record of at most `texts_max` texts, at least one.
    pub fn new(texts_max: usize) -> Self {
        let slots = (0..texts_max.max(1)).map(|_| AtomicU32::new(EMPTY)).collect();
        Self { hasher: DefaultHashBuilder::default(), slots }
    }

    /// Records a text. Returns whether it is recorded already.
    pub fn record(&self, text: &[u8]) -> bool {
        let (slot, mark) = self.find(text);
        slot.swap(mark, Ordering::Relaxed) == mark
    }

    /// Removes a text.
    pub fn forget(&self, text: &[u8]) {
        let (slot, mark) = self.find(text);
        // An error means that another text has its slot.
        let _ = slot.compare_exchange(mark, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the slot of a text, and its mark there.
    fn find(&self, text: &[u8]) -> (&AtomicU32, u32) {
        let hash = self.hasher.hash_one(text);
        let slot = &self.slots[hash as u32 as usize % self.slots.len()];
        (slot, (hash >> 32) as u32 | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_recent_until_others_have_its_slot() {
        let recent = RecentTexts::new(64);
        assert!(!recent.record(b"one"));
        assert!(recent.record(b"one"));
        recent.forget(b"two");
        assert!(recent.record(b"one"));
        recent.forget(b"one");
        assert!(!recent.record(b"one"));
        let repeated = (0..10_000_u32).filter(|n| recent.record(&n.to_le_bytes())).count();
        assert_eq!(repeated, 0, "each of them is new");
        assert!(!recent.record(b"one"), "another text has its slot");
    }
}
