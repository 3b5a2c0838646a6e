//! Looking up a value: the cached one if it is valid, otherwise the right to compute it or to wait for it.

use std::sync::Arc;

use crate::cache::{Cache, count};
use crate::entry::{Entry, Weight};
use crate::guards::{FillGuard, FillTicket, WaitGuard};
use crate::single_flight::{JoinOutcome, OnFilled};

/// The reader of a [`Cache::lookup`].
#[derive(Clone, Copy, Debug)]
pub struct CacheReader {
    /// The client of the call: equal calls of one client wait for each other.
    pub client: u128,
    /// The version of the state that the call sees.
    pub version: u64,
}

/// The result of [`Cache::lookup`].
pub enum Lookup<V: Weight> {
    /// A cached value that is valid now.
    Hit(Arc<Entry<V>>),
    /// The value is not cached, and no fill is running. Call [`Cache::start_fill`] when the task is scheduled.
    Ticket(FillTicket<V>),
    /// A fill is running, or the client has a ticket already. The caller is notified while the guard lives. The
    /// value may be of another version: check [`Entry::is_valid_at`], as for a cached one.
    Wait(WaitGuard<V>),
    /// Compute the value and do not cache it: it is too large, too many callers wait, or the cache has no bytes.
    Bypass,
}

/// The result of [`Cache::start_fill`].
pub enum FillStart<V: Weight> {
    /// A cached value that is valid now.
    Hit(Arc<Entry<V>>),
    /// Compute the value and pass it to the [`FillGuard`]. Later callers wait for it.
    Fill(FillGuard<V>),
    /// A fill is running; see [`Lookup::Wait`].
    Wait(WaitGuard<V>),
    /// As for [`Lookup::Bypass`], or a fill is running and the caller does not wait.
    Bypass,
}

/// The cached entry of a key, at the caller's version.
enum EntryState<V> {
    Valid(Arc<Entry<V>>),
    /// The value is too large to cache.
    TooLarge,
    /// A dependency of the value has changed.
    Stale,
    Missing,
}

impl<V: Weight> Cache<V> {
    /// Looks up the value of `key` for `reader`. `changed_at` returns the version at which a dependency last changed,
    /// or a later one. It is called after the reader chose its version. If the reader waits, the fill calls the
    /// callback that `on_filled` returned.
    ///
    /// Cost: a lookup, and one `changed_at` for each dependency.
    pub fn lookup(
        &self,
        key: &[u8],
        reader: CacheReader,
        changed_at: impl Fn(u64) -> u64,
        on_filled: impl FnOnce() -> OnFilled<V>,
    ) -> Lookup<V> {
        let CacheReader { client, version: now } = reader;
        let shared = &self.0;
        if shared.config.bytes_max == 0 {
            // A waiter would be notified that nothing was cached, and would compute the value after all.
            count(&shared.bypassed);
            return Lookup::Bypass;
        }
        match self.entry_state(key, now, changed_at) {
            EntryState::Valid(entry) => {
                count(&shared.hits);
                return Lookup::Hit(entry);
            }
            EntryState::TooLarge => {
                count(&shared.bypassed);
                return Lookup::Bypass;
            }
            EntryState::Stale => count(&shared.stale),
            EntryState::Missing => count(&shared.misses),
        }
        let joined =
            shared.single_flight.lock().join(key, client, shared.config.waiters_max, on_filled);
        match joined {
            JoinOutcome::Ticket(number) => {
                Lookup::Ticket(FillTicket::new(self.clone(), key, number))
            }
            JoinOutcome::Wait(number) => {
                count(&shared.coalesced);
                Lookup::Wait(WaitGuard::new(self.clone(), key, number))
            }
            JoinOutcome::TooMany => {
                count(&shared.bypassed);
                Lookup::Bypass
            }
        }
    }

    /// Looks up the value as [`Cache::lookup`] does, but the caller computes the value now unless a fill is running:
    /// its `ticket` was scheduled, or it needs none. If a fill is running and `on_filled` returns nothing, the caller
    /// does not wait.
    pub fn start_fill(
        &self,
        key: &[u8],
        ticket: Option<FillTicket<V>>,
        now: u64,
        changed_at: impl Fn(u64) -> u64,
        on_filled: impl FnOnce() -> Option<OnFilled<V>>,
    ) -> FillStart<V> {
        let shared = &self.0;
        if shared.config.bytes_max == 0 {
            count(&shared.bypassed);
            return FillStart::Bypass;
        }
        let state = self.entry_state(key, now, changed_at);
        match (state, &ticket) {
            (EntryState::Valid(entry), ticket) => {
                // Another caller filled it before the ticket was scheduled.
                count(if ticket.is_some() { &shared.coalesced } else { &shared.hits });
                return FillStart::Hit(entry);
            }
            (EntryState::TooLarge, _) => {
                count(&shared.bypassed);
                return FillStart::Bypass;
            }
            // This was counted when the ticket was issued.
            (EntryState::Stale | EntryState::Missing, Some(_)) => {}
            (EntryState::Stale, None) => count(&shared.stale),
            (EntryState::Missing, None) => count(&shared.misses),
        }
        let joined = shared.single_flight.lock().start(key, shared.config.waiters_max, on_filled);
        // The ticket is dropped only now, so its waiters wait for the running fill instead.
        drop(ticket);
        match joined {
            None => FillStart::Fill(FillGuard::new(self.clone(), key)),
            Some(JoinOutcome::Wait(number)) => {
                count(&shared.coalesced);
                FillStart::Wait(WaitGuard::new(self.clone(), key, number))
            }
            Some(JoinOutcome::Ticket(_) | JoinOutcome::TooMany) => {
                count(&shared.bypassed);
                FillStart::Bypass
            }
        }
    }

    /// Returns the state of an entry. A stale entry never becomes valid again, so it is removed.
    fn entry_state(&self, key: &[u8], now: u64, changed_at: impl Fn(u64) -> u64) -> EntryState<V> {
        let Some(entry) = self.entry(key) else { return EntryState::Missing };
        if !entry.is_valid_at(now, changed_at) {
            if entry.valid_at <= now {
                self.remove(key, &entry);
            }
            return EntryState::Stale;
        }
        if entry.value.is_none() { EntryState::TooLarge } else { EntryState::Valid(entry) }
    }

    /// Returns the value, for a caller that would compute it in another way or may not use it. Nothing is counted,
    /// and no caller waits. A caller that uses the value calls [`Cache::count_hit`].
    pub fn peek(
        &self,
        key: &[u8],
        now: u64,
        changed_at: impl Fn(u64) -> u64,
    ) -> Option<Arc<Entry<V>>> {
        let entry = self.entry(key)?;
        (entry.value.is_some() && entry.is_valid_at(now, changed_at)).then_some(entry)
    }

    /// Counts the use of a value that [`Cache::peek`] returned.
    pub fn count_hit(&self) {
        count(&self.0.hits);
    }
}
