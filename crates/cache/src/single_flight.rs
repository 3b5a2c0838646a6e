//! Answers on their way: one makes, the others wait.
//!
//! Whoever asks first gets a [`Ticket`]: he may have to wait for his own turn before he makes anything, and others
//! might come to theirs earlier. So only he himself waits for that, if he asks again; anybody else gets a turn of
//! his own, up to [`LEADERS_MAX`]. Who comes to his turn first makes it ([`FillGuard`]), and from then on all wait for him.
//! Bounds: `waiters_max` who wait, each counted for as long as his [`WaitGuard`] lives. Of those who have nothing to
//! make it with a client has at most as many as places are left, so that there is one for whoever comes next; the
//! others wait as tasks, and are bounded as such.

use std::collections::hash_map::Entry as HashMapEntry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cache::{Cache, Entry, Weight};

/// How somebody who waits is told: with the answer, or with nothing, and then he makes it himself.
pub type OnFilled<V> = Box<dyn FnOnce(Option<Arc<Entry<V>>>) + Send>;

/// Turns of one answer. Each is a task of its holder's, however long the answer takes, and one would do: of so
/// many the first comes about as soon as his own would have come to whoever waits for them.
pub(crate) const LEADERS_MAX: usize = 8;

/// Who waits for what.
pub(crate) struct SingleFlight<V> {
    flights: HashMap<Box<[u8]>, Flight<V>>,
    waiters: usize,
    /// Those of them who have nothing to make it with, of each client. Never 0.
    waiters_by_client: HashMap<u128, usize>,
    /// No two turns, and no two who wait, have the same number.
    next: u64,
}

struct Flight<V> {
    /// Somebody has a [`FillGuard`].
    is_filling: bool,
    /// The number of each turn that did not come yet, and whose it is.
    tickets: Vec<(u64, u128)>,
    /// In the order of arrival.
    waiters: BTreeMap<u64, Waiter<V>>,
}

struct Waiter<V> {
    /// Who he is, if he has nothing to make it with.
    client: Option<u128>,
    /// Whose turn he waits for until somebody has begun.
    ticket_owner: Option<u128>,
    on_filled: OnFilled<V>,
}

/// What came of asking for an answer that is not there.
pub(crate) enum JoinOutcome {
    /// It is to be made when his turn comes.
    Ticket(u64),
    Wait(u64),
    TooMany,
}

impl<V> SingleFlight<V> {
    /// Asks for `who`, who has nothing to make it with yet.
    pub(crate) fn join(
        &mut self,
        key: &[u8],
        who: u128,
        waiters_max: usize,
        tell: impl FnOnce() -> OnFilled<V>,
    ) -> JoinOutcome {
        let number = self.allocate_number();
        let waits = self.waiters_by_client.get(&who).copied().unwrap_or_default();
        let is_full = waits >= waiters_max.saturating_sub(self.waiters);
        let flight = match self.flights.get_mut(key) {
            Some(flight) => flight,
            None => self.flights.entry(key.into()).or_default(),
        };
        let has_turn = flight.tickets.iter().any(|(_, whose)| *whose == who);
        if !flight.is_filling && !has_turn && flight.tickets.len() < LEADERS_MAX {
            flight.tickets.push((number, who));
            return JoinOutcome::Ticket(number);
        }
        if is_full {
            return JoinOutcome::TooMany;
        }
        let turn_of = match flight.is_filling {
            true => None,
            false if has_turn => Some(who),
            // One after another, so that who leaves his turn sends few to ask again.
            false => flight.tickets.get(number as usize % LEADERS_MAX).map(|(_, whose)| *whose),
        };
        flight
            .waiters
            .insert(number, Waiter { client: Some(who), ticket_owner: turn_of, on_filled: tell() });
        self.waiters += 1;
        *self.waiters_by_client.entry(who).or_default() += 1;
        JoinOutcome::Wait(number)
    }

