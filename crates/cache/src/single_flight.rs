//! Single flight: one caller computes a value, and the concurrent ones wait for it.
//!
//! The first caller gets a `FillTicket`. It may wait in the run queue before it starts to compute, and others might
//! be scheduled earlier. So only the same client waits for that ticket; other clients get tickets of their own, up to
//! [`LEADERS_MAX`]. The first ticket that is scheduled becomes the fill (`FillGuard`), and all other callers wait for
//! it.
//! Bounds: `waiters_max` waiters, each counted while its `WaitGuard` lives. Of waiters that have no task to compute
//! the value, a client has at most as many as are still free for others, so that a new client can wait. Waiters with a
//! task are bounded as tasks.
//! Not here: the callers' guards (`guards`).

use std::collections::hash_map::Entry as HashMapEntry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::entry::Entry;

/// Notifies a waiter: with the value, or with nothing, and then the waiter computes it itself.
pub type OnFilled<V> = Box<dyn FnOnce(Option<Arc<Entry<V>>>) + Send>;

/// Maximum tickets of one key. Each is a task of its client, however long the fill takes, and one would do. The first
/// of this many is scheduled about as soon as a later client's own task would be.
pub(crate) const LEADERS_MAX: usize = 8;

/// The running flights of all keys, and their waiters.
pub(crate) struct SingleFlight<V> {
    flights: HashMap<Box<[u8]>, Flight<V>>,
    waiters: usize,
    /// Waiters without a task to compute the value, per client. Values are never 0.
    waiters_by_client: HashMap<u128, usize>,
    /// The next number. Tickets and waiters share the numbers.
    next: u64,
}

struct Flight<V> {
    /// Whether a `FillGuard` for the key exists.
    is_filling: bool,
    /// The number and the client of each ticket that is not scheduled yet.
    tickets: Vec<(u64, u128)>,
    /// By number, so in the order of arrival.
    waiters: BTreeMap<u64, Waiter<V>>,
}

struct Waiter<V> {
    /// The client, if it has no task to compute the value.
    client: Option<u128>,
    /// The owner of the ticket that it waits for until a fill starts.
    ticket_owner: Option<u128>,
    on_filled: OnFilled<V>,
}

/// The role of a caller of an uncached key.
pub(crate) enum JoinOutcome {
    /// The caller fills when the ticket is scheduled.
    Ticket(u64),
    Wait(u64),
    TooMany,
}

impl<V> SingleFlight<V> {
    /// Joins the flight for `client`, which has no task to compute the value yet.
    pub(crate) fn join(
        &mut self,
        key: &[u8],
        client: u128,
        waiters_max: usize,
        on_filled: impl FnOnce() -> OnFilled<V>,
    ) -> JoinOutcome {
        let number = self.allocate_number();
        let waits = self.waiters_by_client.get(&client).copied().unwrap_or_default();
        let is_full = waits >= waiters_max.saturating_sub(self.waiters);
        let flight = match self.flights.get_mut(key) {
            Some(flight) => flight,
            None => self.flights.entry(key.into()).or_default(),
        };
        let has_ticket = flight.tickets.iter().any(|(_, owner)| *owner == client);
        if !flight.is_filling && !has_ticket && flight.tickets.len() < LEADERS_MAX {
            flight.tickets.push((number, client));
            return JoinOutcome::Ticket(number);
        }
        if is_full {
            return JoinOutcome::TooMany;
        }
        let ticket_owner = match flight.is_filling {
            true => None,
            false if has_ticket => Some(client),
            // Round-robin, so that a dropped ticket notifies only a few.
            false => flight.tickets.get(number as usize % LEADERS_MAX).map(|(_, owner)| *owner),
        };
        flight
            .waiters
            .insert(number, Waiter { client: Some(client), ticket_owner, on_filled: on_filled() });
        self.waiters += 1;
        *self.waiters_by_client.entry(client).or_default() += 1;
        JoinOutcome::Wait(number)
    }

    /// Starts a fill if none is running, and returns `None`. Otherwise the caller waits.
    pub(crate) fn start(
        &mut self,
        key: &[u8],
        waiters_max: usize,
        on_filled: impl FnOnce() -> Option<OnFilled<V>>,
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
        let on_filled = (self.waiters < waiters_max).then(on_filled).flatten();
        let Some(on_filled) = on_filled else { return Some(JoinOutcome::TooMany) };
        flight.waiters.insert(number, Waiter { client: None, ticket_owner: None, on_filled });
        self.waiters += 1;
        Some(JoinOutcome::Wait(number))
    }

    /// Returns the number of waiters, and of clients that have some.
    #[cfg(test)]
    pub(crate) fn waiter_counts(&self) -> (usize, usize) {
        (self.waiters, self.waiters_by_client.len())
    }

    fn allocate_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Ends the fill of a key. Returns all its waiters.
    pub(crate) fn complete_flight(&mut self, key: &[u8]) -> Vec<OnFilled<V>> {
        let waiters = self.flights.remove(key).map(|flight| flight.waiters).unwrap_or_default();
        waiters.into_values().map(|waiter| self.release_waiter(waiter)).collect()
    }

    /// Takes a waiter out of the counts.
    fn release_waiter(&mut self, waiter: Waiter<V>) -> OnFilled<V> {
        self.waiters -= 1;
        if let Some(client) = waiter.client
            && let HashMapEntry::Occupied(mut waits) = self.waiters_by_client.entry(client)
        {
            *waits.get_mut() -= 1;
            if *waits.get() == 0 {
                waits.remove();
            }
        }
        waiter.on_filled
    }

    /// Ends a ticket that was scheduled or dropped. Returns the waiters that waited only for it.
    pub(crate) fn release_ticket(&mut self, key: &[u8], number: u64) -> Vec<OnFilled<V>> {
        let Some(flight) = self.flights.get_mut(key) else { return Vec::new() };
        let Some(at) = flight.tickets.iter().position(|(ticket, _)| *ticket == number) else {
            return Vec::new();
        };
        let (_, client) = flight.tickets.swap_remove(at);
        if flight.is_filling {
            return Vec::new();
        }
        let left = flight.waiters.extract_if(.., |_, waiter| waiter.ticket_owner == Some(client));
        let left: Vec<_> = left.map(|(_, waiter)| waiter).collect();
        if flight.tickets.is_empty() {
            self.flights.remove(key);
        }
        left.into_iter().map(|waiter| self.release_waiter(waiter)).collect()
    }

    /// Removes a waiter that left before it was notified.
    pub(crate) fn cancel_waiter(&mut self, key: &[u8], number: u64) -> Option<OnFilled<V>> {
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
