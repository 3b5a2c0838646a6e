//! Results that were computed from the text of a request, so that the same text is not parsed again.
//!
//! Only results that follow from the text alone belong here.
//! Bounds: the entries of [`RequestMemo::new`], with texts of up to [`TEXT_BYTES_MAX`] each. The least used are
//! evicted.

use std::sync::Arc;

use quick_cache::sync::Cache;

/// A longer text is not stored: comparing it costs more, and parsing it is a smaller part of the request.
pub const TEXT_BYTES_MAX: usize = 512;

/// Computed results by the text of their request.
pub struct RequestMemo<T>(Cache<Box<[u8]>, Arc<T>>);

impl<T> RequestMemo<T> {
    /// Creates an empty memo of at most `entries_max` entries.
    pub fn new(entries_max: usize) -> Self {
        Self(Cache::new(entries_max))
    }

    /// Returns the result for a text.
    pub fn get(&self, text: &[u8]) -> Option<Arc<T>> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        self.0.get(text)
    }

    /// Stores the result for a text, if the text is short.
    pub fn insert(&self, text: &[u8], value: T) {
        if text.len() <= TEXT_BYTES_MAX {
            self.0.insert(text.into(), Arc::new(value));
        }
    }

    /// Returns the number of stored texts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no text is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_memoized_up_to_the_entry_limit() {
        let memo = RequestMemo::new(100);
        memo.insert(b"one", 1);
        assert_eq!(memo.get(b"one").as_deref(), Some(&1));
        memo.insert(b"one", 2);
        assert_eq!(memo.get(b"one").as_deref(), Some(&2));
        assert_eq!(memo.get(b"two"), None);
        let long = [b'x'; TEXT_BYTES_MAX + 1];
        memo.insert(&long, 3);
        assert_eq!(memo.get(&long), None);
        assert_eq!(memo.len(), 1);
        for n in 0..10_000_u32 {
            memo.insert(&n.to_le_bytes(), n);
        }
        assert!((50..=100).contains(&memo.len()), "{}", memo.len());
    }
}
