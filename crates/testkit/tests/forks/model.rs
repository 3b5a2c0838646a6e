//! Thousands of random steps against plain maps. A failure prints its seed; `HYDRANT_SEED=n` runs
//! that one alone.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use fastrand::Rng;
use ledger::{Commitment, KeyKind};
use query::{IndexConfig, IndexKeyFilter, LedgerConfig, LedgerError};
use testkit::{ForkEvent, ForkHarness, ForkInjector, PinnedView, TestRecordGenerator};

/// Fewer than the generator's addresses, so that ids run out and are reused.
const ADDRESSES_MAX: u32 = 220;
const WORLD: TestRecordGenerator =
    TestRecordGenerator { addresses: 300, keys: 40, changes_max: 6, removals: 45 };

#[test]
fn a_forked_ledger_answers_like_plain_maps() {
    let seeds = seeds(8);
    let run = |seed: u64| with_seed_on_failure(seed, || run(seed, 4_000, IndexConfig::default()));
    let full_tables: usize = seeds.iter().map(|seed| run(*seed)).sum();
    assert!(seeds.len() == 1 || full_tables > 0, "the bound of the table was never met");
}

#[test]
fn answers_and_counts_are_right_whatever_is_indexed() {
    let some = || Arc::new((0..WORLD.keys / 2).map(|n| WORLD.address(n)).collect());
    let off = IndexConfig::default().with(KeyKind(0), IndexKeyFilter::Off);
    let none =
        off.clone().with(KeyKind(1), IndexKeyFilter::Off).with(KeyKind(2), IndexKeyFilter::Off);
    let lists = IndexConfig::default()
        .with(KeyKind(0), IndexKeyFilter::Only(some()))
        .with(KeyKind(1), IndexKeyFilter::AllBut(some()));
    let own = none.clone().with_own(KeyKind(1), WORLD.address(3));
    for seed in seeds(2) {
        for indices in [&off, &none, &own, &lists] {
            with_seed_on_failure(seed, || run(seed, 2_000, indices.clone()));
        }
    }
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("HYDRANT_SEED") {
        Ok(seed) => vec![seed.parse().expect("HYDRANT_SEED is a number")],
        Err(_) => (1..=count).collect(),
    }
}

/// Runs `test` and names the seed if it fails.
#[expect(clippy::print_stderr, reason = "the seed is needed to repeat the failure")]
fn with_seed_on_failure<T>(seed: u64, test: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(test)).unwrap_or_else(|failure| {
        eprintln!("failed with HYDRANT_SEED={seed}");
        resume_unwind(failure)
    })
}

/// Returns how often the address table was full.
fn run(seed: u64, steps: usize, indices: IndexConfig) -> usize {
    let mut injector = ForkInjector::new(seed, 24);
    let config = LedgerConfig { addresses_max: ADDRESSES_MAX, indices };
    let rng = injector.rng();
    let fill = (0..rng.usize(..20)).map(|_| WORLD.changes(rng)).collect();
    let mut forked = ForkHarness::new(config, fill);
    forked.check_usage();
    check_views(&forked, &mut Vec::new(), injector.rng());
    let mut pinned: Vec<PinnedView> = Vec::new();
    let mut full_tables = 0;
    for _ in 0..steps {
        let step = injector.next_event(&forked.model);
        full_tables += usize::from(!try_event(&mut forked, step, injector.rng()));
        forked.check_usage();
        if step == ForkEvent::Publish {
            check_views(&forked, &mut pinned, injector.rng());
        }
    }
    for view in pinned.drain(..) {
        check(&view, &forked, injector.rng());
    }
    let left = forked.finish().expect("removals need no new address");
    assert_eq!(left, query::LedgerUsage::default());
    let bytes = forked.ledger.bytes();
    assert_eq!((bytes.packed, bytes.unpacked, bytes.ranks), (0, 0, 0), "no memory without records");
    assert_eq!(forked.reader.addresses().allocated_ids(), 0, "no id is in use");
    full_tables
}

/// False if the address table was really full.
fn try_event(forked: &mut ForkHarness, step: ForkEvent, rng: &mut Rng) -> bool {
    let table = forked.reader.addresses().clone();
    let used_before = table.allocated_ids();
    let changes = WORLD.changes(rng);
    let mut touched: Vec<_> = changes.iter().map(|change| change.address).collect();
    let notes = changes.iter().filter_map(|change| change.record.as_deref());
    touched.extend(notes.flat_map(|note| note.keys.iter().map(|(_, key)| *key)));
    touched.sort();
    touched.dedup();
    let unknown = touched.iter().filter(|address| table.lookup(address).is_none()).count();
    match forked.apply_event(step, || changes) {
        Ok(()) => true,
        Err(LedgerError::TableFull(full)) => {
            assert_eq!(full.limit, ADDRESSES_MAX);
            assert!(used_before + unknown > ADDRESSES_MAX as usize, "the table was not full");
            false
        }
        Err(err) => panic!("{step:?} was rejected: {err}"),
    }
}

/// Checks the views that were just published, pins some of them, and checks some of those pinned before.
fn check_views(forked: &ForkHarness, pinned: &mut Vec<PinnedView>, rng: &mut Rng) {
    for commitment in Commitment::ALL {
        let view = forked.pin_view(commitment);
        check(&view, forked, rng);
        if rng.usize(..100) < 15 {
            pinned.push(view);
        }
    }
    while pinned.len() > 6 || (!pinned.is_empty() && rng.usize(..100) < 10) {
        let view = pinned.swap_remove(rng.usize(..pinned.len()));
        check(&view, forked, rng);
    }
    if !pinned.is_empty() {
        check(&pinned[rng.usize(..pinned.len())], forked, rng);
    }
}

fn check(view: &PinnedView, forked: &ForkHarness, rng: &mut Rng) {
    let address = WORLD.address(rng.usize(..WORLD.addresses));
    view.check(&forked.reader, address, WORLD.key(rng));
}
