//! The table itself: who counts on an id, and when it is free for another address.
//!
//! Life of an id: given out with a count of one; at zero it keeps its address and waits (a
//! registration of the same address takes it up again); when no reader can hold it, the address is
//! forgotten and the id is free.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use ledger::{Address, AddressId};
use parking_lot::Mutex;

use crate::arena::Arena;
use crate::epoch::{Epoch, Epochs};

/// The table has no id left. Fix: raise `ledger.addresses_max`, or release addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("address table is full: {limit} addresses (--max-addresses)")]
pub struct TableFull {
    /// How many addresses fit.
    pub limit: u32,
}

/// Address <-> number, counted. See the crate's documentation.
///
/// Cost: a look-up is one hash and one or two cache misses, without a lock; see [`Self::retain`].
pub struct AddressTable {
    /// Changed only under `books`' lock, read without it.
    ids: papaya::HashMap<Address, AddressId, SeedableRandomState>,
    /// As `ids`.
    addresses: Arena,
    books: Mutex<Books>,
    limit: u32,
}

/// What only those who register and release look at.
#[derive(Default)]
struct Books {
    entries: Vec<Entry>,
    /// Ids that nobody can hold.
    free: Vec<AddressId>,
    /// Ids that nobody counts on, with the epoch until which readers may hold them. One that was
    /// taken up again stays in here until its turn comes, and leaves then.
    waiting: VecDeque<(u64, AddressId)>,
    epochs: Epochs,
    /// Entries with a count.
    counted: usize,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    count: u32,
    is_waiting: bool,
    /// The last epoch whose readers may hold the id, if the count is zero.
    known_until: u64,
}

impl AddressTable {
    /// An empty table for at most `limit` addresses. `seed` keys the hash: it must be unknown to
    /// whoever may choose addresses.
    ///
    /// Memory: 16 bytes for every 1,024 of `limit` at once, about 150 bytes an address in use.
    pub fn new(limit: u32, seed: u64) -> Self {
        // The hasher wants its keys for ever. They are 48 bytes a table, and a node has one table.
        let seeds: &'static SharedSeed = Box::leak(Box::new(SharedSeed::from_u64(seed)));
        Self {
            ids: papaya::HashMap::with_hasher(SeedableRandomState::with_seed(seed, seeds)),
            addresses: Arena::new(limit),
            books: Mutex::default(),
            limit,
        }
    }

    /// The number of `address`, if it has one. A reader that holds an [`Epoch`] finds every address
    /// that its snapshot knows; the id is good for as long as it holds that epoch.
    pub fn lookup(&self, address: &Address) -> Option<AddressId> {
        self.ids.pin().get(address).copied()
    }

    /// The address of `id`. The caller must hold the id: by an [`AddressRef`], or by an [`Epoch`]
    /// whose snapshot knows it. For any other id the answer means nothing.
    pub fn address(&self, id: AddressId) -> Option<Address> {
        self.addresses.address(id)
    }

    /// Registers `address` for as long as the guard lives. For subscribers, on any thread.
    pub fn register(self: &Arc<Self>, address: &Address) -> Result<AddressRef, TableFull> {
        let id = self.retain(address)?;
        Ok(AddressRef { table: Arc::clone(self), id })
    }

    /// Counts one more on `address`, which gets a number if it has none. Whoever calls it owes one
    /// [`Self::release`].
    ///
    /// Cost: a short lock and a hash; for a new address two more hashes.
    pub fn retain(&self, address: &Address) -> Result<AddressId, TableFull> {
        let books = &mut *self.books.lock();
        if let Some(id) = self.lookup(address) {
            let entry = &mut books.entries[id.0 as usize];
            books.counted += usize::from(entry.count == 0);
            entry.count += 1; // whatever counts on an id is larger than a byte: memory ends first
            return Ok(id);
        }
        let id = self.free_id(books)?;
        books.entries[id.0 as usize].count = 1;
        books.counted += 1;
        self.addresses.set(id, Some(address));
        self.ids.pin().insert(*address, id);
        Ok(id)
    }

