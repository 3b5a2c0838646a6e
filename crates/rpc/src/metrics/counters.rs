//! Numbers that threads add to, each thread in memory of its own: to count costs a load and a store, and no
//! thread waits for another's cache line.
//!
//! In: a number's place and what to add. Out: sums over all threads, for whoever reports them.
//! Bounds: [`THREAD_SLOTS_MAX`] threads at once have their own numbers (eight bytes each, made when a thread first
//! counts); those past it share one set, and add to it atomically. A thread that ends leaves its numbers
//! to the next that begins.
//! A sum is of no single moment: what is added meanwhile may be in it or not.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Threads that have numbers of their own.
const THREAD_SLOTS_MAX: usize = 64;

/// A fixed count of numbers.
pub struct Counters {
    len: usize,
    /// One for each thread that may have its own, then the one that is shared.
    sets: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl Counters {
    /// So many zeros.
    pub fn new(len: usize) -> Self {
        Self { len, sets: (0..=THREAD_SLOTS_MAX).map(|_| OnceLock::new()).collect() }
    }

    /// Adds to one number. One that is not there is left out.
    pub fn add(&self, at: usize, by: u64) {
        self.add_all([(at, by)]);
    }

    /// Adds to some numbers.
    pub fn add_all<const N: usize>(&self, all: [(usize, u64); N]) {
        let set = ThreadSlot::current_index();
        let numbers = self.sets[set].get_or_init(|| zeros(self.len));
        for (at, by) in all {
            let Some(number) = numbers.get(at) else { continue };
            if set < THREAD_SLOTS_MAX {
                // Nobody else writes it: no lock of the cache line is needed.
                number.store(number.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
            } else {
                number.fetch_add(by, Ordering::Relaxed);
            }
        }
    }

    /// One number over all threads.
    pub fn sum(&self, at: usize) -> u64 {
        let of = |numbers: &[AtomicU64]| numbers.get(at).map(|it| it.load(Ordering::Relaxed));
        let sets = self.sets.iter().filter_map(OnceLock::get);
        sets.filter_map(|numbers| of(numbers)).fold(0, u64::wrapping_add)
    }
}

fn zeros(len: usize) -> Box<[AtomicU64]> {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}

/// Places that threads gave back, and how many there ever were.
static FREE_SLOTS: Mutex<(Vec<usize>, usize)> = Mutex::new((Vec::new(), 0));

/// A thread's place among the sets; no other living thread has it, if it is one of its own. What the
/// thread before stored there, the next sees: both were under the lock of [`FREE_SLOTS`].
struct ThreadSlot(usize);

impl ThreadSlot {
    fn acquire() -> Self {
        let mut free = FREE_SLOTS.lock();
        if let Some(place) = free.0.pop() {
            return Self(place);
        }
        let next = free.1;
        if next < THREAD_SLOTS_MAX {
            free.1 += 1;
        }
        Self(next)
    }

    fn current_index() -> usize {
        thread_local! {
            static PLACE: ThreadSlot = ThreadSlot::acquire();
        }
        // A thread that is ending has given its place back.
        PLACE.try_with(|place| place.0).unwrap_or(THREAD_SLOTS_MAX)
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
    fn nothing_is_lost_whatever_threads_come_and_go() {
        let counts = Counters::new(3);
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for _ in 0..THREAD_SLOTS_MAX + 8 {
                    scope.spawn(|| (0..100).for_each(|_| counts.add_all([(0, 1), (2, 5)])));
                }
            });
        }
        let threads = 3 * (THREAD_SLOTS_MAX as u64 + 8);
        assert_eq!([0, 1, 2].map(|at| counts.sum(at)), [100 * threads, 0, 500 * threads]);
        counts.add(3, 1); // there is none
        assert_eq!(counts.sum(3), 0);
    }
}
