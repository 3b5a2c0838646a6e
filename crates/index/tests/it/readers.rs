//! Readers on threads while sets change their size and form under them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use index::Index;
use ledger::AddressId;

use crate::key;

/// Races readers with the writer. Some records of every key stay forever: a reader must meet all of them, once and in
/// order, and no record that was never there, whatever else is inserted and removed.
fn run(keys: u32, span: u32, stays_every: u32, passes_min: u32) {
    let stays = move |n: u32, record: u32| record % stays_every == n % stays_every;
    // Records that are inserted and removed have the parity of their key; the others were never there.
    let may_come = move |n: u32, record: u32| record % 2 == n % 2;
    let mut index = Index::new(10_000, 5);
    let postings = index.postings().clone();
    let spread = (1 << 31) / span;
    let spread = if span > 100_000 { 1 } else { spread.min(700) };
    for n in 0..keys {
        for record in (0..span).filter(|record| stays(n, *record)) {
            index.insert(key(n), AddressId(record * spread));
        }
    }
    let is_over = AtomicBool::new(false);
    let passes = AtomicU32::new(0);
    std::thread::scope(|threads| {
        for seed in 0..2 {
            let postings = &postings;
            let is_over = &is_over;
            let passes = &passes;
            threads.spawn(move || {
                let _over = SetOnDrop(is_over);
                let mut rng = fastrand::Rng::with_seed(seed);
                while !is_over.load(Ordering::Relaxed) {
                    let n = rng.u32(..keys);
                    let mut awaited = (0..span).filter(|record| stays(n, *record)).peekable();
                    let mut last = None;
                    for AddressId(id) in postings.records(key(n)) {
                        assert!(last < Some(id), "{id} came after {last:?}");
                        last = Some(id);
                        let record = id / spread;
                        assert!(record < span && id % spread == 0, "{id} was never there");
                        if stays(n, record) {
                            assert_eq!(awaited.next(), Some(record), "of key {n}");
                        } else {
                            assert!(may_come(n, record), "{record} was never under key {n}");
                        }
                    }
                    assert_eq!(awaited.next(), None, "of key {n}");
                    passes.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _over = SetOnDrop(&is_over);
        let mut rng = fastrand::Rng::with_seed(99);
        let mut step = 0_u32;
        while passes.load(Ordering::Relaxed) < passes_min && !is_over.load(Ordering::Relaxed) {
            // Long runs of growth and of shrinking, so that sets pass through their forms.
            let grows = (step / (span * keys / 2).max(1_000)).is_multiple_of(2);
            let n = rng.u32(..keys);
            let record = rng.u32(..span);
            if may_come(n, record) && !stays(n, record) {
                if grows {
                    index.insert(key(n), AddressId(record * spread));
                } else {
                    index.remove(key(n), AddressId(record * spread), 0);
                    index.reclaim(1);
                }
            }
            step = step.wrapping_add(1);
        }
    });
}

/// Ends the test for all threads, also when one of them panics.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn small_sets_are_read_whole_while_blocks_are_used_again() {
    run(20, 60, 16, 200_000);
    run(500, 12, 6, 200_000);
}

#[test]
fn large_sets_are_read_whole_while_leaves_are_cut_and_joined() {
    run(3, 3_000, 50, 20_000);
    run(2, 250_000, 1_000, 300);
}

#[test]
fn sets_at_the_bound_between_small_and_large_are_read_whole() {
    run(6, 160, 40, 200_000);
}
