//! The id that is being recycled, so that a lookup never matches words of two addresses.
//!
//! A lookup reads the words of ids that it does not own: those with the tag of its hash. If such an id is recycled
//! meanwhile, it may read a word of the old address and a word of the new one.
//! Shape: a word that readers and the writer share: how many recyclings have started, and the id of the one that has not
//! ended. A lookup reads it before its search and after a match.
//! Invariant: a recycling removes the id from its shard and clears its address between [`Recycling::start`] and
//! [`Recycling::end`]. So a lookup that starts after the end does not find the id by its old hash, and one that starts
//! before reads another number of recyclings once it has read a word that was stored since.
//! Invariant: no lookup waits. It searches again only if a recycling has started meanwhile.

use crate::arena::Arena;
use crate::hash_shard::HashShard;
use crate::sync::{AtomicU64, Ordering, fence};

use ledger::{Address, AddressId};

/// The recyclings of ids. One writer starts and ends them.
pub(crate) struct Recycling(AtomicU64);

/// The number of recyclings in the upper half, and in the lower one the id of the open one and 1, or 0.
#[derive(Clone, Copy)]
struct RecyclingState(u64);

impl RecyclingState {
    fn count(self) -> u64 {
        self.0 >> 32
    }

    fn is_of(self, id: u32) -> bool {
        self.0 & u64::from(u32::MAX) == u64::from(id) + 1
    }
}

impl Recycling {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Starts to recycle an id. Writer only.
    pub(crate) fn start(&self, id: AddressId) {
        let count = RecyclingState(self.0.load(Ordering::Relaxed)).count().wrapping_add(1);
        self.0.store(count << 32 | (u64::from(id.0) + 1), Ordering::Relaxed);
        // A reader that sees a word of the address that is stored from here on sees this state.
        fence(Ordering::Release);
    }

    /// Ends the recycling of an id, which has no address and is in no shard. Writer only.
    pub(crate) fn end(&self) {
        let count = RecyclingState(self.0.load(Ordering::Relaxed)).count();
        self.0.store(count << 32, Ordering::Release);
    }

    /// Returns the id of an address, by the shard of its hash.
    pub(crate) fn find(
        &self,
        shard: &HashShard,
        arena: &Arena,
        hash: u64,
        address: &Address,
    ) -> Option<u32> {
        loop {
            let before = RecyclingState(self.0.load(Ordering::Acquire));
            let mut has_changed = false;
            let found = shard.find(hash, |id| {
                if !arena.matches(AddressId(id), address) {
                    return false;
                }
                fence(Ordering::Acquire);
                let after = RecyclingState(self.0.load(Ordering::Relaxed));
                has_changed = after.count() != before.count();
                // An id that is being recycled has no address.
                has_changed || !(before.is_of(id) || after.is_of(id))
            });
            if !has_changed {
                return found;
            }
        }
    }
}

/// Every interleaving of a writer that recycles an id and a reader: `RUSTFLAGS="--cfg loom" cargo test -p address`.
#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::arena::LongFreeList;
    use crate::hash_shard::Tag;

    /// Times that a thread is interrupted. Relaxed loads see every value that they may, in addition.
    const PREEMPTIONS_MAX: usize = 2;
    /// The hash of all addresses.
    const HASH: u64 = 7;
    /// The id that is recycled, and another one.
    const RECYCLED: AddressId = AddressId(1);
    const OTHER: AddressId = AddressId(2);

    struct Table {
        shard: HashShard,
        arena: Arena,
        recycling: Recycling,
    }

    impl Table {
        fn new() -> Arc<Self> {
            let arena = Arena::new(3);
            arena.reserve(3);
            let shard = HashShard::with_capacity(2);
            Arc::new(Self { shard, arena, recycling: Recycling::new() })
        }

        fn insert(&self, id: AddressId, address: &Address) {
            self.arena.set(id, address, &mut LongFreeList::default());
            self.shard.insert(Tag::from_hash(HASH), id.0);
        }

        fn recycle(&self, id: AddressId) {
            self.recycling.start(id);
            self.shard.remove(HASH, id.0);
            self.arena.clear(id, 0, &mut LongFreeList::default());
            self.recycling.end();
        }

        fn find(&self, address: &Address) -> Option<u32> {
            self.recycling.find(&self.shard, &self.arena, HASH, address)
        }
    }

    /// An address whose first two words are these.
    fn address(first: u8, second: u8) -> Address {
        let mut bytes = [0; 32];
        (bytes[0], bytes[8]) = (first, second);
        Address::from(bytes)
    }

    /// Recycles an id from one address to another one while a reader looks up a third one. Returns what it may find.
    fn race(sought: Address, is_right: impl Fn(Option<u32>) -> bool + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        // Without this bound the model has more interleavings than can be run.
        model.preemption_bound = Some(PREEMPTIONS_MAX);
        model.check(move || {
            let table = Table::new();
            table.insert(RECYCLED, &address(1, 1));
            table.insert(OTHER, &address(3, 3));
            let reader = {
                let table = Arc::clone(&table);
                thread::spawn(move || table.find(&sought))
            };
            table.recycle(RECYCLED);
            table.insert(RECYCLED, &address(2, 2));
            let found = reader.join().expect("it does not panic");
            assert!(is_right(found), "{found:?}");
            assert_eq!(table.find(&address(1, 1)), None);
            assert_eq!(table.find(&address(2, 2)), Some(RECYCLED.0));
        });
    }

    #[test]
    fn words_of_two_addresses_are_no_address() {
        race(address(1, 2), |found| found.is_none());
    }

    #[test]
    fn an_address_with_a_recycled_id_is_found_or_not() {
        race(address(2, 2), |found| [None, Some(RECYCLED.0)].contains(&found));
    }

    #[test]
    fn an_address_that_stays_is_found_while_another_id_is_recycled() {
        race(address(3, 3), |found| found == Some(OTHER.0));
    }
}
