//! A cached value, its size, and when it is valid.

/// A value that knows its own size.
pub trait Weight {
    /// Returns the size of the value in bytes.
    fn bytes(&self) -> u64;

    /// Returns the bytes of its content, without records and copies that only the cache needs.
    fn content_bytes(&self) -> u64 {
        self.bytes()
    }
}

/// A value with its dependencies.
#[derive(Debug)]
pub struct Entry<V> {
    /// The value; `None` if it is too large to cache, which is remembered.
    pub value: Option<V>,
    /// The version at which the value is valid. May be earlier than the version at which it was computed.
    pub valid_at: u64,
    /// The cells from which the value was computed, in the caller's numbers.
    pub dependencies: Box<[u64]>,
}

impl<V> Entry<V> {
    /// Returns an entry that remembers that the value is too large.
    pub(crate) fn without_value(&self) -> Self {
        let Self { valid_at, dependencies, .. } = self;
        Self { value: None, valid_at: *valid_at, dependencies: dependencies.clone() }
    }

    /// Returns whether the value is valid at `now`.
    pub fn is_valid_at(&self, now: u64, changed_at: impl Fn(u64) -> u64) -> bool {
        // The value of a later version may differ from that of an earlier one.
        self.valid_at <= now
            && self.dependencies.iter().all(|dependency| changed_at(*dependency) <= self.valid_at)
    }
}
