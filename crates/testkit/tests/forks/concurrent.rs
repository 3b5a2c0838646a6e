//! Readers on threads while the writer forks, roots, drops and reuses ids. Each view is of one whole version.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fastrand::Rng;
use ledger::{Address, BlockId, Change, Commitment, KeyKind};
use query::{Ledger, LedgerConfig, Reader};
use testkit::{ModelBlock, TestRecord, TestRecordGenerator};

/// The sum of all records' values, in every block.
const TOTAL: u64 = 1_000;
const BLOCKS: u64 = 1_500;
const READERS: usize = 2;
/// Number of reads before the writer stops.
const READS_MIN: usize = 500;
const PURSE: KeyKind = KeyKind(0);
const WORLD: TestRecordGenerator =
    TestRecordGenerator { addresses: 60, keys: 4, changes_max: 1, removals: 0 };
/// A third of the addresses, so that ids are reused.
const ADDRESSES_MAX: u32 = 26;

#[test]
fn readers_see_whole_versions_while_the_writer_forks() {
    let root = BlockId { slot: 0, version: 0 };
    let (mut ledger, reader) =
        Ledger::new(LedgerConfig::new(ADDRESSES_MAX), root, block_meta(root));
    let first = test_record(0, TOTAL, 0);
    let filled = ledger.apply(root, vec![change(first.address, Some(first))], block_meta(root));
    assert!(filled.is_ok());
    ledger.publish();
    let is_over = AtomicBool::new(false);
    let reads = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for seed in 0..READERS {
            let reader = reader.clone();
            let is_over = &is_over;
            let reads = &reads;
            threads.spawn(move || {
                let _over = SetOnDrop(is_over);
                let mut rng = Rng::with_seed(seed as u64);
                let mut root = 0;
                while !is_over.load(Ordering::Relaxed) {
                    root = check_view(&reader, &mut rng, root);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _over = SetOnDrop(&is_over);
        let is_done = |block| {
            let is_enough = reads.load(Ordering::Relaxed) >= READS_MIN;
            is_over.load(Ordering::Relaxed) || (block >= BLOCKS && is_enough)
        };
        write(ledger, root, is_done);
    });
}

/// Ends the test for all threads, also when one of them panics.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Moves value between records, block by block. A third of the blocks is dropped again.
fn write(mut ledger: Ledger<TestRecord, ModelBlock>, root: BlockId, is_done: impl Fn(u64) -> bool) {
    let mut rng = Rng::with_seed(99);
    // The records of the tip's block: number and value.
    let mut purses = vec![(0, TOTAL)];
    let mut tip = root;
    let mut version = 0;
    while !is_done(version) {
        version += 1;
        let block = BlockId { slot: tip.slot + 1, version };
        ledger.open(block, tip, block_meta(block)).expect("the tip is complete");
        let mut next = purses.clone();
        for _ in 0..3 {
            // A full table does not end the test: the whole move is left out.
            let mut tried = next.clone();
            let changes = moved(&mut tried, &mut rng);
            if ledger.apply(block, changes, block_meta(block)).is_ok() {
                next = tried;
            }
            ledger.publish();
        }
        if rng.usize(..100) < 33 {
            ledger.drop_fork(block).expect("it is above the root");
            ledger.publish();
            continue;
        }
        ledger.complete(block, block_meta(block)).expect("it is open");
        ledger.confirm(block).expect("it is complete");
        if rng.bool() {
            ledger.finalize(block).expect("it is complete");
        }
        ledger.publish();
        (purses, tip) = (next, block);
    }
}

/// Moves value from one record to another, which may be new. Closes the first if it is empty.
fn moved(purses: &mut Vec<(usize, u64)>, rng: &mut Rng) -> Vec<Change<TestRecord>> {
    let from = rng.usize(..purses.len());
    let (source, balance) = purses[from];
    let is_all = rng.usize(..100) < 60;
    let amount = if is_all { balance } else { rng.usize(..balance as usize + 1) as u64 };
    let target =
        if purses.len() >= 8 { purses[rng.usize(..8)].0 } else { rng.usize(..WORLD.addresses) };
    if target == source {
        return Vec::new();
    }
    purses[from].1 -= amount;
    match purses.iter_mut().find(|(purse, _)| *purse == target) {
        Some((_, value)) => *value += amount,
        None => purses.push((target, amount)),
    }
    let mut changes = Vec::new();
    for purse in [source, target] {
        let value = purses.iter().find(|(other, _)| *other == purse).map_or(0, |(_, value)| *value);
        let now = test_record(purse, value, rng.usize(..WORLD.keys));
        changes.push(change(now.address, (value > 0).then_some(now)));
    }
    purses.retain(|(_, value)| *value > 0);
    changes
}

/// Checks one view of one published version. Returns the root's slot, which never goes back.
fn check_view(reader: &Reader<TestRecord, ModelBlock>, rng: &mut Rng, root_before: u64) -> u64 {
    let views = reader.views();
    let root = views.finalized.block().slot;
    assert!(root >= root_before, "the root went back from {root_before} to {root}");
    let view = match rng.usize(..3) {
        0 => views.processed,
        1 => views.confirmed,
        _ => views.finalized,
    };
    let mut total = 0;
    for (address, note) in view.all() {
        assert_eq!(address, note.address, "an id led to another address");
        assert_eq!(view.record(&address).as_ref(), Some(&note));
        total += note.value;
    }
    assert_eq!(total, TOTAL, "half a block was seen, at {:?}", view.block());
    let by_key = (0..WORLD.keys)
        .flat_map(|key| view.records_by_key(PURSE, &key_address(key)).collect::<Vec<_>>());
    let keyed = by_key.map(|(address, note)| {
        assert_eq!(address, note.address, "an index entry led to another address");
        note.value
    });
    assert_eq!(keyed.sum::<u64>(), TOTAL, "index and state are of two versions");
    root
}

fn test_record(n: usize, value: u64, key: usize) -> TestRecord {
    TestRecord { address: WORLD.address(n), value, keys: vec![(PURSE, key_address(key))] }
}

fn key_address(key: usize) -> Address {
    WORLD.address(1_000 + key)
}

fn change(address: Address, note: Option<TestRecord>) -> Change<TestRecord> {
    Change { address, record: note.map(Arc::new) }
}

fn block_meta(block: BlockId) -> Arc<ModelBlock> {
    Arc::new(ModelBlock { block, writes: 0, is_complete: true })
}

#[expect(dead_code, reason = "checked by the compiler: readers and views cross threads")]
fn readers_cross_threads(reader: Reader<TestRecord, ModelBlock>) -> impl Send + Sync {
    (reader.view(Commitment::Processed), reader)
}
