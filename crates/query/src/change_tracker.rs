//! Tracks when the dependencies of cached responses last changed.
//!
//! Time is counted in publishes ([`crate::View::version`]). A watched dependency has a slot in a table. Before each
//! publish the writer marks the slots of everything that becomes visible with it, for each commitment
//! separately. So a lookup finds out whether a dependency has changed, and nothing is stored for dependencies that
//! are not watched. It also has the tasks that wait for the next publish ([`crate::PublishWakers`]).
//! Bounds: [`WATCHED_MAX`] slots, 3 MB. A dependency that loses its slot to another counts as changed.
//! Invariant: a dependency that is reported as unchanged is unchanged. A mark is made before its publish, and never
//! reverted. If a watch starts in between, the publish that is being prepared counts as a change.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;
use ledger::{Address, Commitment, KeyKind};
use parking_lot::Mutex;

use crate::publish_wakers::PublishWakers;

/// Maximum number of watched dependencies.
pub const WATCHED_MAX: usize = 1 << 16;

/// Slots that one dependency may occupy.
const WAYS: usize = 4;
/// Number of groups of [`WAYS`] slots.
const GROUPS: usize = WATCHED_MAX / WAYS;

/// The number of no dependency.
const NONE: u64 = 0;
/// The number of the block itself.
const BLOCK: u64 = 1;
/// The first number of other dependencies.
const FIRST: u64 = 2;

