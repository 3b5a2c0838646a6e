//! Answers on their way: one makes, the others wait.
//!
//! Whoever asks first gets a [`Turn`]: he may have to wait for his own turn before he makes anything, and others
//! might come to theirs earlier. So only he himself waits for that, if he asks again; anybody else gets a turn of
//! his own, up to [`TURNS_MAX`]. Who comes to his turn first makes it ([`Fill`]), and from then on all wait for him.
//! Bounds: `waiters_max` who wait, each counted for as long as his [`Waiting`] lives. Of those who have nothing to
//! make it with a client has at most as many as places are left, so that there is one for whoever comes next; the
//! others wait as tasks, and are bounded as such.

use std::collections::hash_map::Entry as Place;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::answers::{Cache, Entry, Weigh};

/// How somebody who waits is told: with the answer, or with nothing, and then he makes it himself.
pub type Tell<V> = Box<dyn FnOnce(Option<Arc<Entry<V>>>) + Send>;

/// Turns of one answer. Each is a task of its holder's, however long the answer takes, and one would do: of so
/// many the first comes about as soon as his own would have come to whoever waits for them.
pub(crate) const TURNS_MAX: usize = 8;

/// Who waits for what.
pub(crate) struct Flights<V> {
    flights: HashMap<Box<[u8]>, Flight<V>>,
    waiters: usize,
    /// Those of them who have nothing to make it with, of each client. Never 0.
    waiters_of: HashMap<u128, usize>,
    /// No two turns, and no two who wait, have the same number.
    next: u64,
}

struct Flight<V> {
    /// Somebody has a [`Fill`].
    is_begun: bool,
    /// The number of each turn that did not come yet, and whose it is.
    turns: Vec<(u64, u128)>,
    /// In the order of arrival.
    waiting: BTreeMap<u64, Waiter<V>>,
}

struct Waiter<V> {
    /// Who he is, if he has nothing to make it with.
    who: Option<u128>,
    /// Whose turn he waits for until somebody has begun.
    turn_of: Option<u128>,
    tell: Tell<V>,
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
        let waits = self.waiters_of.get(&who).copied().unwrap_or_default();
        let is_full = waits >= waiters_max.saturating_sub(self.waiters);
        let flight = match self.flights.get_mut(key) {
            Some(flight) => flight,
            None => self.flights.entry(key.into()).or_default(),
        };
        let has_turn = flight.turns.iter().any(|(_, whose)| *whose == who);
        if !flight.is_begun && !has_turn && flight.turns.len() < TURNS_MAX {
            flight.turns.push((number, who));
            return Joined::Turn(number);
        }
        if is_full {
            return Joined::TooMany;
        }
        let turn_of = match flight.is_begun {
            true => None,
            false if has_turn => Some(who),
            // One after another, so that who leaves his turn sends few to ask again.
            false => flight.turns.get(number as usize % TURNS_MAX).map(|(_, whose)| *whose),
        };
        flight.waiting.insert(number, Waiter { who: Some(who), turn_of, tell: tell() });
        self.waiters += 1;
        *self.waiters_of.entry(who).or_default() += 1;
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
        flight.waiting.insert(number, Waiter { who: None, turn_of: None, tell });
        self.waiters += 1;
        Some(Joined::Waits(number))
    }

    /// How many wait, and of how many clients there are any.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.waiters, self.waiters_of.len())
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn land(&mut self, key: &[u8]) -> Vec<Tell<V>> {
        let waiting = self.flights.remove(key).map(|flight| flight.waiting).unwrap_or_default();
        waiting.into_values().map(|waiter| self.tell(waiter)).collect()
    }

    /// He waits no more.
    fn tell(&mut self, waiter: Waiter<V>) -> Tell<V> {
        self.waiters -= 1;
        if let Some(who) = waiter.who
            && let Place::Occupied(mut waits) = self.waiters_of.entry(who)
        {
            *waits.get_mut() -= 1;
            if *waits.get() == 0 {
                waits.remove();
            }
        }
        waiter.tell
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
        let left = flight.waiting.extract_if(.., |_, waiter| waiter.turn_of == Some(who));
        let left: Vec<_> = left.map(|(_, waiter)| waiter).collect();
        if flight.turns.is_empty() {
            self.flights.remove(key);
        }
        left.into_iter().map(|waiter| self.tell(waiter)).collect()
    }

    fn leave(&mut self, key: &[u8], number: u64) -> Option<Tell<V>> {
        let waiter = self.flights.get_mut(key)?.waiting.remove(&number)?;
        Some(self.tell(waiter))
    }
}

impl<V> Default for Flights<V> {
    fn default() -> Self {
        Self { flights: HashMap::new(), waiters: 0, waiters_of: HashMap::new(), next: 0 }
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
