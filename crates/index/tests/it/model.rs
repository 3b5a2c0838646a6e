//! Random entries, removals and epochs against plain sets.

use std::collections::{BTreeMap, BTreeSet};

use index::{Index, Postings};
use ledger::{AddressId, Key, KeyKind};

use crate::key;

/// The entries that a snapshot needs: those of its epoch.
struct Snapshot {
    epoch: u64,
    needed: BTreeMap<u32, BTreeSet<u32>>,
}

fn records(postings: &Postings, key: Key) -> Vec<u32> {
    postings.records(key).map(|id| id.0).collect()
}

#[test]
fn records_come_sorted_after_inserts_in_any_order() {
    let mut index = Index::new(100, 1);
    for record in [7, 3, 200, 5, 3] {
        index.insert(key(1), AddressId(record));
    }
    assert_eq!(records(index.postings(), key(1)), [3, 5, 7, 200]);
    assert_eq!((index.count_entries(key(1)), index.len(), index.keys()), (4, 4, 1));
}

#[test]
fn usage_counts_every_key_and_entry_in_a_key_kind() {
    let mut index = Index::new(10_000, 1);
    let of = |kind, id| Key { kind: KeyKind(kind), id: AddressId(id) };
    for (key, records) in [(1, 1), (2, 1), (3, 20), (4, 5_000)] {
        (0..records).for_each(|record| assert!(index.insert(of(1, key), AddressId(record))));
    }
    assert!(index.insert(of(2, 1), AddressId(1)));
    let [one, two, none] = [1, 2, 3].map(|kind| index.postings().key_kind_usage(KeyKind(kind)));
    assert_eq!((one.keys, one.entries), (4, 5_022));
    assert_eq!((two.keys, two.entries), (1, 1));
    assert_eq!(none, index::KeyKindUsage::default());
    // A dense set of 5,000 is a bitmap; the block is twenty words.
    assert!(one.bytes > two.bytes + 80 + 600, "{one:?} {two:?}");
    let all = index.postings().bytes();
    assert!(one.bytes + two.bytes < all, "{all}");
}

#[test]
fn keys_differ_by_kind_and_by_id() {
    let mut index = Index::new(100, 1);
    let of = |kind, id| Key { kind: KeyKind(kind), id: AddressId(id) };
    assert!(index.insert(of(1, 1), AddressId(10)));
    assert!(index.insert(of(2, 1), AddressId(11)));
    assert_eq!(records(index.postings(), of(1, 1)), [10]);
    assert_eq!(records(index.postings(), of(2, 1)), [11]);
    assert_eq!(records(index.postings(), of(1, 2)), []);
    assert_eq!(records(index.postings(), of(9, 1)), [], "a key kind without keys");
}

#[test]
fn inserting_and_removing_report_whether_anything_changed() {
    let mut index = Index::new(100, 1);
    let one = key(1);
    assert!(!index.remove(one, AddressId(10), 1));
    assert!(index.insert(one, AddressId(10)));
    assert!(!index.insert(one, AddressId(10)));
    assert!(!index.remove(one, AddressId(11), 1));
    assert!(index.insert(one, AddressId(11)));
    assert!(!index.insert(one, AddressId(10)));
    assert!(!index.remove(one, AddressId(12), 1));
    assert!(index.remove(one, AddressId(10), 1));
    assert!(!index.remove(one, AddressId(10), 1), "only old readers need it");
    assert_eq!((index.count_entries(one), index.len(), index.keys()), (1, 1, 1));
    assert_eq!(records(index.postings(), one), [10, 11]);
    assert!(index.remove(one, AddressId(11), 1));
    assert_eq!((index.is_empty(), index.keys(), index.pending_reclaim()), (true, 0, 2));
    index.reclaim(1);
    assert_eq!(records(index.postings(), one), [10, 11], "epoch 1 is still pinned");
    index.reclaim(2);
    assert_eq!(records(index.postings(), one), []);
    assert_eq!(index.pending_reclaim(), 0);
}

#[test]
fn records_may_be_read_from_the_middle() {
    let mut index = Index::new(20_000, 1);
    // Keys with no record, one, a few, and many: sparse and dense.
    for (of, count, step) in [(2, 1, 1), (3, 5, 7), (4, 3_000, 5), (5, 15_000, 1)] {
        (0..count).for_each(|n| assert!(index.insert(key(of), AddressId(3 + n * step))));
    }
    for of in 1..=5 {
        let all = records(index.postings(), key(of));
        for first in [0, 3, 4, 10, 31, 32, 1_022, 1_023, 1_024, 1_025, 14_998, 15_003, 20_000] {
            let found = index.postings().records_from(key(of), AddressId(first));
            let found: Vec<u32> = found.map(|id| id.0).collect();
            let expected: Vec<u32> = all.iter().copied().filter(|id| *id >= first).collect();
            assert_eq!(found, expected, "of key {of} from {first}");
        }
    }
}