    /// Takes back one [`Self::retain`]. A number that nobody counts on is given to another address
    /// at the earliest when the second snapshot from now is published.
    pub fn release(&self, id: AddressId) {
        let books = &mut *self.books.lock();
        let entry = &mut books.entries[id.0 as usize];
        assert!(entry.count > 0, "address id {} is released more often than retained", id.0);
        entry.count -= 1;
        if entry.count > 0 {
            return;
        }
        books.counted -= 1;
        // One epoch more than the readers of today need: whoever tells of the next published block
        // may name ids that it freed.
        entry.known_until = books.epochs.newest() + 1;
        if !entry.is_waiting {
            entry.is_waiting = true;
            books.waiting.push_back((entry.known_until, id));
        }
    }

    /// Begins an epoch: the hold that a snapshot published from now on keeps on the ids it knows.
    /// Ids are only ever freed for reuse by a table whose epochs go on.
    pub fn epoch(&self) -> Epoch {
        let books = &mut *self.books.lock();
        let epoch = books.epochs.begin();
        self.reclaim(books);
        epoch
    }

    /// How many addresses somebody counts on.
    pub fn len(&self) -> usize {
        self.books.lock().counted
    }

    /// Whether nobody counts on any address.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many numbers cannot be given out now: those counted on, and those that a reader may
    /// still hold.
    pub fn used(&self) -> usize {
        let books = self.books.lock();
        books.entries.len() - books.free.len()
    }

    /// How many addresses fit.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    fn free_id(&self, books: &mut Books) -> Result<AddressId, TableFull> {
        if books.free.is_empty() && books.entries.len() < self.limit as usize {
            let id = AddressId(books.entries.len() as u32); // below limit, which is a u32
            books.entries.push(Entry::default());
            return Ok(id);
        }
        if books.free.is_empty() {
            self.reclaim(books);
        }
        books.free.pop().ok_or(TableFull { limit: self.limit })
    }

    /// Frees the ids whose last reader left. Cost: O(those), amortised over their releases.
    fn reclaim(&self, books: &mut Books) {
        let oldest_held = books.epochs.oldest_held();
        while let Some(&(until, id)) = books.waiting.front()
            && until < oldest_held
        {
            books.waiting.pop_front();
            let entry = &mut books.entries[id.0 as usize];
            if entry.count > 0 {
                entry.is_waiting = false;
            } else if entry.known_until >= oldest_held {
                // Taken up and freed again since it was queued.
                books.waiting.push_back((entry.known_until, id));
            } else {
                entry.is_waiting = false;
                // An id in use or waiting has an address: both are set and cleared together.
                if let Some(address) = self.addresses.address(id) {
                    self.ids.pin().remove(&address);
                }
                self.addresses.set(id, None);
                books.free.push(id);
            }
        }
    }
}

impl fmt::Debug for AddressTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressTable").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// A registered address. Dropping it releases the registration.
pub struct AddressRef {
    table: Arc<AddressTable>,
    id: AddressId,
}

impl AddressRef {
    /// The address' number, good while this lives.
    pub fn id(&self) -> AddressId {
        self.id
    }
}

impl fmt::Debug for AddressRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AddressRef").field(&self.id).finish()
    }
}

