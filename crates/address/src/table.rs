//! The table itself: who counts on an id, and when it is free for another address.
//!
//! Life of an id: given out with a count of one; at zero it keeps its address and waits (a
//! registration of the same address takes it up again); when no reader can hold it, the address is
//! forgotten and the id is free.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arc_swap::ArcSwap;
use ledger::{Address, AddressId};
use parking_lot::Mutex;

use crate::arena::{Arena, LongFreeList};
use crate::epoch::{Epoch, Epochs};
use crate::hash::KeyedHash;
use crate::hash_shard::HashShard;
use crate::refcount::{RefOverflow, RefState, RetireEpoch};
use crate::retired::RetiredIds;

/// Ids a shard has at most on average, in a full table: growing one takes about a tenth of a
/// millisecond.
const SHARD_LEN: u32 = 2048;
/// A shard that would grow beyond so many ids is cut in two while it can be: some 6 KiB.
const SHARD_SPLIT_LEN: usize = 1024;
/// Shards that a table begins with at most. Few in tests, so that those cut them.
const INITIAL_SHARDS_MAX: usize = if cfg!(test) { 4 } else { 256 };

/// The table has no id left. Fix: raise `ledger.addresses_max`, or release addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("address table is full: {limit} addresses (--max-addresses)")]
pub struct TableFull {
    /// How many addresses fit.
    pub limit: u32,
}

/// Address <-> number, counted. See the crate's documentation.
///
/// Cost: a look-up is one hash and three cache misses, without a lock; see [`Self::retain`].
pub struct AddressTable {
    /// From hash to id, by the hash's highest bits: a shard stands in all places whose hashes it has. Its
    /// slots change under `books`' lock; one that is full is replaced, by two once it is large. Read
    /// without a lock.
    shards: Box<[ArcSwap<Shard>]>,
    /// From id to address and count. Changed under `books`' lock, read without it.
    arena: Arena,
    hash: KeyedHash,
    writer: Mutex<WriterState>,
    limit: u32,
}

/// The ids of one or several places.
struct Shard {
    hash_shard: HashShard,
    /// In how many places it stands: a power of two, and the first is a multiple of it.
    directory_entries: u32,
}

/// What only those who register and release look at.
#[derive(Default)]
struct WriterState {
    /// How many ids were ever given out: those below it have been.
    issued: u32,
    /// The free id to give out next; each free id notes the next one.
    free: Option<AddressId>,
    free_len: usize,
    /// Ids that nobody counts on. One that was taken up again stays in here until its turn comes,
    /// and leaves then.
    retired: RetiredIds,
    epochs: Epochs,
    /// Ids with a count.
    counted: usize,
    ref_overflow: RefOverflow,
    long_free_list: LongFreeList,
}

impl AddressTable {
    /// An empty table for at most `limit` addresses. `seed` keys the hash: it must be unknown to
    /// whoever may choose addresses.
    ///
    /// Memory: about 25 bytes for every 1,024 of `limit` at once, and 39 to 40 bytes an address in
    /// use; 40 more for one that has not 32 bytes.
    pub fn new(limit: u32, seed: u64) -> Self {
        let places = limit.div_ceil(SHARD_LEN).next_power_of_two() as usize;
        let each = places / places.min(INITIAL_SHARDS_MAX);
        let empty = || {
            Arc::new(Shard {
                hash_shard: HashShard::with_capacity(0),
                directory_entries: each as u32,
            })
        };
        let shards = (0..places / each).flat_map(|_| vec![empty(); each]);
        Self {
            shards: shards.map(ArcSwap::new).collect(),
            arena: Arena::new(limit),
            hash: KeyedHash::new(seed),
            writer: Mutex::default(),
            limit,
        }
    }

    /// The number of `address`, if it has one. A reader that holds an [`Epoch`] finds every address
    /// that its snapshot knows; the id is good for as long as it holds that epoch.
    pub fn lookup(&self, address: &Address) -> Option<AddressId> {
        self.find(self.hash.hash(address.as_bytes()), address)
    }

    /// The address of `id`. The caller must hold the id: by an [`AddressRef`], or by an [`Epoch`]
    /// whose snapshot knows it. For any other id the answer means nothing.
    pub fn address(&self, id: AddressId) -> Option<Address> {
        self.arena.address(id)
    }

    /// Has what stands under `ids` in the caches, for who asks for these addresses next: a load that
    /// waits for memory is under way for several at a time. Any id may be given.
    pub fn prefetch(&self, ids: impl Iterator<Item = AddressId>) {
        self.arena.prefetch(ids);
    }

    /// Appends the addresses of all `ids` that have 32 bytes, in order; the others are left out. The
    /// caller must hold the ids, as for [`Self::address`].
    ///
    /// Cost: a cache miss each, several at a time; best in the order of ids.
    pub fn copy_addresses(
        &self,
        ids: impl ExactSizeIterator<Item = AddressId>,
        into: &mut Vec<[u8; 32]>,
    ) {
        self.arena.copy_addresses(ids, into);
    }

