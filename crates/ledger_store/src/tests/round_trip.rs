//! A stored ledger is read back unchanged.

use std::collections::BTreeMap;
use std::fs;

use store::{Fjall, StoreError};

use super::*;

#[test]
fn everything_stored_comes_back_field_by_field() {
    for seed in 0..30 {
        println!("seed {seed}");
        let dir = tempfile::tempdir().expect("a directory");
        let mut random = RandomLedger::new(seed);
        let (mut store, mut model) = create(dir.path(), &mut random);
        // It is closed and opened again a few times, and continues from its newest block.
        for _ in 0..3 {
            for _ in 0..8 {
                let block = random.block();
                store.append(&block).expect("append");
                model.append(block);
            }
            drop(store);
            let (reopened, restored) = open(dir.path());
            model.check(&restored);
            store = reopened;
        }
    }
}

#[test]
fn pruned_blocks_are_gone_after_the_next_append_and_accounts_stay() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = RandomLedger::new(1);
    let (mut store, mut model) = create(dir.path(), &mut random);
    for _ in 0..50 {
        let block = random.block();
        store.prune_below(block.id.slot.saturating_sub(20));
        store.append(&block).expect("append");
        model.append(block);
    }
    let first = store.newest_slot() - 20;
    drop(store);
    model.blocks.retain(|block| block.id.slot >= first);
    assert!(model.blocks.len() < 25);
    model.check(&open(dir.path()).1);
}

#[test]
fn pruning_retains_the_newest_block_whatever_slot_it_is_given() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = RandomLedger::new(2);
    let (mut store, mut model) = create(dir.path(), &mut random);
    store.prune_below(u64::MAX);
    for _ in 0..3 {
        let block = random.block();
        store.append(&block).expect("append");
        model.append(block);
    }
    drop(store);
    model.blocks.drain(..3);
    model.check(&open(dir.path()).1);
}

#[test]
fn a_block_that_does_not_follow_is_refused_and_not_stored() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = RandomLedger::new(3);
    let (mut store, mut model) = create(dir.path(), &mut random);
    let next = random.block();
    let after = random.block();
    assert!(matches!(store.append(&after), Err(StoreError::NotNext { .. })));
    store.append(&next).expect("append");
    assert!(matches!(store.append(&next), Err(StoreError::NotNext { .. })));
    drop(store);
    model.append(next);
    model.check(&open(dir.path()).1);
}

#[test]
fn an_absent_and_an_empty_directory_hold_no_ledger() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(LedgerStore::<Fjall>::open(dir.path()).expect("nothing").is_none());
    assert!(LedgerStore::<Fjall>::open(&dir.path().join("absent")).expect("nothing").is_none());
    assert!(!dir.path().join("absent").exists());
}

#[test]
fn a_directory_with_foreign_files_is_refused_and_left_unchanged() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("genesis.bin"), b"a validator's").expect("write");
    let refused = "DIR is not a ledger of Hydrant: it holds genesis.bin; fix: name an empty directory (--ledger)";
    assert_eq!(refusal(dir.path()), refused);
    let block = RandomLedger::new(4).block();
    let created = LedgerStore::<Fjall>::create(dir.path(), b"", [], &block);
    assert!(matches!(created, Err(StoreError::Foreign { .. })));
    let removed = LedgerStore::<Fjall>::remove(dir.path());
    assert!(matches!(removed, Err(StoreError::Foreign { .. })));
    assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 1);
}

#[test]
fn a_ledger_that_is_open_cannot_be_opened_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (store, _) = create(dir.path(), &mut RandomLedger::new(5));
    let user = std::process::id();
    let refused = format!(
        "ledger DIR is in use by process {user}; fix: stop it, or name another directory (--ledger)"
    );
    assert_eq!(refusal(dir.path()), refused);
    let removed = LedgerStore::<Fjall>::remove(dir.path());
    assert!(matches!(removed, Err(StoreError::InUse { .. })));
    drop(store);
    open(dir.path());
}

#[test]
fn a_ledger_is_created_over_another_only_after_that_was_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (store, _) = create(dir.path(), &mut RandomLedger::new(6));
    drop(store);
    let block = RandomLedger::new(7).block();
    let created = LedgerStore::<Fjall>::create(dir.path(), b"", [], &block);
    assert!(matches!(created, Err(StoreError::Exists { .. })));
    fs::write(dir.path().join("notes.txt"), b"mine").expect("write");
    LedgerStore::<Fjall>::remove(dir.path()).expect("removed");
    assert!(dir.path().join("notes.txt").exists());
    fs::remove_file(dir.path().join("notes.txt")).expect("remove");
    let (store, model) = create(dir.path(), &mut RandomLedger::new(8));
    drop(store);
    model.check(&open(dir.path()).1);
}

#[test]
fn an_interrupted_creation_is_started_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (store, _) = create(dir.path(), &mut RandomLedger::new(9));
    drop(store);
    // The mark is written last.
    fs::remove_file(dir.path().join("hydrant-ledger")).expect("remove");
    assert!(LedgerStore::<Fjall>::open(dir.path()).expect("nothing").is_none());
    let (store, model) = create(dir.path(), &mut RandomLedger::new(10));
    drop(store);
    model.check(&open(dir.path()).1);
}

#[test]
fn a_ledger_without_accounts_comes_back_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut block = RandomLedger::new(11).block();
    block.writes.clear();
    drop(LedgerStore::<Fjall>::create(dir.path(), b"the genesis", [], &block).expect("created"));
    Model::new(BTreeMap::new(), block).check(&open(dir.path()).1);
}
