//! The table: reference counts of addresses, and the reuse of ids.
//!
//! Life of an id: it is allocated with a count of one. At zero it retains its address and waits (a
//! registration of the same address reuses it). When no reader can have it, the address is
//! cleared and the id is free.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arc_swap::ArcSwap;
use ledger::{Address, AddressId};
use parking_lot::Mutex;

use crate::arena::{Arena, LongFreeList};
use crate::epoch::{Epoch, Epochs};
use crate::hash::KeyedHash;
use crate::hash_shard::{HashShard, Tag};
use crate::recycling::Recycling;
use crate::refcount::{RefOverflow, RefState, RetireEpoch};
use crate::retired::RetiredIds;

/// The part of a table, one of this many, that is left to the ledger.
const LEDGER_PART: u32 = 16;
/// Maximum average ids of a shard in a full table: growing a shard takes about a tenth of a
/// millisecond.
const SHARD_LEN: u32 = 2048;
/// A shard that would grow beyond this many ids is split while possible: some 6 KiB.
const SHARD_SPLIT_LEN: usize = 1024;
/// Maximum shards of a new table. Few in tests, so that those split them.
const INITIAL_SHARDS_MAX: usize = if cfg!(test) { 4 } else { 256 };

/// The table has no id left. Fix: raise `ledger.addresses_max`, or release addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("address table is full: {limit} addresses (--max-addresses)")]
pub struct TableFull {
    /// The maximum number of addresses.
    pub limit: u32,
}

/// Address <-> number, with reference counts. See the crate's documentation.
///
/// Cost: a lookup is one hash and three cache misses, without a lock; see [`Self::retain`].
///
/// ```
/// use std::sync::Arc;
///
/// use address::AddressTable;
/// use ledger::Address;
///
/// let table = Arc::new(AddressTable::new(1_000, 0x5eed));
/// let wallet = Address::from([7; 32]);
/// let registered = table.register(&wallet)?;
/// assert_eq!(table.lookup(&wallet), Some(registered.id()));
/// assert_eq!(table.address(registered.id()), Some(wallet));
///
/// drop(registered);
/// assert!(table.is_empty());
/// # Ok::<(), address::TableFull>(())
/// ```
pub struct AddressTable {
    /// From hash to id. The directory is indexed by the hash's highest bits, and a shard is in all entries that have
    /// its hashes. Its slots change under the lock of `writer`. A full shard is replaced, by two once it is large.
    /// Read without a lock.
    shards: Box<[ArcSwap<Shard>]>,
    /// From id to address and reference state. Changed under the lock of `writer`, read without it.
    arena: Arena,
    /// Changed under the lock of `writer`, read without it.
    recycling: Recycling,
    hash: KeyedHash,
    writer: Mutex<WriterState>,
    limit: u32,
}

/// The ids of one or several directory entries.
struct Shard {
    hash_shard: HashShard,
    /// Number of its directory entries: a power of two, and the first index is a multiple of it.
    directory_entries: u32,
}

/// State that only registrations and releases use.
#[derive(Default)]
struct WriterState {
    /// Number of ids that were ever issued: all ids below it.
    issued: u32,
    /// The free id that is issued next; each free id notes the next one.
    free: Option<AddressId>,
    free_len: usize,
    /// Ids that are not referenced. One that is referenced again stays in the queue until it is popped, and
    /// leaves then.
    retired: RetiredIds,
    epochs: Epochs,
    /// Number of ids that are referenced.
    counted: usize,
    ref_overflow: RefOverflow,
    long_free_list: LongFreeList,
}

impl WriterState {
    /// Returns the number of ids that are referenced, or that a reader may still have.
    fn allocated_ids(&self) -> usize {
        self.issued as usize - self.free_len
    }
}