/// An input of a response: the state that it was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency<'a> {
    /// The record of an address, or its absence.
    Record(&'a Address),
    /// The set of records under a key, and the records themselves.
    Key(KeyKind, &'a Address),
    /// The block: its identity, its metadata, and everything it writes.
    Block,
}

/// Tracks when dependencies last changed. Readers look up; the one writer marks.
pub struct ChangeTracker {
    hasher: RandomState,
    /// The publish that is being prepared, or the last one.
    preparing: AtomicU64,
    watch_slots: Box<[WatchSlot]>,
    /// A bit for each group of [`WAYS`] slots that were ever watched. They fit into the CPU's nearest cache, and most
    /// marks end here.
    watched_groups: Box<[AtomicU64]>,
    /// Locked to assign a slot. Contains the number of the next victim.
    next_victim: Mutex<usize>,
    blocks: [AtomicU64; 3],
    /// The version at which everything changed: the publish after the root was filled.
    floors: [AtomicU64; 3],
    publish_wakers: PublishWakers,
}

#[derive(Default)]
struct WatchSlot {
    /// The number as readers see it.
    number: AtomicU64,
    /// The number as the writer sees it: set before readers see it.
    watched: AtomicU64,
    /// Per commitment. Only ever grows, also when the slot is reassigned.
    changed: [AtomicU64; 3],
}

impl ChangeTracker {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::default(),
            preparing: AtomicU64::new(0),
            watch_slots: (0..WATCHED_MAX).map(|_| WatchSlot::default()).collect(),
            watched_groups: (0..GROUPS / 64).map(|_| AtomicU64::new(0)).collect(),
            next_victim: Mutex::new(0),
            blocks: Default::default(),
            floors: Default::default(),
            publish_wakers: PublishWakers::default(),
        }
    }

    /// Returns the tasks that the next publish wakes.
    pub fn publish_wakers(&self) -> &PublishWakers {
        &self.publish_wakers
    }

    /// Starts to watch a dependency, and returns its number for [`Self::changed_at`]. Changes are reported from the
    /// view on that is taken after this call.
    ///
    /// Cost: a lookup; a lock for a dependency that is not watched yet.
    pub fn watch(&self, dependency: Dependency<'_>) -> u64 {
        let number = self.number(dependency);
        if number == BLOCK || self.watch_slots(number).iter().any(|slot| slot.has_number(number)) {
            return number;
        }
        let mut next_victim = self.next_victim.lock();
        let slots = self.watch_slots(number);
        if slots.iter().any(|slot| slot.has_number(number)) {
            return number;
        }
        let free = slots.iter().find(|slot| slot.has_number(NONE));
        let slot = free.unwrap_or_else(|| {
            *next_victim = next_victim.wrapping_add(1);
            &slots[*next_victim % WAYS] // there are `WAYS` slots
        });
        slot.number.store(NONE, Ordering::SeqCst);
        // The writer sets `preparing` before it reads the group's bit and `watched`; we set both before we read
        // `preparing`: one of the two sees the other.
        let group = group_index(number);
        self.watched_groups[group / 64].fetch_or(1 << (group % 64), Ordering::SeqCst);
        slot.watched.store(number, Ordering::SeqCst);
        let preparing = self.preparing.load(Ordering::SeqCst);
        for changed in &slot.changed {
            changed.fetch_max(preparing, Ordering::SeqCst);
        }
        slot.number.store(number, Ordering::SeqCst);
        number
    }

    /// Returns the version at which the dependency of this number last changed at a commitment, or a later one. Before
    /// this call, take the view with the [`crate::View::version`] that it is compared with.
    pub fn changed_at(&self, commitment: Commitment, number: u64) -> u64 {
        let at = index(commitment);
        let floor = self.floors[at].load(Ordering::Acquire);
        if number == BLOCK {
            return self.blocks[at].load(Ordering::Acquire).max(floor);
        }
        let slot = self.watch_slots(number).iter().find(|slot| slot.has_number(number));
        slot.map_or(u64::MAX, |slot| slot.changed[at].load(Ordering::Acquire).max(floor))
    }

    /// Returns the number of a dependency, whether it is watched or not.
    pub(crate) fn number(&self, dependency: Dependency<'_>) -> u64 {
        let number = match dependency {
            Dependency::Block => return BLOCK,
            Dependency::Record(address) => self.hasher.hash_one((u16::MAX, address)),
            Dependency::Key(kind, address) => self.hasher.hash_one((u16::from(kind.0), address)),
        };
        number.max(FIRST)
    }

    /// Starts to mark the changes that the publish of `version` makes visible.
    pub(crate) fn prepare(&self, version: u64) {
        self.preparing.store(version, Ordering::SeqCst);
    }

    /// Marks a dependency that the publish of `version` changes at a commitment.
    pub(crate) fn mark(&self, commitment: Commitment, number: u64, version: u64) {
        let group = group_index(number);
        if self.watched_groups[group / 64].load(Ordering::SeqCst) & 1 << (group % 64) == 0 {
            return;
        }
        for slot in self.watch_slots(number) {
            if slot.watched.load(Ordering::SeqCst) == number {
                slot.changed[index(commitment)].fetch_max(version, Ordering::SeqCst);
            }
        }
    }

    /// Marks the block of a commitment.
    pub(crate) fn mark_block(&self, commitment: Commitment, version: u64) {
        self.blocks[index(commitment)].store(version, Ordering::SeqCst);
    }

    /// Marks everything at a commitment.
    pub(crate) fn mark_all(&self, commitment: Commitment, version: u64) {
        self.floors[index(commitment)].store(version, Ordering::SeqCst);
    }

    fn watch_slots(&self, number: u64) -> &[WatchSlot] {
        let at = group_index(number) * WAYS;
        &self.watch_slots[at..at + WAYS]
    }
}

/// Returns the group in which a dependency may have a slot.
fn group_index(number: u64) -> usize {
    (number >> 16) as usize % GROUPS
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
        let one = address(1);
        let key = KeyKind(3);
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
        // A watch that starts while publish 7 is prepared counts as changed by it: its marks may be made already.
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
        let watched = |number: &&u64| changes.changed_at(PROCESSED, **number) == 0;
        let watched = numbers.iter().filter(watched).count();
        assert!((WATCHED_MAX / 2..=WATCHED_MAX).contains(&watched), "{watched}");
    }
}