    /// Asks for somebody who makes it at once if nobody does: then there is nothing to tell.
    pub(crate) fn start(
        &mut self,
        key: &[u8],
        waiters_max: usize,
        tell: impl FnOnce() -> Option<OnFilled<V>>,
    ) -> Option<JoinOutcome> {
        let number = self.allocate_number();
        let flight = match self.flights.get_mut(key) {
            Some(flight) => flight,
            None => self.flights.entry(key.into()).or_default(),
        };
        if !flight.is_filling {
            flight.is_filling = true;
            return None;
        }
        let tell = (self.waiters < waiters_max).then(tell).flatten();
        let Some(tell) = tell else { return Some(JoinOutcome::TooMany) };
        flight.waiters.insert(number, Waiter { client: None, ticket_owner: None, on_filled: tell });
        self.waiters += 1;
        Some(JoinOutcome::Wait(number))
    }

    /// How many wait, and of how many clients there are any.
    #[cfg(test)]
    pub(crate) fn waiter_counts(&self) -> (usize, usize) {
        (self.waiters, self.waiters_by_client.len())
    }

    fn allocate_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn complete_flight(&mut self, key: &[u8]) -> Vec<OnFilled<V>> {
        let waiting = self.flights.remove(key).map(|flight| flight.waiters).unwrap_or_default();
        waiting.into_values().map(|waiter| self.release_waiter(waiter)).collect()
    }

    /// He waits no more.
    fn release_waiter(&mut self, waiter: Waiter<V>) -> OnFilled<V> {
        self.waiters -= 1;
        if let Some(who) = waiter.client
            && let HashMapEntry::Occupied(mut waits) = self.waiters_by_client.entry(who)
        {
            *waits.get_mut() -= 1;
            if *waits.get() == 0 {
                waits.remove();
            }
        }
        waiter.on_filled
    }

    /// A turn is over, or will not come. Gives who waited for nobody else.
    fn release_ticket(&mut self, key: &[u8], number: u64) -> Vec<OnFilled<V>> {
        let Some(flight) = self.flights.get_mut(key) else { return Vec::new() };
        let Some(at) = flight.tickets.iter().position(|(turn, _)| *turn == number) else {
            return Vec::new();
        };
        let (_, who) = flight.tickets.swap_remove(at);
        if flight.is_filling {
            return Vec::new();
        }
        let left = flight.waiters.extract_if(.., |_, waiter| waiter.ticket_owner == Some(who));
        let left: Vec<_> = left.map(|(_, waiter)| waiter).collect();
        if flight.tickets.is_empty() {
            self.flights.remove(key);
        }
        left.into_iter().map(|waiter| self.release_waiter(waiter)).collect()
    }

    fn cancel_waiter(&mut self, key: &[u8], number: u64) -> Option<OnFilled<V>> {
        let waiter = self.flights.get_mut(key)?.waiters.remove(&number)?;
        Some(self.release_waiter(waiter))
    }
}

impl<V> Default for SingleFlight<V> {
    fn default() -> Self {
        Self { flights: HashMap::new(), waiters: 0, waiters_by_client: HashMap::new(), next: 0 }
    }
}

impl<V> Default for Flight<V> {
    fn default() -> Self {
        Self { is_filling: false, tickets: Vec::new(), waiters: BTreeMap::new() }
    }
}

/// To make an answer once it is its holder's turn: [`Cache::start_fill`]. Dropped before that, it tells those of the
/// same asker who wait for it to ask again.
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
        for tell in left {
            tell(None);
        }
    }
}

/// A place among those who wait. Dropped, nobody is told.
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
        let tell = self.cache.0.single_flight.lock().cancel_waiter(&self.key, self.number);
        // Outside the lock.
        drop(tell);
    }
}

/// The task to make an answer. Dropped without one, it tells whoever waits to make it himself.
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

    /// How large the answer may be to be kept.
    pub fn bytes_max(&self) -> u64 {
        self.cache.entry_bytes_max()
    }

    /// Where it will be kept.
    pub fn cache(&self) -> &Cache<V> {
        &self.cache
    }

    /// The answer is made. Gives it as it is kept.
    pub fn complete(mut self, entry: Entry<V>) -> Arc<Entry<V>> {
        let entry = Arc::new(entry);
        self.entry = Some(Arc::clone(&entry));
        entry
    }

    /// It is made for whoever made it alone, and those who wait are to make it themselves: there is no
    /// answer in `entry`, and it is not kept.
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
        // Whoever comes from here on finds it kept, or makes it anew.
        let waiting = self.cache.0.single_flight.lock().complete_flight(&key);
        for tell in waiting {
            tell(entry.clone());
        }
    }
}
