//! A bounded table of clients that have no key, by their ids.
//!
//! Bounds: a maximum of clients; a full shard is swept for unused entries, at most ten times a second.
//! Clients past the maximum share one entry.

use std::time::Duration;

use foldhash::HashMap;
use parking_lot::Mutex;

/// Number of shards, so that threads seldom wait for each other.
const SHARDS: usize = 16;
/// Minimum interval between two sweeps of a full shard.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// Entries of clients by their ids.
pub(crate) struct ClientTable<T> {
    shards: [Mutex<Shard<T>>; SHARDS],
    shard_len_max: usize,
    /// The entry of all clients past the maximum.
    shared: T,
}

struct Shard<T> {
    entries: HashMap<u128, T>,
    next_sweep: Duration,
}

impl<T: Default> ClientTable<T> {
    pub(crate) fn new(clients_max: usize) -> Self {
        let shard =
            || Mutex::new(Shard { entries: HashMap::default(), next_sweep: Duration::ZERO });
        Self {
            shards: std::array::from_fn(|_| shard()),
            shard_len_max: clients_max / SHARDS,
            shared: T::default(),
        }
    }

    /// Calls `then` with the entry of a client. `is_unused` returns whether an entry equals a new one.
    pub(crate) fn with<R>(
        &self,
        client: u128,
        now: Duration,
        is_unused: impl Fn(&T) -> bool,
        then: impl FnOnce(&T) -> R,
    ) -> R {
        let shard = (client ^ client >> 64 ^ client >> 17) as usize % SHARDS;
        let mut shard = self.shards[shard].lock();
        if shard.entries.len() >= self.shard_len_max && !shard.entries.contains_key(&client) {
            if shard.next_sweep <= now {
                shard.next_sweep = now + SWEEP_INTERVAL;
                shard.entries.retain(|_, entry| !is_unused(entry));
            }
            if shard.entries.len() >= self.shard_len_max {
                drop(shard);
                return then(&self.shared);
            }
        }
        then(shard.entries.entry(client).or_default())
    }

    /// Calls `then` with the entry of a client, if there is one.
    pub(crate) fn find<R>(&self, client: u128, then: impl FnOnce(&T) -> R) -> Option<R> {
        let shard = (client ^ client >> 64 ^ client >> 17) as usize % SHARDS;
        self.shards[shard].lock().entries.get(&client).map(then)
    }

    /// Returns the approximate heap bytes of the entries.
    pub(crate) fn bytes(&self) -> usize {
        let entries = self.shards.iter().map(|shard| shard.lock().entries.capacity());
        entries.sum::<usize>() * (size_of::<(u128, T)>() + 1)
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().entries.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn clients_past_the_bound_share_one_entry_until_others_are_unused() {
        let table = ClientTable::<Cell<u32>>::new(64);
        let add = |client: u128, now: u64| {
            table.with(
                client,
                Duration::from_millis(now),
                |it| it.get() == 0,
                |it| {
                    it.set(it.get() + 1);
                    it.get()
                },
            )
        };
        let new = (0..10_000).filter(|client| add(*client, 0) == 1).count();
        assert_eq!((table.len(), new), (64, 65), "the shared entry is new once");
        assert_eq!(table.find(9_999, Cell::get), None);
        // Those of one shard become unused.
        (0..64).for_each(|client| {
            table.find(client * 16, |it| it.set(0));
        });
        assert!(add(16 * 1_000, 50) > 1_000, "a sweep has just run");
        assert_eq!(add(16 * 1_000, 100), 1);
        assert!(table.bytes() < 64 * 100);
    }
}