#[test]
fn what_comes_back_before_it_is_gone_stays() {
    let mut index = Index::new(100, 1);
    let one = key(1);
    assert!(index.insert(one, AddressId(10)));
    assert!(index.remove(one, AddressId(10), 1));
    assert!(index.insert(one, AddressId(10)), "for the writer it was removed");
    index.reclaim(2);
    assert_eq!((records(index.postings(), one), index.len()), (vec![10], 1));
    assert!(index.remove(one, AddressId(10), 2));
    assert!(index.insert(one, AddressId(10)));
    assert!(index.remove(one, AddressId(10), 5));
    index.reclaim(5);
    assert_eq!(records(index.postings(), one), [10], "the later removal counts");
    index.reclaim(6);
    assert_eq!((records(index.postings(), one), index.pending_reclaim()), (vec![], 0));
}

#[test]
fn a_reader_that_never_leaves_costs_one_queue_slot_per_entry() {
    let mut index = Index::new(100, 1);
    for epoch in 1..10_000 {
        assert!(index.insert(key(1), AddressId(10)));
        assert!(index.remove(key(1), AddressId(10), epoch));
        index.reclaim_some(1);
        assert_eq!((index.pending_reclaim(), index.len()), (1, 0));
    }
    index.reclaim(9_999);
    assert_eq!(records(index.postings(), key(1)), [10], "removed last in epoch 9,999");
    index.reclaim(10_000);
    assert_eq!((records(index.postings(), key(1)), index.pending_reclaim()), (vec![], 0));
}

/// The parameters of a run: ids are spread over `span`, and a few hot keys are drawn more often.
struct World {
    seed: u64,
    keys: u32,
    span: u32,
    steps: u32,
}

fn run(World { seed, keys, span, steps }: &World) {
    let mut rng = fastrand::Rng::with_seed(*seed);
    let mut index = Index::new(20_000, seed ^ 77);
    let postings = index.postings().clone();
    let mut model: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut entries = 0;
    let mut snapshots: Vec<Snapshot> = Vec::new();
    let mut epoch = 0;
    for step in 0..*steps {
        // A power of a uniform number: key 0 gets far more than its share.
        let n = (f64::from(rng.u32(..1 << 20)) / f64::from(1 << 20)).powi(4) * f64::from(*keys);
        let n = n as u32;
        let set = model.entry(n).or_default();
        let record = rng.u32(..*span);
        if rng.u32(..100) < if step / (steps / 4) % 2 == 0 { 80 } else { 20 } {
            let is_new = set.insert(record);
            assert_eq!(index.insert(key(n), AddressId(record)), is_new);
            entries += usize::from(is_new);
        } else {
            // Usually a record that is in the set.
            let record = set.range(record..).next().copied().unwrap_or(record);
            let was_there = set.remove(&record);
            assert_eq!(index.remove(key(n), AddressId(record), epoch), was_there);
            entries -= usize::from(was_there);
        }
        assert_eq!(index.count_entries(key(n)), set.len());
        assert_eq!(index.len(), entries);
        if step % 300 == 0 {
            epoch += 1;
            let hot = model.iter().filter(|(n, _)| **n % 7 < 3 || step % 3_000 == 0);
            let needed = hot.map(|(n, set)| (*n, set.clone())).collect();
            snapshots.push(Snapshot { epoch, needed });
            while snapshots.len() > 3 || (rng.u32(..3) == 0 && !snapshots.is_empty()) {
                snapshots.swap_remove(rng.usize(..snapshots.len()));
            }
            let oldest = snapshots.iter().map(|snapshot| snapshot.epoch).min();
            index.reclaim_some(oldest.unwrap_or(epoch + 1));
            assert_eq!(index.keys(), model.values().filter(|set| !set.is_empty()).count());
        }
        if step % 1_500 == 0 {
            for (n, set) in snapshots.iter().flat_map(|snapshot| &snapshot.needed) {
                let found = records(&postings, key(*n));
                assert!(found.is_sorted_by(|left, right| left < right), "each once, in order");
                assert!(set.iter().all(|record| found.binary_search(record).is_ok()));
                assert!(found.len() <= postings.count_entries(key(*n)));
            }
        }
    }
    index.reclaim(epoch + 1);
    for (n, set) in &model {
        assert_eq!(records(&postings, key(*n)), set.iter().copied().collect::<Vec<_>>());
        assert!(set.iter().all(|record| postings.contains(key(*n), AddressId(*record))));
        for record in set {
            assert!(index.remove(key(*n), AddressId(*record), epoch));
        }
    }
    index.reclaim(epoch + 1);
    assert_eq!((index.len(), index.keys(), index.pending_reclaim()), (0, 0, 0));
    for n in 0..*keys {
        assert_eq!(records(&postings, key(n)), []);
    }
}

#[test]
fn an_index_behaves_like_plain_sets() {
    run(&World { seed: 1, keys: 400, span: 30_000, steps: 150_000 });
    run(&World { seed: 2, keys: 40, span: 1 << 31, steps: 100_000 });
    run(&World { seed: 3, keys: 9, span: 90_000, steps: 200_000 });
    run(&World { seed: 4, keys: 12_000, span: 2_000, steps: 100_000 });
}
