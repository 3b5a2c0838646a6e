//! Counters with separate memory for each thread: to count takes a load and a store, and no thread waits for
//! another's cache line.
//!
//! In: the index of a counter and an amount. Out: sums over all threads.
//! Bounds: at most [`THREAD_SLOTS_MAX`] threads at once have counters of their own (eight bytes each, allocated when
//! a thread first counts). All further threads share one set and add to it atomically. When a thread ends, its
//! counters pass to the next thread that starts.
//! A sum is not atomic: it may or may not include amounts that are added during the sum.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Threads that have counters of their own.
const THREAD_SLOTS_MAX: usize = 64;

/// A fixed number of counters, by index.
pub struct Counters {
    len: usize,
    /// One set for each thread slot, then the shared one.
    sets: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl Counters {
    /// Creates `len` counters that are zero.
    pub fn new(len: usize) -> Self {
        Self { len, sets: (0..=THREAD_SLOTS_MAX).map(|_| OnceLock::new()).collect() }
    }

    /// Adds to one counter. Does nothing if there is no such counter.
    pub fn add(&self, at: usize, by: u64) {
        self.add_all([(at, by)]);
    }

    /// Adds to several counters, each by its index.
    pub fn add_all<const N: usize>(&self, all: [(usize, u64); N]) {
        let set = ThreadSlot::current_index();
        let counters = self.sets[set].get_or_init(|| zeros(self.len));
        for (at, by) in all {
            let Some(counter) = counters.get(at) else { continue };
            if set < THREAD_SLOTS_MAX {
                // No other thread writes it, so no atomic addition is needed.
                counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
            } else {
                counter.fetch_add(by, Ordering::Relaxed);
            }
        }
    }

    /// Adds to each element the sum over all threads of its counter. The first element has the counter `first`. It
    /// reads the counters of each thread in one pass, which is cheaper than [`Self::sum`] for each counter.
    pub fn add_sums(&self, first: usize, into: &mut [u64]) {
        for counters in self.sets.iter().filter_map(OnceLock::get) {
            let counters = counters.get(first..).unwrap_or_default();
            for (sum, counter) in into.iter_mut().zip(counters) {
                *sum = sum.wrapping_add(counter.load(Ordering::Relaxed));
            }
        }
    }

    /// Returns the sum of one counter over all threads.
    pub fn sum(&self, at: usize) -> u64 {
        let value = |counters: &[AtomicU64]| counters.get(at).map(|it| it.load(Ordering::Relaxed));
        let sets = self.sets.iter().filter_map(OnceLock::get);
        sets.filter_map(|counters| value(counters)).fold(0, u64::wrapping_add)
    }
}

fn zeros(len: usize) -> Box<[AtomicU64]> {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}

/// Free slots, and how many slots were ever allocated.
static FREE_SLOTS: Mutex<(Vec<usize>, usize)> = Mutex::new((Vec::new(), 0));

/// A thread's index among the sets. Below [`THREAD_SLOTS_MAX`], no other living thread has it. A thread sees the counts
/// that the previous owner of its slot stored, because both have locked [`FREE_SLOTS`].
struct ThreadSlot(usize);

impl ThreadSlot {
    fn acquire() -> Self {
        let mut free = FREE_SLOTS.lock();
        if let Some(slot) = free.0.pop() {
            return Self(slot);
        }
        let next = free.1;
        if next < THREAD_SLOTS_MAX {
            free.1 += 1;
        }
        Self(next)
    }

    fn current_index() -> usize {
        thread_local! {
            static THREAD_SLOT: ThreadSlot = ThreadSlot::acquire();
        }
        // A thread that is ending has freed its slot.
        THREAD_SLOT.try_with(|slot| slot.0).unwrap_or(THREAD_SLOTS_MAX)
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        if self.0 < THREAD_SLOTS_MAX {
            FREE_SLOTS.lock().0.push(self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_threads_start_and_end() {
        let counters = Counters::new(3);
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for _ in 0..THREAD_SLOTS_MAX + 8 {
                    scope.spawn(|| (0..100).for_each(|_| counters.add_all([(0, 1), (2, 5)])));
                }
            });
        }
        let threads = 3 * (THREAD_SLOTS_MAX as u64 + 8);
        assert_eq!([0, 1, 2].map(|at| counters.sum(at)), [100 * threads, 0, 500 * threads]);
        counters.add(3, 1); // there is no such counter
        assert_eq!(counters.sum(3), 0);
        let mut sums = [1; 4];
        counters.add_sums(1, &mut sums);
        assert_eq!(sums, [1, 500 * threads + 1, 1, 1]);
    }
}
