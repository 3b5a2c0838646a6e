//! Answers on their way: one makes, the others wait.
//!
//! Whoever asks first gets a [`Turn`]: he may have to wait for his own turn before he makes anything, and others
//! might come to theirs earlier. So only he himself waits for that, if he asks again; anybody else gets a turn of
//! his own. Who comes to his turn first makes it ([`Fill`]), and from then on all wait for him.
//! Bounds: `waiters_max` who wait, each counted for as long as his [`Waiting`] lives; turns are their holders'.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::answers::{Cache, Entry, Weigh};

/// How somebody who waits is told: with the answer, or with nothing, and then he makes it himself.
pub type Tell<V> = Box<dyn FnOnce(Option<Arc<Entry<V>>>) + Send>;

/// Who waits for what.
pub(crate) struct Flights<V> {
    flights: HashMap<Box<[u8]>, Flight<V>>,
    waiters: usize,
    /// No two turns, and no two who wait, have the same number.
    next: u64,
}

struct Flight<V> {
    /// Somebody has a [`Fill`].
    is_begun: bool,
    /// The number of each turn that did not come yet, and whose it is.
    turns: Vec<(u64, u128)>,
    /// In the order of arrival; each with who he is.
    waiting: BTreeMap<u64, (u128, Tell<V>)>,
}

/// What came of asking for an answer that is not there.
pub(crate) enum Joined {
    /// It is to be made when his turn comes.
    Turn(u64),
    Waits(u64),
    TooMany,
}

impl<V> Flights<V> {
    /// Asks for `who`, who has nothing to make it with yet.
    pub(crate) fn join(
        &mut self,
        key: &[u8],
        who: u128,
        waiters_max: usize,
        tell: impl FnOnce() -> Tell<V>,
    ) -> Joined {
        let number = self.number();
        let flight = match self.flights.get_mut(key) {
            Some(flight) => flight,
            None => self.flights.entry(key.into()).or_default(),
        };
        if !flight.is_begun && !flight.turns.iter().any(|(_, whose)| *whose == who) {
            flight.turns.push((number, who));
            return Joined::Turn(number);
        }
        if self.waiters >= waiters_max {
            return Joined::TooMany;
        }
        flight.waiting.insert(number, (who, tell()));
        self.waiters += 1;
        Joined::Waits(number)
    }

    /// Asks for somebody who makes it at once if nobody does: then there is nothing to tell.
    pub(crate) fn begin(
        &mut self,
        key: &[u8],
        waiters_max: usize,
        tell: impl FnOnce() -> Option<Tell<V>>,
    ) -> Option<Joined> {
        let number = self.number();
        let flight = match self.flights.get_mut(key) {
            Some(flight) => flight,
            None => self.flights.entry(key.into()).or_default(),
        };
        if !flight.is_begun {
            flight.is_begun = true;
            return None;
        }
        let tell = (self.waiters < waiters_max).then(tell).flatten();
        let Some(tell) = tell else { return Some(Joined::TooMany) };
        // He waits for nobody but who has begun.
        flight.waiting.insert(number, (0, tell));
        self.waiters += 1;
        Some(Joined::Waits(number))
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn land(&mut self, key: &[u8]) -> Vec<Tell<V>> {
        let waiting = self.flights.remove(key).map(|flight| flight.waiting).unwrap_or_default();
        self.waiters -= waiting.len();
        waiting.into_values().map(|(_, tell)| tell).collect()
    }

    /// A turn is over, or will not come. Gives who waited for nobody else.
    fn end_turn(&mut self, key: &[u8], number: u64) -> Vec<Tell<V>> {
        let Some(flight) = self.flights.get_mut(key) else { return Vec::new() };
        let Some(at) = flight.turns.iter().position(|(turn, _)| *turn == number) else {
            return Vec::new();
        };
        let (_, who) = flight.turns.swap_remove(at);
        if flight.is_begun {
            return Vec::new();
        }
        let left = flight.waiting.extract_if(.., |_, (whose, _)| *whose == who);
        let left: Vec<_> = left.map(|(_, (_, tell))| tell).collect();
        self.waiters -= left.len();
        if flight.turns.is_empty() {
            self.flights.remove(key);
        }
        left
    }

    fn leave(&mut self, key: &[u8], number: u64) -> Option<Tell<V>> {
        let (_, tell) = self.flights.get_mut(key)?.waiting.remove(&number)?;
        self.waiters -= 1;
        Some(tell)
    }
}

impl<V> Default for Flights<V> {
    fn default() -> Self {
        Self { flights: HashMap::new(), waiters: 0, next: 0 }
    }
}

impl<V> Default for Flight<V> {
    fn default() -> Self {
        Self { is_begun: false, turns: Vec::new(), waiting: BTreeMap::new() }
    }
}

/// To make an answer once it is its holder's turn: [`Cache::begin`]. Dropped before that, it tells those of the
/// same asker who wait for it to ask again.
pub struct Turn<V: Weigh> {
    cache: Cache<V>,
    key: Box<[u8]>,
    number: u64,
}

impl<V: Weigh> Turn<V> {
    pub(crate) fn new(cache: Cache<V>, key: &[u8], number: u64) -> Self {
        Self { cache, key: key.into(), number }
    }
}

impl<V: Weigh> Drop for Turn<V> {
    fn drop(&mut self) {
        let left = self.cache.0.flights.lock().end_turn(&self.key, self.number);
        for tell in left {
            tell(None);
        }
    }
}

/// A place among those who wait. Dropped, nobody is told.
pub struct Waiting<V: Weigh> {
    cache: Cache<V>,
    key: Box<[u8]>,
    number: u64,
}

impl<V: Weigh> Waiting<V> {
    pub(crate) fn new(cache: Cache<V>, key: &[u8], number: u64) -> Self {
        Self { cache, key: key.into(), number }
    }
}

impl<V: Weigh> Drop for Waiting<V> {
    fn drop(&mut self) {
        let tell = self.cache.0.flights.lock().leave(&self.key, self.number);
        // Outside the lock.
        drop(tell);
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

    /// Where it will be kept.
    pub fn cache(&self) -> &Cache<V> {
        &self.cache
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
