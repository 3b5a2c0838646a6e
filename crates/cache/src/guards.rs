//! The shares of callers in a flight: a ticket, a wait, or the fill itself. Each ends when it is dropped.

use std::sync::Arc;

use crate::cache::Cache;
use crate::entry::{Entry, Weight};

/// The right to fill a key once its holder is scheduled: [`Cache::start_fill`]. If it is dropped before that, waiters
/// of the same client are notified to look up again.
pub struct FillTicket<V: Weight> {
    cache: Cache<V>,
    key: Box<[u8]>,
    number: u64,
}

impl<V: Weight> FillTicket<V> {
    pub(crate) fn new(cache: Cache<V>, key: &[u8], number: u64) -> Self {
        Self { cache, key: key.into(), number }
    }
}

impl<V: Weight> Drop for FillTicket<V> {
    fn drop(&mut self) {
        let left = self.cache.0.single_flight.lock().release_ticket(&self.key, self.number);
        for on_filled in left {
            on_filled(None);
        }
    }
}

/// Counts one waiter. After it is dropped the waiter is not notified.
pub struct WaitGuard<V: Weight> {
    cache: Cache<V>,
    key: Box<[u8]>,
    number: u64,
}

impl<V: Weight> WaitGuard<V> {
    pub(crate) fn new(cache: Cache<V>, key: &[u8], number: u64) -> Self {
        Self { cache, key: key.into(), number }
    }
}

impl<V: Weight> Drop for WaitGuard<V> {
    fn drop(&mut self) {
        let on_filled = self.cache.0.single_flight.lock().cancel_waiter(&self.key, self.number);
        // Outside the lock.
        drop(on_filled);
    }
}

/// The task to compute a value. If it is dropped without one, the waiters are notified to compute it themselves.
pub struct FillGuard<V: Weight> {
    cache: Cache<V>,
    key: Box<[u8]>,
    entry: Option<Arc<Entry<V>>>,
    is_cacheable: bool,
}

impl<V: Weight> FillGuard<V> {
    pub(crate) fn new(cache: Cache<V>, key: &[u8]) -> Self {
        Self { cache, key: key.into(), entry: None, is_cacheable: true }
    }

    /// Returns the maximum bytes of a value that will be cached.
    pub fn bytes_max(&self) -> u64 {
        self.cache.entry_bytes_max()
    }

    /// Returns the cache that it fills.
    pub fn cache(&self) -> &Cache<V> {
        &self.cache
    }

    /// Completes the fill. Returns the cached entry.
    pub fn complete(mut self, entry: Entry<V>) -> Arc<Entry<V>> {
        let entry = Arc::new(entry);
        self.entry = Some(Arc::clone(&entry));
        entry
    }

    /// Ends the fill for its caller alone: the waiters compute the value themselves. `entry` has no value, and it is
    /// not cached.
    pub fn abort(mut self, entry: Entry<V>) {
        self.entry = Some(Arc::new(entry));
        self.is_cacheable = false;
    }
}

impl<V: Weight> Drop for FillGuard<V> {
    fn drop(&mut self) {
        let key = std::mem::take(&mut self.key);
        let entry = self.entry.take();
        if let Some(entry) = entry.as_ref().filter(|_| self.is_cacheable) {
            self.cache.insert(key.clone(), entry);
        }
        // Later callers find the entry, or start a new fill.
        let waiters = self.cache.0.single_flight.lock().complete_flight(&key);
        for on_filled in waiters {
            on_filled(entry.clone());
        }
    }
}
