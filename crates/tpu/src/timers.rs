//! The deadlines of connections: a heap with a few entries a connection. Stale entries are skipped
//! when they are popped.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// The deadlines of all connections of a driver.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, usize)>>,
}

impl Timers {
    /// Adds a deadline `when` of connection `at`.
    pub(crate) fn add(&mut self, when: Instant, at: usize) {
        self.heap.push(Reverse((when, at)));
    }

    /// Returns the earliest deadline, if any.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((when, _))| *when)
    }

    /// Removes and returns the next connection that has passed its deadline, with that deadline.
    pub(crate) fn due(&mut self, now: Instant) -> Option<(Instant, usize)> {
        self.next().filter(|when| *when <= now)?;
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// Releases memory that a burst left.
    pub(crate) fn shrink(&mut self) {
        if self.heap.capacity() > 64 && self.heap.len() < self.heap.capacity() / 4 {
            self.heap.shrink_to(self.heap.len() * 2);
        }
    }
}