impl AddressTable {
    /// Creates an empty table for at most `limit` addresses. `seed` keys the hash: it must be unknown to
    /// anyone that may choose addresses.
    ///
    /// Memory: about 25 bytes for every 1,024 of `limit` at once, and 40 to 41 bytes per address in
    /// use; 40 more for an address of another length than 32 bytes.
    pub fn new(limit: u32, seed: u64) -> Self {
        let directory_len = limit.div_ceil(SHARD_LEN).next_power_of_two() as usize;
        let each = directory_len / directory_len.min(INITIAL_SHARDS_MAX);
        let empty = || {
            Arc::new(Shard {
                hash_shard: HashShard::with_capacity(0),
                directory_entries: each as u32,
            })
        };
        let shards = (0..directory_len / each).flat_map(|_| vec![empty(); each]);
        Self {
            shards: shards.map(ArcSwap::new).collect(),
            arena: Arena::new(limit),
            recycling: Recycling::new(),
            hash: KeyedHash::new(seed),
            writer: Mutex::default(),
            limit,
        }
    }

    /// Allocates memory for `addresses` more addresses, at most up to the limit: about 44 bytes each.
    ///
    /// Cost: O(addresses), with registrations locked out; for the start.
    pub fn reserve(&self, addresses: usize) {
        let writer = &mut *self.writer.lock();
        let allocated = writer.issued as usize - writer.free_len;
        let ids = allocated.saturating_add(addresses).min(self.limit as usize);
        self.arena.reserve(ids);
        let shards = ids.div_ceil(SHARD_SPLIT_LEN * 3 / 4).next_power_of_two();
        let entries = self.shards.len() / shards.min(self.shards.len());
        // A quarter more than the average: hashes do not fill shards evenly.
        let capacity = ids.div_ceil(self.shards.len() / entries) * 5 / 4;
        let mut at = 0;
        while at < self.shards.len() {
            let old = self.shards[at].load_full();
            let end = at + old.directory_entries as usize;
            for first in (at..end).step_by(entries) {
                let part = first..(first + entries).min(end);
                self.reserve_shard(part.clone(), capacity * part.len() / entries, &old);
            }
            at = end;
        }
    }

    /// Replaces a part of a shard by one for `capacity` ids.
    fn reserve_shard(&self, entries: Range<usize>, capacity: usize, old: &Shard) {
        let hash_of = |id| self.arena.hash(AddressId(id), &self.hash);
        let is_own =
            |id| hash_of(id).is_some_and(|hash| entries.contains(&self.directory_index(hash)));
        let own: Vec<(Tag, u32)> =
            old.hash_shard.tagged_ids().filter(|(_, id)| is_own(*id)).collect();
        self.store_shard(entries, capacity.max(own.len()), own.into_iter());
    }

    /// Returns the id of `address`, if it has one. A reader that holds an [`Epoch`] finds every address
    /// that its snapshot knows; the id is valid as long as it holds that epoch.
    pub fn lookup(&self, address: &Address) -> Option<AddressId> {
        self.find(self.hash.hash(address.as_bytes()), address)
    }

    /// Returns the address of `id`. The caller must own the id: by an [`AddressRef`], or by the [`Epoch`]
    /// of a snapshot that knows it. For any other id the result has no meaning.
    pub fn address(&self, id: AddressId) -> Option<Address> {
        self.arena.address(id)
    }

    /// Loads the data of `ids` into the CPU caches, for a caller that needs these addresses next: several loads from
    /// memory run at a time. Any id is allowed.
    pub fn prefetch(&self, ids: impl Iterator<Item = AddressId>) {
        self.arena.prefetch(ids);
    }

    /// Appends the addresses of all `ids` that have 32 bytes, in order, and skips the others. The
    /// caller must own the ids, as for [`Self::address`].
    ///
    /// Cost: a cache miss each, several at a time; lowest in the order of ids.
    pub fn copy_addresses(
        &self,
        ids: impl ExactSizeIterator<Item = AddressId>,
        into: &mut Vec<[u8; 32]>,
    ) {
        self.arena.copy_addresses(ids, into);
    }

    /// Registers `address` while the guard lives, as [`Self::retain_for_client`] does. On any thread.
    pub fn register(self: &Arc<Self>, address: &Address) -> Result<AddressRef, TableFull> {
        let id = self.retain_for_client(address)?;
        Ok(AddressRef { table: Arc::clone(self), id })
    }

