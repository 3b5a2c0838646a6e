//! Answers on their way: one makes, the others wait.

use std::collections::HashMap;
use std::sync::Arc;

use crate::answers::{Cache, Entry, Weigh};

/// How somebody who waits is told: with the answer, or with nothing, and then he makes it himself.
pub type Tell<V> = Box<dyn FnOnce(Option<Arc<Entry<V>>>) + Send>;

/// Who waits for what. What is here is made by somebody who has a [`Fill`].
pub(crate) struct Flights<V> {
    waiting: HashMap<Box<[u8]>, Vec<Tell<V>>>,
    waiters: usize,
}

/// What came of asking for an answer that is not there.
pub(crate) enum Joined {
    Makes,
    Waits,
    /// Too many wait, or he does not.
    Alone,
}

impl<V> Flights<V> {
    pub(crate) fn join(
        &mut self,
        key: &[u8],
        waiters_max: usize,
        tell: impl FnOnce() -> Option<Tell<V>>,
    ) -> Joined {
        let Some(waiting) = self.waiting.get_mut(key) else {
            self.waiting.insert(key.into(), Vec::new());
            return Joined::Makes;
        };
        if self.waiters >= waiters_max {
            return Joined::Alone;
        }
        let Some(tell) = tell() else { return Joined::Alone };
        waiting.push(tell);
        self.waiters += 1;
        Joined::Waits
    }

    fn land(&mut self, key: &[u8]) -> Vec<Tell<V>> {
        let waiting = self.waiting.remove(key).unwrap_or_default();
        self.waiters -= waiting.len();
        waiting
    }
}

impl<V> Default for Flights<V> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), waiters: 0 }
    }
}

/// The task to make an answer. Dropped without one, it tells whoever waits to make it himself.
pub struct Fill<V: Weigh> {
    cache: Cache<V>,
    key: Box<[u8]>,
    entry: Option<Arc<Entry<V>>>,
    keeps: bool,
}

impl<V: Weigh> Fill<V> {
    pub(crate) fn new(cache: Cache<V>, key: &[u8]) -> Self {
        Self { cache, key: key.into(), entry: None, keeps: true }
    }

    /// How large the answer may be to be kept.
    pub fn bytes_max(&self) -> u64 {
        self.cache.entry_bytes_max()
    }

    /// The answer is made. Gives it as it is kept.
    pub fn done(mut self, entry: Entry<V>) -> Arc<Entry<V>> {
        let entry = Arc::new(entry);
        self.entry = Some(Arc::clone(&entry));
        entry
    }

    /// It is made for whoever made it alone, and those who wait are to make it themselves: there is no
    /// answer in `entry`, and it is not kept.
    pub fn not_now(mut self, entry: Entry<V>) {
        self.entry = Some(Arc::new(entry));
        self.keeps = false;
    }
}

impl<V: Weigh> Drop for Fill<V> {
    fn drop(&mut self) {
        let key = std::mem::take(&mut self.key);
        let entry = self.entry.take();
        if let Some(entry) = entry.as_ref().filter(|_| self.keeps) {
            self.cache.keep(key.clone(), entry);
        }
        // Whoever comes from here on finds it kept, or makes it anew.
        let waiting = self.cache.0.flights.lock().land(&key);
        for tell in waiting {
            tell(entry.clone());
        }
    }
}