    /// Registers `address` for as long as the guard lives. For subscribers, on any thread.
    pub fn register(self: &Arc<Self>, address: &Address) -> Result<AddressRef, TableFull> {
        let id = self.retain(address)?;
        Ok(AddressRef { table: Arc::clone(self), id })
    }

    /// Counts one more on `address`, which gets a number if it has none. Whoever calls it owes one
    /// [`Self::release`].
    ///
    /// Cost: a short lock and a look-up; for a new address about one look-up more, and once in
    /// several hundred the growth of a shard.
    pub fn retain(&self, address: &Address) -> Result<AddressId, TableFull> {
        let hash = self.hash.hash(address.as_bytes());
        let books = &mut *self.writer.lock();
        if let Some(id) = self.find(hash, address) {
            let (low, is_waiting) = match self.arena.ref_state(id) {
                RefState::Counted { low, is_queued: is_waiting } => (low, is_waiting),
                // A free id has no address to be found by.
                RefState::Idle { .. } | RefState::Free => (0, true),
            };
            books.counted += usize::from(low == 0);
            let low = books.ref_overflow.increment(id, low);
            self.arena.set_ref_state(id, RefState::Counted { low, is_queued: is_waiting });
            return Ok(id);
        }
        let id = self.allocate_id(books)?;
        books.counted += 1;
        self.arena.set(id, address, &mut books.long_free_list);
        self.arena.set_ref_state(id, RefState::Counted { low: 1, is_queued: false });
        self.insert(hash, id);
        Ok(id)
    }

    /// Takes back one [`Self::retain`]. A number that nobody counts on is given to another address
    /// at the earliest when the second snapshot from now is published.
    pub fn release(&self, id: AddressId) {
        let books = &mut *self.writer.lock();
        let RefState::Counted { low, is_queued: is_waiting } = self.arena.ref_state(id) else {
            panic!("address id {} is released more often than retained", id.0);
        };
        if let Some(low) = books.ref_overflow.decrement(id, low) {
            self.arena.set_ref_state(id, RefState::Counted { low, is_queued: is_waiting });
            return;
        }
        books.counted -= 1;
        // One epoch more than the readers of today need: whoever tells of the next published block
        // may name ids that it freed.
        let until = books.epochs.newest() + 1;
        let again = is_waiting.then(|| RetireEpoch::from_epoch(until));
        self.arena.set_ref_state(id, RefState::Idle { retired_again: again });
        if !is_waiting {
            books.retired.push(until, id);
        }
    }

    /// Begins an epoch: the hold that a snapshot published from now on keeps on the ids it knows.
    /// Ids are only ever freed for reuse by a table whose epochs go on.
    pub fn epoch(&self) -> Epoch {
        let books = &mut *self.writer.lock();
        let epoch = books.epochs.advance();
        self.reclaim(books);
        epoch
    }

    /// The number of the newest epoch; 0 before the first. They count up by one.
    pub fn newest_epoch(&self) -> u64 {
        self.writer.lock().epochs.newest()
    }

    /// The oldest epoch that somebody holds, or the one to come. What only readers of older epochs
    /// may need is needed by nobody.
    pub fn oldest_pinned_epoch(&self) -> u64 {
        self.writer.lock().epochs.oldest_pinned()
    }

    /// How many addresses somebody counts on.
    pub fn len(&self) -> usize {
        self.writer.lock().counted
    }

    /// Whether nobody counts on any address.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many numbers cannot be given out now: those counted on, and those that a reader may
    /// still hold.
    pub fn allocated(&self) -> usize {
        let books = self.writer.lock();
        books.issued as usize - books.free_len
    }

    /// The heap bytes that readers and writers share. Cost: O(addresses / 1,024); for reports.
    pub fn bytes(&self) -> usize {
        let mut at = 0;
        let mut shards = 0;
        while let Some(shard) = self.shards.get(at) {
            let shard = shard.load();
            shards += size_of::<Shard>() + shard.hash_shard.bytes();
            at += shard.directory_entries as usize;
        }
        self.arena.bytes() + size_of_val(&*self.shards) + shards
    }

