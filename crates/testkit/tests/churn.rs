//! Accounts that are created and closed for a long time: their memory is reused. This is a binary of its own,
//! because it counts the bytes of the whole heap.

use std::collections::VecDeque;
use std::sync::Arc;

use fastrand::Rng;
use ledger::{Address, BlockId, Change, KeyKind};
use peak_alloc::PeakAlloc;
use query::{Ledger, LedgerConfig};
use testkit::{ModelBlock, TestRecord, TestRecordGenerator};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const WORLD: TestRecordGenerator =
    TestRecordGenerator { addresses: 0, keys: 700, changes_max: 0, removals: 0 };
const RECORDS: usize = 4_000;
const CLOSED_PER_BLOCK: usize = 400;
/// Blocks after which every record was closed and made again, as another one, twice.
const WARM: u64 = 20;
const BLOCKS: u64 = 400;

/// Addresses that are never the same again, under keys that are.
struct Fresh {
    next: usize,
    rng: Rng,
}

impl Fresh {
    fn change(&mut self) -> Change<TestRecord> {
        self.next += 1;
        let address = WORLD.address(1_000_000 + self.next);
        // Values from a few, so that at all times as many do not pack.
        let value = self.rng.u64(..1_000);
        let keys = (0..3).map(|facet| (KeyKind(facet), WORLD.key(&mut self.rng).1)).collect();
        Change { address, record: Some(Arc::new(TestRecord { address, value, keys })) }
    }
}

#[test]
fn what_closed_accounts_leave_is_used_again() {
    let facts = |block| Arc::new(ModelBlock { block, writes: 0, is_complete: true });
    let block = |slot| BlockId { slot, version: 0 };
    let config = LedgerConfig::new(2 * RECORDS as u32);
    let (mut ledger, reader) = Ledger::new(config, block(0), facts(block(0)));
    let mut fresh = Fresh { next: 0, rng: Rng::with_seed(7) };
    let first: Vec<Change<TestRecord>> = (0..RECORDS).map(|_| fresh.change()).collect();
    let mut living: VecDeque<Address> = first.iter().map(|change| change.address).collect();
    ledger.apply(block(0), first, facts(block(0))).expect("the world fits");
    ledger.publish();
    let mut warm = (0, 0);
    for slot in 1..=BLOCKS {
        ledger.open(block(slot), block(slot - 1), facts(block(slot))).expect("it is the tip");
        let closed = living.drain(..CLOSED_PER_BLOCK);
        let mut changes: Vec<Change<TestRecord>> =
            closed.map(|address| Change { address, record: None }).collect();
        changes.extend((0..CLOSED_PER_BLOCK).map(|_| fresh.change()));
        living.extend(changes[CLOSED_PER_BLOCK..].iter().map(|change| change.address));
        ledger.apply(block(slot), changes, facts(block(slot))).expect("ids are used again");
        ledger.complete(block(slot), facts(block(slot))).expect("it is open");
        ledger.confirm(block(slot)).expect("it is complete");
        ledger.finalize(block(slot)).expect("it is complete");
        ledger.publish();
        assert_eq!(reader.bytes(), ledger.bytes());
        let now = (HEAP.current_usage(), ledger.bytes().total());
        if slot == WARM {
            warm = now;
        }
        if slot > WARM {
            let is_flat = |now: usize, warm: usize| now < warm + warm / 8;
            assert!(is_flat(now.0, warm.0), "slot {slot}: {} bytes grew to {}", warm.0, now.0);
            assert!(is_flat(now.1, warm.1), "slot {slot}: {} bytes grew to {}", warm.1, now.1);
        }
    }
    assert_eq!(ledger.usage().records, RECORDS);
    assert!(warm.1 > 0 && warm.1 <= warm.0, "{} bytes reported of {}", warm.1, warm.0);
}