    /// Adds a reference to `address`, which gets an id if it has none. The caller owes one
    /// [`Self::release`].
    ///
    /// Cost: a short lock and a lookup; for a new address about one lookup more, and once in
    /// several hundred the growth of a shard.
    pub fn retain(&self, address: &Address) -> Result<AddressId, TableFull> {
        self.retain_within(address, self.limit)
    }

    /// Adds a reference to `address` for a client, as [`Self::retain`] does. The last sixteenth of the table is left to the
    /// ledger: clients choose addresses, and a ledger that cannot add one cannot continue.
    pub fn retain_for_client(&self, address: &Address) -> Result<AddressId, TableFull> {
        self.retain_within(address, self.limit - self.limit / LEDGER_PART)
    }

    /// Adds a reference to `address`. If it is new, fewer than `allocated_max` ids must be allocated.
    fn retain_within(&self, address: &Address, allocated_max: u32) -> Result<AddressId, TableFull> {
        let hash = self.hash.hash(address.as_bytes());
        let writer = &mut *self.writer.lock();
        if let Some(id) = self.find(hash, address) {
            let (low, is_queued) = match self.arena.ref_state(id) {
                RefState::Counted { low, is_queued } => (low, is_queued),
                // A free id has no address to be found by.
                RefState::Idle { .. } | RefState::Free => (0, true),
            };
            writer.counted += usize::from(low == 0);
            let low = writer.ref_overflow.increment(id, low);
            self.arena.set_ref_state(id, RefState::Counted { low, is_queued });
            return Ok(id);
        }
        let id = self.allocate_id(writer, allocated_max)?;
        writer.counted += 1;
        self.arena.set(id, address, &mut writer.long_free_list);
        self.arena.set_ref_state(id, RefState::Counted { low: 1, is_queued: false });
        self.insert(hash, id);
        Ok(id)
    }

    /// Releases one [`Self::retain`]. An id without references is reused for another address
    /// at the earliest when the second snapshot from now is published.
    pub fn release(&self, id: AddressId) {
        let writer = &mut *self.writer.lock();
        let RefState::Counted { low, is_queued } = self.arena.ref_state(id) else {
            panic!("address id {} is released more often than retained", id.0);
        };
        if let Some(low) = writer.ref_overflow.decrement(id, low) {
            self.arena.set_ref_state(id, RefState::Counted { low, is_queued });
            return;
        }
        writer.counted -= 1;
        // One epoch more than present readers need: notifications of the next published block
        // may name ids that it freed.
        let until = writer.epochs.newest() + 1;
        let retired_again = is_queued.then(|| RetireEpoch::from_epoch(until));
        self.arena.set_ref_state(id, RefState::Idle { retired_again });
        if !is_queued {
            writer.retired.push(until, id);
        }
    }

    /// Starts an epoch. A snapshot that is published from here on pins it, and with it the ids that it can see.
    /// Ids are reused only if the epochs advance.
    pub fn epoch(&self) -> Epoch {
        let writer = &mut *self.writer.lock();
        let epoch = writer.epochs.advance();
        self.reclaim(writer);
        epoch
    }

    /// Returns the number of the newest epoch; 0 before the first. Epochs count up by one.
    pub fn newest_epoch(&self) -> u64 {
        self.writer.lock().epochs.newest()
    }

    /// Returns the oldest epoch that is pinned, or the next one. No reader needs data that only readers of older epochs
    /// may need.
    pub fn oldest_pinned_epoch(&self) -> u64 {
        self.writer.lock().epochs.oldest_pinned()
    }

    /// Returns the number of addresses that are referenced.
    pub fn len(&self) -> usize {
        self.writer.lock().counted
    }

    /// Returns whether no address is referenced.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of ids that cannot be allocated now: those that are referenced, and those that a reader may
    /// still have.
    pub fn allocated_ids(&self) -> usize {
        self.writer.lock().allocated_ids()
    }

    /// Returns the heap bytes that readers and the writer share. Cost: O(addresses / 1,024); for reports.
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

