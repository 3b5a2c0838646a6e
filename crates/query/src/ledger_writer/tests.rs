//! The tips, the visibility of blocks, and the references to addresses, by a ledger of purses.

use ledger::{Address, Commitment, KeyKind};

use super::*;
use crate::View;

type TestResult = Result<(), LedgerError>;

const ROOT: BlockId = block(0, 0);
const OWNER: KeyKind = KeyKind(2);

/// A record with an owner and an amount.
#[derive(Debug, PartialEq, Eq)]
struct Purse {
    owner: Address,
    amount: u64,
}

impl Record for Purse {
    fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
        key(OWNER, self.owner);
    }
}

const fn block(slot: u64, version: u64) -> BlockId {
    BlockId { slot, version }
}

fn address(n: u8) -> Address {
    Address::from([n; 32])
}

fn purse(at: u8, owner: u8, amount: u64) -> Change<Purse> {
    let record = Purse { owner: address(owner), amount };
    Change { address: address(at), record: Some(Arc::new(record)) }
}

fn close_account(at: u8) -> Change<Purse> {
    Change { address: address(at), record: None }
}

/// Returns a published empty ledger. The metadata of its blocks is a word.
fn ledger(addresses_max: u32) -> (Ledger<Purse, &'static str>, Reader<Purse, &'static str>) {
    let (mut ledger, reader) =
        Ledger::new(LedgerConfig::new(addresses_max), ROOT, Arc::new("root"));
    ledger.publish();
    (ledger, reader)
}

/// Opens a block with these changes and completes it.
fn add(
    ledger: &mut Ledger<Purse, &'static str>,
    block: BlockId,
    parent: BlockId,
    changes: Vec<Change<Purse>>,
) -> Result<Vec<AddressId>, LedgerError> {
    ledger.open(block, parent, Arc::new("open"))?;
    let ids = ledger.apply(block, changes, Arc::new("written"))?;
    ledger.complete(block, Arc::new("complete"))?;
    Ok(ids)
}

/// Amounts by address, over all records.
fn amounts(view: &View<Purse, &'static str>) -> Vec<(u8, u64)> {
    let all = view.all().map(|(address, purse)| (address.as_bytes()[0], purse.amount));
    all.collect()
}

fn list_owned(view: &View<Purse, &'static str>, owner: u8) -> Vec<u8> {
    let keyed = view.records_by_key(OWNER, &address(owner));
    keyed.map(|(address, _)| address.as_bytes()[0]).collect()
}

#[test]
fn readers_see_nothing_before_it_is_published() -> TestResult {
    let (mut ledger, reader) = ledger(10);
    let one = block(1, 1);
    ledger.open(one, ROOT, Arc::new("open"))?;
    ledger.apply(one, vec![purse(1, 9, 5)], Arc::new("written"))?;
    let before = reader.view(Commitment::Processed);
    assert_eq!((before.block(), **before.meta(), amounts(&before)), (ROOT, "root", vec![]));
    let own = ledger.record(&address(1)).map(|purse| purse.amount);
    assert_eq!(own, Some(5), "the writer sees what it wrote");
    ledger.publish();
    let after = reader.view(Commitment::Processed);
    assert_eq!((after.block(), **after.meta()), (one, "written"));
    assert_eq!(amounts(&after), [(1, 5)]);
    assert_eq!(after.record(&address(1)).map(|purse| purse.amount), Some(5));
    assert_eq!(after.record(&address(9)), None, "a key without a record");
    assert_eq!(amounts(&before), [], "a view stays as it is");
    Ok(())
}

