//! What was worked out of a request before, found by its text as it came: so that who sends the same text
//! again is not read again.
//!
//! It is worth keeping only what follows from the text alone. What does not, ask again.
//! Bounds: [`RequestMemo::new`]'s entries, with texts of [`TEXT_BYTES_MAX`] each; those least asked for make room.

use std::sync::Arc;

use quick_cache::sync::Cache;

/// A longer text is not kept: it costs more to compare, and less beside what it asks for.
pub const TEXT_BYTES_MAX: usize = 512;

/// What is known, by text.
pub struct RequestMemo<T>(Cache<Box<[u8]>, Arc<T>>);

impl<T> RequestMemo<T> {
    /// Nothing yet; at most so many entries.
    pub fn new(entries_max: usize) -> Self {
        Self(Cache::new(entries_max))
    }

    /// What is known of a text.
    pub fn get(&self, text: &[u8]) -> Option<Arc<T>> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        self.0.get(text)
    }

    /// Keeps what is known of a text, if that is short.
    pub fn insert(&self, text: &[u8], known: T) {
        if text.len() <= TEXT_BYTES_MAX {
            self.0.insert(text.into(), Arc::new(known));
        }
    }

    /// How many texts are kept.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_memoized_up_to_the_entry_limit() {
        let known = RequestMemo::new(100);
        known.insert(b"one", 1);
        assert_eq!(known.get(b"one").as_deref(), Some(&1));
        known.insert(b"one", 2);
        assert_eq!(known.get(b"one").as_deref(), Some(&2));
        assert_eq!(known.get(b"two"), None);
        let long = [b'x'; TEXT_BYTES_MAX + 1];
        known.insert(&long, 3);
        assert_eq!(known.get(&long), None);
        assert_eq!(known.len(), 1);
        for n in 0..10_000_u32 {
            known.insert(&n.to_le_bytes(), n);
        }
        assert!((50..=100).contains(&known.len()), "{}", known.len());
    }
}