    /// How many addresses fit.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    fn find(&self, hash: u64, address: &Address) -> Option<AddressId> {
        let shard = self.shards[self.directory_index(hash)].load();
        shard.hash_shard.find(hash, |id| self.arena.matches(AddressId(id), address)).map(AddressId)
    }

    /// Under `books`' lock.
    fn insert(&self, hash: u64, id: AddressId) {
        let place = self.directory_index(hash);
        let full = self.shards[place].load();
        if !full.hash_shard.is_full() {
            full.hash_shard.insert(hash, id.0);
            return;
        }
        let places = full.directory_entries as usize;
        let first = place & !(places - 1);
        let old = &full.hash_shard;
        self.arena.prefetch(old.ids().map(AddressId));
        // An id in a shard has an address: both are set and cleared together.
        let hash_of = |id| Some(self.hash.hash(self.arena.address(AddressId(id))?.as_bytes()));
        let hashed = || old.ids().filter_map(|id| Some((hash_of(id)?, id))).chain([(hash, id.0)]);
        let count = old.ids().count() + 1;
        if count <= SHARD_SPLIT_LEN || places == 1 {
            return self.store_shard(first..first + places, count, hashed());
        }
        let middle = first + places / 2;
        let is_upper = |(hash, _): &(u64, u32)| self.directory_index(*hash) >= middle;
        let upper = hashed().filter(is_upper).count();
        let lower = hashed().filter(|id| !is_upper(id));
        self.store_shard(first..middle, count - upper, lower);
        self.store_shard(middle..first + places, upper, hashed().filter(is_upper));
    }

    /// Puts a new shard in some places.
    fn store_shard(
        &self,
        places: Range<usize>,
        count: usize,
        ids: impl Iterator<Item = (u64, u32)>,
    ) {
        let slots = HashShard::with_capacity(count);
        ids.for_each(|(hash, id)| slots.insert(hash, id));
        let shard = Arc::new(Shard { hash_shard: slots, directory_entries: places.len() as u32 });
        self.shards[places].iter().for_each(|place| place.store(Arc::clone(&shard)));
    }

    /// Which place knows a hash.
    fn directory_index(&self, hash: u64) -> usize {
        let bits = self.shards.len().trailing_zeros(); // a power of two
        // In two steps, as a shift by 64 is none.
        (hash >> 1 >> (63 - bits)) as usize
    }

    fn allocate_id(&self, books: &mut WriterState) -> Result<AddressId, TableFull> {
        if books.free.is_none() && books.issued < self.limit {
            books.issued += 1;
            return Ok(AddressId(books.issued - 1));
        }
        if books.free.is_none() {
            self.reclaim(books);
        }
        let id = books.free.ok_or(TableFull { limit: self.limit })?;
        books.free_len -= 1;
        books.free = (books.free_len > 0).then(|| AddressId(self.arena.note(id)));
        Ok(id)
    }

    /// Frees the ids whose last reader left. Cost: O(those), amortised over their releases.
    fn reclaim(&self, books: &mut WriterState) {
        let oldest_held = books.epochs.oldest_pinned();
        while let Some((queued, id)) = books.retired.pop_before(oldest_held) {
            match self.arena.ref_state(id) {
                RefState::Counted { low, .. } => {
                    self.arena.set_ref_state(id, RefState::Counted { low, is_queued: false });
                    continue;
                }
                RefState::Idle { retired_again: Some(again) } => {
                    let until = again.epoch(queued, books.epochs.newest() + 1);
                    if until >= oldest_held {
                        self.arena.set_ref_state(id, RefState::Idle { retired_again: None });
                        books.retired.push(until, id);
                        continue;
                    }
                }
                RefState::Idle { retired_again: None } => {}
                RefState::Free => continue, // it would not wait
            }
            if let Some(address) = self.arena.address(id) {
                let hash = self.hash.hash(address.as_bytes());
                self.shards[self.directory_index(hash)].load().hash_shard.remove(hash, id.0);
            }
            self.arena.set_ref_state(id, RefState::Free);
            self.arena.clear(id, books.free.map_or(0, |next| next.0), &mut books.long_free_list);
            books.free = Some(id);
            books.free_len += 1;
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
        assert_eq!((table.len(), table.allocated()), (100, 100));
    }

    #[test]
    fn shards_that_are_cut_keep_their_addresses() {
        let table = table(400_000);
        for n in 0..50_000 {
            assert_eq!(table.retain(&address(n)), Ok(AddressId(n)));
        }
        let places = |n| table.shards[table.directory_index(n << 54)].load().directory_entries;
        assert!((0..1_024_u64).all(|n| places(n) < 64), "256 places began as four shards");
        for n in 0..50_000 {
            assert_eq!(table.lookup(&address(n)), Some(AddressId(n)));
            table.release(AddressId(n));
        }
        (0..4).for_each(|_| drop(table.epoch()));
        assert_eq!((table.allocated(), table.lookup(&address(7))), (0, None));
        let bytes = table.bytes() as f64 / 50_000.0;
        assert!(bytes < 43.5, "{bytes:.1} bytes an address");
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
    fn an_id_is_not_reused_while_a_reader_may_have_it() -> Result<(), TableFull> {
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
        assert_eq!(table.writer.lock().retired.len(), 1);
        for _ in 0..5 {
            table.epoch();
        }
        assert_eq!(table.lookup(&address(1)), Some(id), "it is counted on, though it once waited");
        assert_eq!(table.writer.lock().retired.len(), 0);
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
        assert_eq!(table.allocated(), 0);
    }
}