impl Drop for AddressRef {
    fn drop(&mut self) {
        self.table.release(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> Address {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&n.to_le_bytes());
        Address::from(bytes)
    }

    fn table(limit: u32) -> Arc<AddressTable> {
        Arc::new(AddressTable::new(limit, 7))
    }

    #[test]
    fn ids_are_dense_and_lead_back_to_their_addresses() {
        let table = table(100);
        for n in 0..100 {
            assert_eq!(table.retain(&address(n)), Ok(AddressId(n)));
        }
        for n in 0..100 {
            assert_eq!(table.lookup(&address(n)), Some(AddressId(n)));
            assert_eq!(table.address(AddressId(n)), Some(address(n)));
        }
        assert_eq!((table.len(), table.used()), (100, 100));
    }

    #[test]
    fn a_full_table_names_its_limit_and_registers_nothing() {
        let table = table(2);
        let _held = [0, 1].map(|n| table.retain(&address(n)));
        let full = table.retain(&address(2));
        assert_eq!(full, Err(TableFull { limit: 2 }));
        assert_eq!(
            full.map_err(|err| err.to_string()),
            Err("address table is full: 2 addresses (--max-addresses)".into())
        );
        assert_eq!((table.lookup(&address(2)), table.len()), (None, 2));
        assert_eq!(table.retain(&address(1)), Ok(AddressId(1)), "one more on a known address");
    }

    #[test]
    fn a_guard_releases_when_dropped() -> Result<(), TableFull> {
        let table = table(10);
        let guard = table.register(&address(1))?;
        let other = table.register(&address(1))?;
        assert_eq!(guard.id(), other.id());
        drop(guard);
        assert_eq!(table.len(), 1);
        drop(other);
        assert!(table.is_empty());
        Ok(())
    }

    #[test]
    fn an_id_waits_until_no_reader_can_hold_it() -> Result<(), TableFull> {
        let table = table(1);
        let reader = table.epoch();
        let id = table.retain(&address(1))?;
        table.release(id);
        let published = table.epoch();
        assert_eq!(table.lookup(&address(1)), Some(id), "readers of old state still find it");
        assert_eq!(table.retain(&address(2)), Err(TableFull { limit: 1 }));
        drop(reader);
        assert!(table.retain(&address(2)).is_err(), "the next block may still name it");
        let _next = table.epoch();
        drop(published);
        assert_eq!(table.retain(&address(2)), Ok(id));
        assert_eq!(table.lookup(&address(1)), None);
        assert_eq!(table.address(id), Some(address(2)));
        Ok(())
    }

    #[test]
    fn an_address_that_comes_back_keeps_its_id() -> Result<(), TableFull> {
        let table = table(2);
        let id = table.retain(&address(1))?;
        for _ in 0..100 {
            table.release(id);
            assert_eq!(table.retain(&address(1)), Ok(id));
        }
        assert_eq!(table.books.lock().waiting.len(), 1);
        for _ in 0..5 {
            table.epoch();
        }
        assert_eq!(table.lookup(&address(1)), Some(id), "it is counted on, though it once waited");
        assert_eq!(table.books.lock().waiting.len(), 0);
        Ok(())
    }

    #[test]
    fn an_id_freed_again_waits_for_its_newest_readers() -> Result<(), TableFull> {
        let table = table(1);
        let id = table.retain(&address(1))?;
        table.release(id);
        for _ in 0..3 {
            // Each epoch is dropped at once, so the first wait is over; the id is in use again.
            assert_eq!(table.retain(&address(1)), Ok(id));
            let reader = table.epoch();
            table.release(id);
            drop((table.epoch(), table.epoch()));
            assert_eq!(table.retain(&address(2)), Err(TableFull { limit: 1 }));
            drop(reader);
        }
        assert_eq!(table.retain(&address(2)), Ok(id));
        Ok(())
    }

    #[test]
    fn threads_that_register_and_release_leave_nothing() {
        let table = table(64);
        std::thread::scope(|threads| {
            for start in 0..4 {
                let table = &table;
                threads.spawn(move || {
                    for n in 0..5_000 {
                        let address = address((start * 7 + n) % 50);
                        match table.register(&address) {
                            Ok(guard) => assert_eq!(table.address(guard.id()), Some(address)),
                            Err(full) => panic!("50 addresses fit: {full}"),
                        }
                        if n % 16 == 0 {
                            table.epoch();
                        }
                    }
                });
            }
        });
        drop((table.epoch(), table.epoch(), table.epoch()));
        assert!(table.is_empty());
        drop(table.epoch());
        assert_eq!(table.used(), 0);
    }
}
