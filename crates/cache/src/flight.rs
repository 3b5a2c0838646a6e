//! Answers on their way: one makes, the others wait.

use std::collections::HashMap;
use std::sync::Arc;

use crate::answers::{Cache, Entry, Weigh};

/// How somebody who waits is told: with the answer, or with nothing, and then he makes it himself.
pub type Tell<V> = Box<dyn FnOnce(Option<Arc<Entry<V>>>) + Send>;

/// How far he is who is to make an answer that somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// He has the task, and may have to wait for his own turn.
    Queued,
    /// He is at it, and waits for nobody ([`Fill::begin`]).
    Begun,
}

/// Who waits for what. What is here is made by somebody who has a [`Fill`].
pub(crate) struct Flights<V> {
    flights: HashMap<Box<[u8]>, Flight<V>>,
    waiters: usize,
}

struct Flight<V> {
    maker: Maker,
    waiting: Vec<Tell<V>>,
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
        tell: impl FnOnce(Maker) -> Option<Tell<V>>,
    ) -> Joined {
        let Some(flight) = self.flights.get_mut(key) else {
            let flight = Flight { maker: Maker::Queued, waiting: Vec::new() };
            self.flights.insert(key.into(), flight);
            return Joined::Makes;
        };
        if self.waiters >= waiters_max {
            return Joined::Alone;
        }
        let Some(tell) = tell(flight.maker) else { return Joined::Alone };
        flight.waiting.push(tell);
        self.waiters += 1;
        Joined::Waits
    }

    fn begin(&mut self, key: &[u8]) {
        if let Some(flight) = self.flights.get_mut(key) {
            flight.maker = Maker::Begun;
        }
    }

    fn land(&mut self, key: &[u8]) -> Vec<Tell<V>> {
        let waiting = self.flights.remove(key).map_or_else(Vec::new, |flight| flight.waiting);
        self.waiters -= waiting.len();
        waiting
    }
}

impl<V> Default for Flights<V> {
    fn default() -> Self {
        Self { flights: HashMap::new(), waiters: 0 }
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

    /// It is being made, and from here on whoever makes it waits for nobody: those may wait for it whom he
    /// might have to wait for.
    pub fn begin(&self) {
        self.cache.0.flights.lock().begin(&self.key);
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
