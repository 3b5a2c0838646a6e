//! When what somebody read has last changed, for whoever keeps answers.
//!
//! Time is counted in publishes ([`crate::View::version`]). What is watched has a place in a table; the
//! writer, on its way to a publish, marks the places of what becomes visible with it, each commitment
//! by itself. So a look-up answers "has it changed since?", and nothing is kept of what nobody watches.
//! Bounds: [`WATCHED_MAX`] places, 3 MB. What loses its place to another is told as changed.
//! Invariant: what is told as unchanged is unchanged. A mark is made before its publish, and never
//! taken back; whoever begins to watch in between is told of the publish that is being prepared.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;
use ledger::{Address, Commitment, KeyKind};
use parking_lot::Mutex;

/// What can be watched at once.
pub const WATCHED_MAX: usize = 1 << 16;

/// Places that one thing may have.
const WAYS: usize = 4;

/// No number of anything.
const NONE: u64 = 0;
/// The number of the block itself.
const BLOCK: u64 = 1;
/// Numbers of everything else begin here.
const FIRST: u64 = 2;

/// Something that an answer is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency<'a> {
    /// What stands under an address, or that nothing does.
    Record(&'a Address),
    /// All records that are found by a key, and which those are.
    Key(KeyKind, &'a Address),
    /// The block: which it is, its facts, and whatever it writes.
    Block,
}

/// When what was read has last changed. Readers ask; the one writer tells.
pub struct ChangeTracker {
    hasher: RandomState,
    /// The publish that is being prepared, or the last one.
    preparing: AtomicU64,
    watch_slots: Box<[WatchSlot]>,
    /// Who takes a place takes it alone. Holds whose turn it is to lose his.
    next_victim: Mutex<usize>,
    blocks: [AtomicU64; 3],
    /// Everything changed then: another fork, most of all.
    floors: [AtomicU64; 3],
}

#[derive(Default)]
struct WatchSlot {
    /// As readers see it.
    number: AtomicU64,
    /// As the writer sees it: before readers do.
    watched: AtomicU64,
    /// Of each commitment. Only ever grows, whoever's place it is.
    changed: [AtomicU64; 3],
}

impl ChangeTracker {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::default(),
            preparing: AtomicU64::new(0),
            watch_slots: (0..WATCHED_MAX).map(|_| WatchSlot::default()).collect(),
            next_victim: Mutex::new(0),
            blocks: Default::default(),
            floors: Default::default(),
        }
    }

    /// Begins to watch, and gives the number to ask by. Changes from the view on that is taken after
    /// this are told.
    ///
    /// Cost: a look-up; a lock for what is not watched yet.
    pub fn watch(&self, read: Dependency<'_>) -> u64 {
        let number = self.number(read);
        if number == BLOCK || self.watch_slots(number).iter().any(|place| place.has_number(number))
        {
            return number;
        }
        let mut turn = self.next_victim.lock();
        let places = self.watch_slots(number);
        if places.iter().any(|place| place.has_number(number)) {
            return number;
        }
        let free = places.iter().find(|place| place.has_number(NONE));
        let place = free.unwrap_or_else(|| {
            *turn = turn.wrapping_add(1);
            &places[*turn % WAYS] // there are as many
        });
        place.number.store(NONE, Ordering::SeqCst);
        // The writer says what it prepares before it looks at who watches; we watch before we look
        // at what it prepares: one of the two sees the other.
        place.watched.store(number, Ordering::SeqCst);
        let preparing = self.preparing.load(Ordering::SeqCst);
        for changed in &place.changed {
            changed.fetch_max(preparing, Ordering::SeqCst);
        }
        place.number.store(number, Ordering::SeqCst);
        number
    }

    /// The publish by which what has this number last changed at a commitment, or a later one. Take
    /// the view whose [`crate::View::version`] it is compared with before.
    pub fn changed_at(&self, commitment: Commitment, number: u64) -> u64 {
        let at = index(commitment);
        let floor = self.floors[at].load(Ordering::Acquire);
        if number == BLOCK {
            return self.blocks[at].load(Ordering::Acquire).max(floor);
        }
        let place = self.watch_slots(number).iter().find(|place| place.has_number(number));
        place.map_or(u64::MAX, |place| place.changed[at].load(Ordering::Acquire).max(floor))
    }

    /// The number of something, whether it is watched or not.
    pub(crate) fn number(&self, read: Dependency<'_>) -> u64 {
        let number = match read {
            Dependency::Block => return BLOCK,
            Dependency::Record(address) => self.hasher.hash_one((u16::MAX, address)),
            Dependency::Key(facet, address) => self.hasher.hash_one((u16::from(facet.0), address)),
        };
        number.max(FIRST)
    }

    /// From here on the writer marks what publish `moment` makes visible.
    pub(crate) fn prepare(&self, moment: u64) {
        self.preparing.store(moment, Ordering::SeqCst);
    }

    /// Marks something that publish `moment` changes at a commitment.
    pub(crate) fn mark(&self, commitment: Commitment, number: u64, moment: u64) {
        for place in self.watch_slots(number) {
            if place.watched.load(Ordering::SeqCst) == number {
                place.changed[index(commitment)].fetch_max(moment, Ordering::SeqCst);
            }
        }
    }

    /// Marks the block of a commitment.
    pub(crate) fn mark_block(&self, commitment: Commitment, moment: u64) {
        self.blocks[index(commitment)].store(moment, Ordering::SeqCst);
    }

    /// Marks everything at a commitment.
    pub(crate) fn mark_all(&self, commitment: Commitment, moment: u64) {
        self.floors[index(commitment)].store(moment, Ordering::SeqCst);
    }

    fn watch_slots(&self, number: u64) -> &[WatchSlot] {
        let at = (number >> 16) as usize % (WATCHED_MAX / WAYS) * WAYS;
        &self.watch_slots[at..at + WAYS]
    }
}

