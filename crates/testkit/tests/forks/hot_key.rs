//! Keys of thousands of records, which often change their key, under slow readers: in every version each record is
//! found by one key, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fastrand::Rng;
use ledger::{Address, BlockId, Change, Commitment, KeyKind};
use query::{Ledger, LedgerConfig, Reader};
use testkit::{ModelBlock, TestRecord, TestRecordGenerator};

const OWNER: KeyKind = KeyKind(1);
const WORLD: TestRecordGenerator =
    TestRecordGenerator { addresses: 3_000, keys: 3, changes_max: 1, removals: 0 };
const READERS: usize = 2;
const READS_MIN: usize = 150;
const BLOCKS_MIN: u64 = 300;

#[test]
fn each_record_of_a_hot_key_is_found_once_while_records_move_between_keys() {
    let root = BlockId { slot: 0, version: 0 };
    let config = LedgerConfig::new(10_000);
    let (mut ledger, reader) = Ledger::new(config, root, block_meta(root));
    let mut rng = Rng::with_seed(1);
    let all = (0..WORLD.addresses).map(|n| change(n, &mut rng)).collect();
    ledger.apply(root, all, block_meta(root)).expect("the world fits");
    ledger.publish();
    let is_over = AtomicBool::new(false);
    let reads = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..READERS {
            let reader = reader.clone();
            let is_over = &is_over;
            let reads = &reads;
            threads.spawn(move || {
                let _over = SetOnDrop(is_over);
                while !is_over.load(Ordering::Relaxed) {
                    Commitment::ALL.iter().for_each(|commitment| check_view(&reader, *commitment));
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _over = SetOnDrop(&is_over);
        let is_done = |blocks| {
            let is_enough = reads.load(Ordering::Relaxed) >= READS_MIN;
            is_over.load(Ordering::Relaxed) || (blocks >= BLOCKS_MIN && is_enough)
        };
        write(&mut ledger, root, &mut rng, is_done);
    });
    let usage = ledger.usage();
    assert_eq!((usage.records, usage.index_keys), (WORLD.addresses, WORLD.keys));
}

/// Blocks that move records between keys; some vanish again, the others are rooted three later.
fn write(
    ledger: &mut Ledger<TestRecord, ModelBlock>,
    root: BlockId,
    rng: &mut Rng,
    is_done: impl Fn(u64) -> bool,
) {
    let mut chain = vec![root];
    let mut version = 0;
    while !is_done(version) {
        version += 1;
        let tip = chain[chain.len() - 1];
        let block = BlockId { slot: tip.slot + 1, version };
        ledger.open(block, tip, block_meta(block)).expect("the tip is complete");
        for _ in 0..4 {
            let changes = (0..30).map(|_| change(rng.usize(..WORLD.addresses), rng)).collect();
            ledger.apply(block, changes, block_meta(block)).expect("nothing is new");
            ledger.publish();
        }
        if rng.usize(..100) < 25 {
            ledger.drop_fork(block).expect("it is above the root");
        } else {
            ledger.complete(block, block_meta(block)).expect("it is open");
            ledger.confirm(block).expect("it is complete");
            chain.push(block);
            if chain.len() > 4 {
                ledger.finalize(chain.remove(1)).expect("it is complete");
            }
        }
        ledger.publish();
    }
}

fn check_view(reader: &Reader<TestRecord, ModelBlock>, commitment: Commitment) {
    let view = reader.view(commitment);
    let mut found = vec![false; WORLD.addresses];
    for key in 0..WORLD.keys {
        let key = (OWNER, WORLD.address(5_000 + key));
        for (address, note) in view.records_by_key(key.0, &key.1) {
            assert_eq!(address, note.address, "an index entry led to another address");
            assert_eq!(note.keys, [key], "a record was found by a key that it does not have");
            let is_again = std::mem::replace(&mut found[note.value as usize], true);
            assert!(!is_again, "note {} was found twice", note.value);
        }
    }
    let missing = found.iter().filter(|found| !**found).count();
    assert_eq!(missing, 0, "records were not found at {commitment:?}");
}

fn change(n: usize, rng: &mut Rng) -> Change<TestRecord> {
    let address: Address = WORLD.address(n);
    // The first key is hot.
    let key = if rng.usize(..100) < 70 { 0 } else { rng.usize(..WORLD.keys) };
    let keys = vec![(OWNER, WORLD.address(5_000 + key))];
    Change { address, record: Some(Arc::new(TestRecord { address, value: n as u64, keys })) }
}

fn block_meta(block: BlockId) -> Arc<ModelBlock> {
    Arc::new(ModelBlock { block, writes: 0, is_complete: true })
}

/// Ends the test for all threads, also when one of them panics.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
