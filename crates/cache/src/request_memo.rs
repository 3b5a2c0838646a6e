//! Results that were computed from the text of a request, so that the same text is not parsed again.
//!
//! Only results that follow from the text alone belong here, or that know themselves when they are no longer valid.
//! Bounds: the bytes of all texts and results, and the length of a text ([`RequestMemo::new`]). The least used are
//! evicted.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::entry::Weight;

/// A longer text of a call is not stored: comparing it costs more, and parsing it is a smaller part of the request.
pub const TEXT_BYTES_MAX: usize = 512;

/// Bytes of an entry in addition to its text and its result.
const ENTRY_BYTES: u64 = 128;

/// Number of shards, so that threads seldom wait for each other. Each has its share of the bytes.
const SHARDS: usize = 4;

/// Computed results by the text of their request.
pub struct RequestMemo<T: Weight> {
    results: Cache<Box<[u8]>, Arc<T>, EntryWeighter>,
    text_bytes_max: usize,
}

impl<T: Weight> RequestMemo<T> {
    /// Creates an empty memo of `bytes_max` bytes, for texts of up to `text_bytes_max` bytes.
    pub fn new(bytes_max: u64, text_bytes_max: usize) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .weight_capacity(bytes_max)
            // An estimate only: the table grows.
            .estimated_items_capacity((bytes_max / 1_024).clamp(16, 65_536) as usize)
            .build();
        // Both capacities are set above.
        let options = options.expect("the options are complete");
        let hasher = DefaultHashBuilder::default();
        let results =
            Cache::with_options(options, EntryWeighter, hasher, DefaultLifecycle::default());
        Self { results, text_bytes_max }
    }

    /// Returns the result for a text.
    pub fn get(&self, text: &[u8]) -> Option<Arc<T>> {
        if text.len() > self.text_bytes_max {
            return None;
        }
        self.results.get(text)
    }

    /// Stores the result for a text, if the text is short.
    pub fn insert(&self, text: &[u8], value: T) {
        if text.len() <= self.text_bytes_max {
            self.results.insert(text.into(), Arc::new(value));
        }
    }

    /// Removes the result for a text.
    pub fn remove(&self, text: &[u8]) {
        self.results.remove(text);
    }

    /// Returns the bytes of all texts and results.
    pub fn bytes(&self) -> u64 {
        self.results.weight()
    }
}

#[derive(Clone)]
struct EntryWeighter;

impl<T: Weight> Weighter<Box<[u8]>, Arc<T>> for EntryWeighter {
    fn weight(&self, text: &Box<[u8]>, value: &Arc<T>) -> u64 {
        ENTRY_BYTES + text.len() as u64 + value.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Value(u32, u64);

    impl Weight for Value {
        fn bytes(&self) -> u64 {
            self.1
        }
    }

    #[test]
    fn short_texts_are_memoized_up_to_the_byte_limit() {
        const BYTES_MAX: u64 = 1 << 20;
        let memo = RequestMemo::new(BYTES_MAX, 10);
        memo.insert(b"one", Value(1, 4));
        assert_eq!(memo.get(b"one").as_deref(), Some(&Value(1, 4)));
        memo.insert(b"one", Value(2, 4));
        assert_eq!(memo.get(b"one").as_deref(), Some(&Value(2, 4)));
        assert_eq!(memo.get(b"two"), None);
        let long = [b'x'; 11];
        memo.insert(&long, Value(3, 4));
        assert_eq!(memo.get(&long), None);
        assert_eq!(memo.bytes(), ENTRY_BYTES + 3 + 4);
        memo.remove(b"one");
        assert_eq!((memo.get(b"one"), memo.bytes()), (None, 0));
        for n in 0..10_000_u32 {
            memo.insert(&n.to_le_bytes(), Value(n, 1_000));
        }
        assert!((BYTES_MAX / 2..=BYTES_MAX).contains(&memo.bytes()), "{}", memo.bytes());
        memo.insert(b"large", Value(4, BYTES_MAX));
        assert_eq!(memo.get(b"large"), None, "it is larger than the memo");
    }
}