#[test]
fn a_hidden_block_becomes_visible_as_the_tip_and_leaves_nothing() -> TestResult {
    let (mut ledger, reader) = ledger(20);
    let one = block(1, 1);
    let left = block(2, 2);
    let right = block(3, 3);
    add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
    ledger.publish();
    let before = ledger.usage();
    for (open, owner) in [(left, 8), (right, 7)] {
        ledger.open_hidden(open, one, Arc::new("open"))?;
        for amount in 0..3 {
            let changes = vec![purse(1, owner, amount), purse(2, owner, 10 + amount)];
            ledger.apply(open, changes, Arc::new("written"))?;
            ledger.publish();
        }
    }
    let view = reader.view(Commitment::Processed);
    assert_eq!((view.block(), amounts(&view)), (one, vec![(1, 1)]));
    assert_eq!([9, 8, 7].map(|owner| list_owned(&view, owner)), [vec![1], vec![], vec![]]);
    let amount_at = |ledger: &Ledger<Purse, _>, block| {
        ledger.record_at(block, &address(2)).map(|purse| purse.amount)
    };
    assert_eq!([one, left, right].map(|at| amount_at(&ledger, at)), [None, Some(12), Some(12)]);
    assert_eq!(ledger.versions(), 5, "a block has one version of a record");
    ledger.drop_fork(left)?;
    ledger.complete(right, Arc::new("complete"))?;
    ledger.set_tip(right)?;
    ledger.publish();
    let view = reader.view(Commitment::Processed);
    assert_eq!((view.block(), amounts(&view)), (right, vec![(1, 2), (2, 12)]));
    assert_eq!([9, 8, 7].map(|owner| list_owned(&view, owner)), [vec![], vec![], vec![1, 2]]);
    ledger.drop_fork(right)?;
    ledger.publish();
    assert!(!ledger.contains_block(left) && !ledger.contains_block(right));
    assert_eq!((ledger.usage(), ledger.record_at(right, &address(1))), (before, None));
    Ok(())
}

#[test]
fn each_commitment_sees_its_own_block() -> TestResult {
    let (mut ledger, reader) = ledger(20);
    let one = block(1, 1);
    let two = block(2, 2);
    let three = block(3, 3);
    add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
    add(&mut ledger, two, one, vec![purse(1, 9, 2)])?;
    ledger.confirm(two)?;
    ledger.open(three, two, Arc::new("open"))?;
    ledger.apply(three, vec![purse(1, 8, 3)], Arc::new("written"))?;
    ledger.finalize(one)?;
    ledger.publish();
    let views = reader.views();
    assert_eq!(amounts(&views.processed), [(1, 3)]);
    assert_eq!(amounts(&views.confirmed), [(1, 2)]);
    assert_eq!(amounts(&views.finalized), [(1, 1)]);
    assert_eq!(
        (list_owned(&views.processed, 9), list_owned(&views.processed, 8)),
        (vec![], vec![1])
    );
    assert_eq!(
        (list_owned(&views.confirmed, 9), list_owned(&views.confirmed, 8)),
        (vec![1], vec![])
    );
    assert_eq!(views.confirmed.records_by_key_len(OWNER, &address(8)), 1, "an upper bound");
    assert_eq!(**views.confirmed.meta(), "complete");
    Ok(())
}

#[test]
fn the_root_is_filled_until_the_first_publish() -> TestResult {
    let (mut ledger, reader) = Ledger::new(LedgerConfig::new(10), ROOT, Arc::new("root"));
    ledger.apply(ROOT, vec![purse(1, 9, 1), purse(2, 9, 2)], Arc::new("filled"))?;
    ledger.apply(ROOT, vec![close_account(1), close_account(3)], Arc::new("filled"))?;
    assert!(reader.view(Commitment::Finalized).is_empty());
    ledger.publish();
    for commitment in Commitment::ALL {
        let view = reader.view(commitment);
        assert_eq!((amounts(&view), **view.meta()), (vec![(2, 2)], "filled"));
    }
    assert_eq!(ledger.usage().addresses, 2);
    let late = ledger.apply(ROOT, vec![purse(1, 9, 1)], Arc::new("late"));
    assert_eq!(late, Err(LedgerError::Block(BlockError::Complete(ROOT))));
    Ok(())
}