impl WatchSlot {
    fn has_number(&self, number: u64) -> bool {
        self.number.load(Ordering::Acquire) == number
    }
}

fn index(commitment: Commitment) -> usize {
    match commitment {
        Commitment::Processed => 0,
        Commitment::Confirmed => 1,
        Commitment::Finalized => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESSED: Commitment = Commitment::Processed;

    fn address(n: u8) -> Address {
        Address::from([n; 32])
    }

    #[test]
    fn watched_dependencies_are_tracked_and_unwatched_ones_count_as_changed() {
        let changes = ChangeTracker::new();
        let (one, key) = (address(1), KeyKind(3));
        let record = changes.watch(Dependency::Record(&one));
        let by_key = changes.watch(Dependency::Key(key, &one));
        assert_ne!(record, by_key);
        changes.prepare(7);
        changes.mark(PROCESSED, record, 7);
        assert_eq!(changes.changed_at(PROCESSED, record), 7);
        assert_eq!(changes.changed_at(Commitment::Confirmed, record), 0);
        assert_eq!(changes.changed_at(PROCESSED, by_key), 0);
        let other = changes.number(Dependency::Record(&address(2)));
        assert_eq!(changes.changed_at(PROCESSED, other), u64::MAX);
        // Who comes while publish 7 is prepared is told of it: what it marks may be marked already.
        assert_eq!(changes.watch(Dependency::Record(&address(2))), other);
        assert_eq!(changes.changed_at(PROCESSED, other), 7);
        changes.mark_all(PROCESSED, 8);
        assert_eq!(changes.changed_at(PROCESSED, by_key), 8);
        changes.mark_block(PROCESSED, 9);
        let block = changes.watch(Dependency::Block);
        assert_eq!(changes.changed_at(PROCESSED, block), 9);
    }

    #[test]
    fn a_dependency_that_loses_its_slot_counts_as_changed() {
        let changes = ChangeTracker::new();
        let numbers: Vec<u64> = (0..4 * WATCHED_MAX as u64)
            .map(|n| {
                let mut bytes = [0; 32];
                bytes[..8].copy_from_slice(&n.to_le_bytes());
                changes.watch(Dependency::Record(&Address::from(bytes)))
            })
            .collect();
        let kept = |number: &&u64| changes.changed_at(PROCESSED, **number) == 0;
        let kept = numbers.iter().filter(kept).count();
        assert!((WATCHED_MAX / 2..=WATCHED_MAX).contains(&kept), "{kept}");
    }
}