    /// Returns the maximum number of addresses.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    fn find(&self, hash: u64, address: &Address) -> Option<AddressId> {
        let shard = self.shards[self.directory_index(hash)].load();
        let found = self.recycling.find(&shard.hash_shard, &self.arena, hash, address);
        found.map(AddressId)
    }

    /// Inserts an id into the shard of its hash. The caller holds the lock of `writer`.
    fn insert(&self, hash: u64, id: AddressId) {
        let index = self.directory_index(hash);
        let full = self.shards[index].load();
        if !full.hash_shard.is_full() {
            full.hash_shard.insert(Tag::from_hash(hash), id.0);
            return;
        }
        let len = full.directory_entries as usize;
        let first = index & !(len - 1);
        let old = &full.hash_shard;
        let added = (Tag::from_hash(hash), id.0);
        let count = old.len() + 1;
        if count <= SHARD_SPLIT_LEN || len == 1 {
            return self.store_shard(first..first + len, count, old.tagged_ids().chain([added]));
        }
        // The tags do not have the bit that separates the halves: the addresses are hashed again.
        self.arena.prefetch(old.ids().map(AddressId));
        let middle = first + len / 2;
        let is_upper = |hash: u64| self.directory_index(hash) >= middle;
        let mut lower = Vec::with_capacity(count);
        let mut upper = Vec::with_capacity(count);
        for (tag, id) in old.tagged_ids() {
            // An id in a shard has an address: both are set and cleared together.
            let Some(hash) = self.arena.hash(AddressId(id), &self.hash) else { continue };
            if is_upper(hash) { upper.push((tag, id)) } else { lower.push((tag, id)) }
        }
        if is_upper(hash) {
            upper.push(added)
        } else {
            lower.push(added)
        }
        self.store_shard(first..middle, lower.len(), lower.into_iter());
        self.store_shard(middle..first + len, upper.len(), upper.into_iter());
    }

    /// Stores a new shard in these directory entries.
    fn store_shard(
        &self,
        entries: Range<usize>,
        count: usize,
        ids: impl Iterator<Item = (Tag, u32)>,
    ) {
        let hash_shard = HashShard::with_capacity(count);
        ids.for_each(|(tag, id)| hash_shard.insert(tag, id));
        let shard = Arc::new(Shard { hash_shard, directory_entries: entries.len() as u32 });
        self.shards[entries].iter().for_each(|entry| entry.store(Arc::clone(&shard)));
    }

    /// Returns the directory index of a hash.
    fn directory_index(&self, hash: u64) -> usize {
        let bits = self.shards.len().trailing_zeros(); // a power of two
        // In two steps, because a shift by 64 bits overflows.
        (hash >> 1 >> (63 - bits)) as usize
    }

    fn allocate_id(
        &self,
        writer: &mut WriterState,
        allocated_max: u32,
    ) -> Result<AddressId, TableFull> {
        let full = TableFull { limit: self.limit };
        if allocated_max < self.limit && writer.allocated_ids() >= allocated_max as usize {
            self.reclaim(writer);
            if writer.allocated_ids() >= allocated_max as usize {
                return Err(full);
            }
        }
        if writer.free.is_none() && writer.issued < self.limit {
            writer.issued += 1;
            return Ok(AddressId(writer.issued - 1));
        }
        if writer.free.is_none() {
            self.reclaim(writer);
        }
        let id = writer.free.ok_or(full)?;
        writer.free_len -= 1;
        writer.free = (writer.free_len > 0).then(|| AddressId(self.arena.note(id)));
        Ok(id)
    }

    /// Frees the retired ids that no reader can still have. Cost: O(those), amortised over their releases.
    fn reclaim(&self, writer: &mut WriterState) {
        let oldest_pinned = writer.epochs.oldest_pinned();
        while let Some((queued, id)) = writer.retired.pop_before(oldest_pinned) {
            match self.arena.ref_state(id) {
                RefState::Counted { low, .. } => {
                    self.arena.set_ref_state(id, RefState::Counted { low, is_queued: false });
                    continue;
                }
                RefState::Idle { retired_again: Some(retired_again) } => {
                    let until = retired_again.epoch(queued, writer.epochs.newest() + 1);
                    if until >= oldest_pinned {
                        self.arena.set_ref_state(id, RefState::Idle { retired_again: None });
                        writer.retired.push(until, id);
                        continue;
                    }
                }
                RefState::Idle { retired_again: None } => {}
                RefState::Free => continue, // it would not be queued
            }
            self.recycling.start(id);
            if let Some(address) = self.arena.address(id) {
                let hash = self.hash.hash(address.as_bytes());
                self.shards[self.directory_index(hash)].load().hash_shard.remove(hash, id.0);
            }
            self.arena.set_ref_state(id, RefState::Free);
            self.arena.clear(id, writer.free.map_or(0, |next| next.0), &mut writer.long_free_list);
            self.recycling.end();
            writer.free = Some(id);
            writer.free_len += 1;
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
    /// Returns the address' id, valid while this lives.
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
        assert_eq!((table.len(), table.allocated_ids()), (100, 100));
    }

    #[test]
    fn shards_that_are_cut_keep_their_addresses() {
        let table = table(400_000);
        for n in 0..50_000 {
            assert_eq!(table.retain(&address(n)), Ok(AddressId(n)));
        }
        let entries = |n| table.shards[table.directory_index(n << 54)].load().directory_entries;
        assert!(
            (0..1_024_u64).all(|n| entries(n) < 64),
            "256 directory entries began as four shards"
        );
        for n in 0..50_000 {
            assert_eq!(table.lookup(&address(n)), Some(AddressId(n)));
            table.release(AddressId(n));
        }
        (0..4).for_each(|_| drop(table.epoch()));
        assert_eq!((table.allocated_ids(), table.lookup(&address(7))), (0, None));
        let bytes = table.bytes() as f64 / 50_000.0;
        assert!(bytes < 43.5, "{bytes:.1} bytes an address");
    }

    #[test]
    fn reserved_memory_takes_addresses_without_an_allocation() {
        let table = table(400_000);
        for n in 0..5_000 {
            assert_eq!(table.retain(&address(n)), Ok(AddressId(n)));
        }
        table.reserve(100_000);
        let reserved = table.bytes();
        assert!((39.0..48.0).contains(&(reserved as f64 / 105_000.0)), "{reserved}");
        for n in 0..105_000 {
            assert!(table.retain(&address(n)).is_ok());
        }
        // A few shards get more than their share.
        let grown = table.bytes() - reserved;
        assert!(grown < reserved / 50, "{grown} of {reserved}");
        assert!((0..105_000).all(|n| table.lookup(&address(n)) == Some(AddressId(n))));
        table.reserve(usize::MAX / 2);
        assert!((0..105_000).all(|n| table.lookup(&address(n)) == Some(AddressId(n))));
    }

    #[test]
    fn a_full_table_names_its_limit_and_registers_nothing() {
        let table = table(2);
        let _ids = [0, 1].map(|n| table.retain(&address(n)));
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
    fn clients_leave_the_last_sixteenth_to_the_ledger() {
        let table = table(32);
        for n in 0..30 {
            assert!(table.retain_for_client(&address(n)).is_ok());
        }
        let full = Err(TableFull { limit: 32 });
        assert_eq!(table.retain_for_client(&address(30)), full);
        assert_eq!(table.retain_for_client(&address(3)), Ok(AddressId(3)), "it is known");
        assert!(table.retain(&address(30)).is_ok());
        assert!(table.retain(&address(31)).is_ok());
        assert_eq!(table.retain(&address(32)), full);
        // An id that is released can be allocated again after two epochs.
        [3, 3, 4, 5].into_iter().for_each(|n| table.release(AddressId(n)));
        assert_eq!(table.retain_for_client(&address(33)), full);
        (0..4).for_each(|_| drop(table.epoch()));
        assert!(table.retain_for_client(&address(33)).is_ok());
        assert_eq!(table.retain_for_client(&address(34)), full);
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
        assert_eq!(
            table.lookup(&address(1)),
            Some(id),
            "it is referenced, though it was once queued"
        );
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
        assert_eq!(table.allocated_ids(), 0);
    }
}
