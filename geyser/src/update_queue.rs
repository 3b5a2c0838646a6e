//! The hand-over from the validator's threads to the plugin's: a bounded queue that is entered without a wait.
//!
//! Shape: one lock around a queue of small entries; it is held for one push, or to take out [`TAKE_MAX`] entries.
//! Updates of one account are in the order of its writes, because the validator pushes them under the account's lock.
//! Bounds: bytes and number. What was taken counts until the next call of [`UpdateQueue::take`].
//! Invariant: a push never waits for the consumer. At a bound the update is dropped, and so is everything until the
//! consumer has discarded what is queued: [`Taken::Lost`] says so.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::counters::{Event, PluginCounters};
use crate::replica::GeyserUpdate;

/// Entries that are taken out at once.
const TAKE_MAX: usize = 512;
/// Bytes of an entry without its content.
const ENTRY_BYTES: usize = size_of::<GeyserUpdate>();

/// What the consumer gets.
pub(crate) enum Taken {
    /// The next updates.
    Updates(Vec<GeyserUpdate>),
    /// Updates were dropped, and with them all that waited.
    Lost,
    /// The queue is closed and empty.
    Closed,
}

pub(crate) struct UpdateQueue {
    state: Mutex<State>,
    changed: Condvar,
    bytes_max: usize,
    updates_max: usize,
    pub(crate) counters: PluginCounters,
}

#[derive(Default)]
struct State {
    updates: VecDeque<(GeyserUpdate, usize)>,
    bytes: usize,
    /// Bytes of what the consumer has taken and not handled.
    taken_bytes: usize,
    is_lost: bool,
    is_closed: bool,
}

impl UpdateQueue {
    pub(crate) fn new(bytes_max: usize, updates_max: usize) -> Self {
        Self {
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            bytes_max,
            updates_max,
            counters: PluginCounters::new(),
        }
    }

    /// Adds an update, or drops it at a bound.
    pub(crate) fn push(&self, update: GeyserUpdate) {
        let bytes = ENTRY_BYTES + update.content_bytes();
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        let is_full = state.bytes + state.taken_bytes + bytes > self.bytes_max
            || state.updates.len() >= self.updates_max;
        if is_full || state.is_lost {
            state.is_lost = true;
            drop(state);
            // A single update may exceed the bound while the consumer waits.
            self.changed.notify_one();
            self.counters.record(Event::Dropped);
            return;
        }
        state.bytes += bytes;
        let was_empty = state.updates.is_empty();
        state.updates.push_back((update, bytes));
        drop(state);
        if was_empty {
            self.changed.notify_one();
        }
    }

    /// Records that an update was lost outside of the queue.
    pub(crate) fn lose(&self) {
        self.state.lock().is_lost = true;
        self.changed.notify_one();
    }

    /// Waits for updates.
    pub(crate) fn take(&self) -> Taken {
        let mut state = self.state.lock();
        state.taken_bytes = 0;
        while state.updates.is_empty() && !state.is_lost && !state.is_closed {
            self.changed.wait(&mut state);
        }
        if std::mem::take(&mut state.is_lost) {
            let dropped = std::mem::take(&mut state.updates);
            state.bytes = 0;
            // Freeing takes longer than a thread of the validator should wait for the lock.
            drop(state);
            drop(dropped);
            return Taken::Lost;
        }
        if state.updates.is_empty() {
            return Taken::Closed;
        }
        let count = state.updates.len().min(TAKE_MAX);
        let mut bytes = 0;
        let updates = state.updates.drain(..count).map(|(update, update_bytes)| {
            bytes += update_bytes;
            update
        });
        let updates = updates.collect();
        state.bytes -= bytes;
        state.taken_bytes = bytes;
        Taken::Updates(updates)
    }

    /// Takes no more updates. The consumer gets those that wait, then [`Taken::Closed`].
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Bytes in the queue and at the consumer.
    pub(crate) fn bytes(&self) -> usize {
        let state = self.state.lock();
        state.bytes + state.taken_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY_BYTES, Taken, UpdateQueue};
    use crate::counters::Event;
    use crate::replica::{GeyserUpdate, SlotStatus};

    fn status(slot: u64) -> GeyserUpdate {
        GeyserUpdate::Slot { slot, parent: None, status: SlotStatus::Confirmed }
    }

    fn slots(taken: Taken) -> Vec<u64> {
        let Taken::Updates(updates) = taken else { panic!("updates") };
        let slot = |update: &GeyserUpdate| match update {
            GeyserUpdate::Slot { slot, .. } => *slot,
            other => panic!("{other:?}"),
        };
        updates.iter().map(slot).collect()
    }

    #[test]
    fn a_full_queue_drops_all_and_says_so_once() {
        let queue = UpdateQueue::new(ENTRY_BYTES * 2, 1_000);
        for slot in 1..=5 {
            queue.push(status(slot));
        }
        assert_eq!(queue.counters.sum(Event::Dropped), 3);
        assert!(matches!(queue.take(), Taken::Lost));
        assert_eq!(queue.bytes(), 0);
        queue.push(status(6));
        assert_eq!(slots(queue.take()), [6]);
        queue.close();
        queue.push(status(7));
        assert!(matches!(queue.take(), Taken::Closed));
    }

    #[test]
    fn what_was_taken_counts_until_it_is_handled() {
        let queue = UpdateQueue::new(1 << 20, 2);
        queue.push(status(1));
        assert_eq!(slots(queue.take()), [1]);
        assert_eq!(queue.bytes(), ENTRY_BYTES);
        queue.push(status(2));
        assert_eq!(queue.bytes(), 2 * ENTRY_BYTES);
        assert_eq!(slots(queue.take()), [2]);
        queue.push(status(3));
        queue.close();
        assert_eq!(slots(queue.take()), [3]);
        assert!(matches!(queue.take(), Taken::Closed));
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn the_number_of_updates_is_bounded_too() {
        let queue = UpdateQueue::new(1 << 20, 2);
        for slot in 1..=3 {
            queue.push(status(slot));
        }
        assert!(matches!(queue.take(), Taken::Lost));
    }
}
