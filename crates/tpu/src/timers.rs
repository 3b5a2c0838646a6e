//! When which connection wants to be looked at: a heap with at most a few entries a connection, which
//! are put right only when they come up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// The deadlines of all connections of a driver.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, usize)>>,
}

impl Timers {
    /// Wants connection `at` to come up at `when`.
    pub(crate) fn add(&mut self, when: Instant, at: usize) {
        self.heap.push(Reverse((when, at)));
    }

    /// The first deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((when, _))| *when)
    }

    /// The next connection whose deadline has come, and that deadline.
    pub(crate) fn due(&mut self, now: Instant) -> Option<(Instant, usize)> {
        self.next().filter(|when| *when <= now)?;
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// Gives memory back that a burst left.
    pub(crate) fn shrink(&mut self) {
        if self.heap.capacity() > 64 && self.heap.len() < self.heap.capacity() / 4 {
            self.heap.shrink_to(self.heap.len() * 2);
        }
    }
}
