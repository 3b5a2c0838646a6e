//! A cached value, its size, and when it is valid.

/// The size of a value.
pub trait Weight {
    /// The size in bytes.
    fn bytes(&self) -> u64;
}

/// A value with its dependencies.
#[derive(Debug)]
pub struct Entry<V> {
    /// The value; `None` if it is too large to cache, which is remembered.
    pub value: Option<V>,
    /// The version at which the value is valid. May be earlier than the version at which it was computed.
    pub valid_at: u64,
    /// What the value was computed from, in the caller's numbers.
    pub dependencies: Box<[u64]>,
}

impl<V> Entry<V> {
    /// Whether the value is valid at `now`.
    pub fn is_valid_at(&self, now: u64, changed_at: impl Fn(u64) -> u64) -> bool {
        // A value of a later version says nothing about earlier ones.
        self.valid_at <= now
            && self.dependencies.iter().all(|dependency| changed_at(*dependency) <= self.valid_at)
    }
}