#[test]
fn the_last_change_to_an_address_counts_and_ids_keep_order() -> TestResult {
    let (mut ledger, reader) = ledger(10);
    let changes =
        vec![purse(1, 9, 1), purse(2, 9, 2), purse(1, 8, 3), close_account(2), purse(2, 7, 4)];
    let ids = add(&mut ledger, block(1, 1), ROOT, changes)?;
    ledger.confirm(block(1, 1))?;
    ledger.publish();
    let addresses: Vec<_> = ids.iter().map(|id| reader.addresses().address(*id)).collect();
    assert_eq!(addresses, [1, 2, 1, 2, 2].map(|n| Some(address(n))));
    let view = reader.view(Commitment::Confirmed);
    assert_eq!(amounts(&view), [(1, 3), (2, 4)]);
    assert_eq!(
        (list_owned(&view, 9), list_owned(&view, 8), list_owned(&view, 7)),
        (vec![], vec![1], vec![2])
    );
    let expected = LedgerUsage {
        addresses: 4,
        records: 2,
        index_keys: 2,
        index_entries: 2,
        unrooted_blocks: 1,
    };
    assert_eq!(ledger.usage(), expected);
    Ok(())
}

#[test]
fn a_full_table_applies_nothing() -> TestResult {
    let (mut ledger, reader) = ledger(4);
    let one = block(1, 1);
    add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
    let two = block(2, 2);
    ledger.open(two, one, Arc::new("open"))?;
    let before = ledger.usage();
    let full = Err(LedgerError::TableFull(TableFull { limit: 4 }));
    let records = vec![close_account(1), purse(2, 9, 1), purse(3, 9, 1), purse(4, 9, 1)];
    assert_eq!(ledger.apply(two, records, Arc::new("written")), full);
    assert_eq!(ledger.usage(), before);
    let keys = vec![purse(1, 8, 1), purse(2, 7, 1)];
    assert_eq!(ledger.apply(two, keys, Arc::new("written")), full);
    assert_eq!(ledger.usage(), before);
    ledger.publish();
    let view = reader.view(Commitment::Processed);
    assert_eq!((amounts(&view), list_owned(&view, 9)), (vec![(1, 1)], vec![1]));
    assert_eq!(**view.meta(), "open");
    Ok(())
}

#[test]
fn a_closed_record_frees_its_id_once_rooted() -> TestResult {
    let (mut ledger, reader) = ledger(4);
    let one = block(1, 1);
    let two = block(2, 2);
    let ids = add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
    add(&mut ledger, two, one, vec![close_account(1)])?;
    ledger.finalize(one)?;
    ledger.publish();
    assert_eq!(list_owned(&reader.view(Commitment::Processed), 9), []);
    assert_eq!(list_owned(&reader.view(Commitment::Finalized), 9), [1]);
    assert_eq!(ledger.usage().addresses, 2);
    ledger.finalize(two)?;
    assert_eq!(ledger.usage(), LedgerUsage::default());
    ledger.publish();
    let old_address = reader.addresses().address(ids[0]);
    assert_eq!(old_address, Some(address(1)), "notifications of the block still need it");
    ledger.publish();
    ledger.publish();
    assert_eq!(reader.addresses().allocated_ids(), 0);
    Ok(())
}

#[test]
fn an_id_that_a_view_knows_is_not_reused() -> TestResult {
    let (mut ledger, reader) = ledger(4);
    let one = block(1, 1);
    let two = block(2, 2);
    let three = block(3, 3);
    add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
    ledger.finalize(one)?;
    ledger.publish();
    let old = reader.view(Commitment::Finalized);
    add(&mut ledger, two, one, vec![close_account(1)])?;
    ledger.finalize(two)?;
    for _ in 0..5 {
        ledger.publish();
    }
    let crowd = || vec![purse(2, 3, 1), purse(4, 5, 1)];
    ledger.open(three, two, Arc::new("open"))?;
    assert!(ledger.apply(three, crowd(), Arc::new("written")).is_err(), "two ids are pinned");
    assert_eq!((amounts(&old), list_owned(&old, 9)), (vec![(1, 1)], vec![1]));
    drop(old);
    ledger.publish(); // ids of the refused changes are free an epoch later
    ledger.publish();
    ledger.apply(three, crowd(), Arc::new("written"))?;
    assert_eq!(ledger.usage().addresses, 4);
    Ok(())
}

#[test]
fn tips_fall_back_from_what_vanishes() -> TestResult {
    let (mut ledger, reader) = ledger(20);
    let one = block(1, 1);
    let left = block(2, 2);
    let right = block(2, 3);
    let tip = block(3, 4);
    let tips = |ledger: &mut Ledger<Purse, &'static str>| {
        ledger.publish();
        let views = reader.views();
        (views.processed.block(), views.confirmed.block(), views.finalized.block())
    };
    add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
    add(&mut ledger, right, one, vec![purse(1, 9, 3)])?;
    add(&mut ledger, left, one, vec![purse(1, 9, 2)])?;
    ledger.confirm(left)?;
    ledger.open(tip, left, Arc::new("open"))?;
    assert_eq!(ledger.confirm(tip), Err(LedgerError::Block(BlockError::Open(tip))));
    assert_eq!(tips(&mut ledger), (tip, left, ROOT));
    ledger.drop_fork(left)?;
    assert_eq!(tips(&mut ledger), (one, one, ROOT));
    ledger.open(tip, one, Arc::new("open"))?;
    ledger.finalize(right)?;
    assert_eq!(tips(&mut ledger), (right, right, right));
    let unknown = Err(LedgerError::Block(BlockError::Unknown(tip)));
    assert_eq!(ledger.set_tip(tip), unknown);
    assert_eq!(ledger.drop_fork(right), Err(LedgerError::Block(BlockError::Root(right))));
    Ok(())
}

#[test]
fn the_tip_may_move_between_forks() -> TestResult {
    let (mut ledger, reader) = ledger(20);
    let left = block(1, 1);
    let right = block(1, 2);
    add(&mut ledger, left, ROOT, vec![purse(1, 9, 1)])?;
    add(&mut ledger, right, ROOT, vec![purse(1, 9, 2)])?;
    for (tip, amount) in [(left, 1), (right, 2), (ROOT, 0)] {
        ledger.set_tip(tip)?;
        ledger.publish();
        let view = reader.view(Commitment::Processed);
        let found = view.record(&address(1)).map_or(0, |purse| purse.amount);
        assert_eq!((view.block(), found), (tip, amount));
    }
    Ok(())
}

#[test]
fn a_finalized_tip_above_the_root_can_be_taken_back() -> TestResult {
    let (mut ledger, reader) = ledger(20);
    let [one, two, three, other] = [block(1, 1), block(2, 2), block(3, 3), block(4, 4)];
    add(&mut ledger, one, ROOT, vec![purse(1, 9, 1)])?;
    add(&mut ledger, two, one, vec![purse(1, 9, 2)])?;
    add(&mut ledger, three, two, vec![purse(1, 9, 3)])?;
    ledger.confirm(three)?;
    ledger.finalize(one)?;
    ledger.set_finalized(three)?;
    ledger.publish();
    let tips = |ledger: &Ledger<Purse, &'static str>| {
        (ledger.root(), ledger.tip(Commitment::Finalized), ledger.tip(Commitment::Processed))
    };
    assert_eq!(tips(&ledger), (one, three, three));
    assert_eq!(amounts(&reader.view(Commitment::Finalized)), [(1, 3)]);
    // A root below the finalized tip does not move it.
    ledger.finalize(two)?;
    assert_eq!(tips(&ledger), (two, three, three));
    ledger.drop_fork(three)?;
    ledger.publish();
    assert_eq!(tips(&ledger), (two, two, two));
    for commitment in Commitment::ALL {
        let view = reader.view(commitment);
        assert_eq!((view.block(), amounts(&view)), (two, vec![(1, 2)]));
    }
    add(&mut ledger, other, two, vec![purse(1, 9, 4)])?;
    ledger.confirm(other)?;
    ledger.finalize(other)?;
    assert_eq!(tips(&ledger), (other, other, other));
    Ok(())
}

#[test]
fn a_record_that_is_its_own_key_is_counted_for_both() -> TestResult {
    let (mut ledger, reader) = ledger(2);
    let one = block(1, 1);
    let two = block(2, 2);
    add(&mut ledger, one, ROOT, vec![purse(1, 1, 1)])?;
    ledger.finalize(one)?;
    ledger.publish();
    assert_eq!(list_owned(&reader.view(Commitment::Finalized), 1), [1]);
    assert_eq!(ledger.usage().addresses, 1);
    add(&mut ledger, two, one, vec![close_account(1)])?;
    ledger.finalize(two)?;
    assert_eq!(ledger.usage(), LedgerUsage::default());
    Ok(())
}
