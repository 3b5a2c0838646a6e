//! Several blocks in one batch, and a ledger that is created while blocks are appended.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::{Fjall, StoreError};

use super::*;
use crate::{CallerRows, NewLedger};

#[test]
fn blocks_in_one_batch_equal_blocks_in_separate_batches() {
    for seed in 0..10 {
        println!("seed {seed}");
        let dir = tempfile::tempdir().expect("a directory");
        let mut random = RandomLedger::new(seed);
        let (mut store, mut model) = create(dir.path(), &mut random);
        for len in [1, 7, 0, 3] {
            let blocks: Vec<Block> = (0..len).map(|_| random.block()).collect();
            store.append_all(&blocks.iter().collect::<Vec<_>>()).expect("append");
            blocks.into_iter().for_each(|block| model.append(block));
        }
        drop(store);
        model.check(&open(dir.path()).1);
    }
}

#[test]
fn a_batch_with_a_block_that_does_not_follow_is_refused_as_a_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = RandomLedger::new(1);
    let (mut store, model) = create(dir.path(), &mut random);
    let [first, second, third] = std::array::from_fn(|_| random.block());
    let refused = store.append_all(&[&first, &third]);
    assert!(matches!(refused, Err(StoreError::NotNext { .. })));
    assert!(matches!(store.append_all(&[&second]), Err(StoreError::NotNext { .. })));
    drop(store);
    model.check(&open(dir.path()).1);
}

#[test]
fn a_batch_prunes_the_blocks_before_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = RandomLedger::new(2);
    let (mut store, mut model) = create(dir.path(), &mut random);
    for _ in 0..5 {
        let blocks: Vec<Block> = (0..4).map(|_| random.block()).collect();
        store.prune_below(blocks[0].id.slot);
        store.append_all(&blocks.iter().collect::<Vec<_>>()).expect("append");
        blocks.into_iter().for_each(|block| model.append(block));
    }
    drop(store);
    let first = model.blocks[model.blocks.len() - 4].id.slot;
    model.blocks.retain(|block| block.id.slot >= first);
    model.check(&open(dir.path()).1);
}

#[test]
fn a_reverted_ledger_has_no_data_from_removed_blocks() {
    for seed in 0..10 {
        println!("seed {seed}");
        let dir = tempfile::tempdir().expect("a directory");
        let mut random = RandomLedger::new(seed);
        let (mut store, mut model) = create(dir.path(), &mut random);
        for left in [1, 5, 3] {
            let mut append = |store: &mut LedgerStore, model: &mut Model| {
                let block = random.block();
                store.append(&block).expect("append");
                let written: Vec<Pubkey> = block.writes.iter().map(|write| write.pubkey).collect();
                model.append(block);
                written
            };
            append(&mut store, &mut model);
            let blocks = model.blocks.len();
            let accounts = model.accounts.clone();
            let mut written: Vec<Pubkey> =
                (0..left).flat_map(|_| append(&mut store, &mut model)).collect();
            written.sort_unstable();
            written.dedup();
            model.blocks.truncate(blocks);
            model.accounts = accounts;
            let head = model.blocks.last().expect("there is one");
            let restored = written.iter().map(|key| (*key, model.accounts.get(key).cloned()));
            store.revert_to(head.id.slot, restored).expect("the block is stored");
            assert_eq!(store.newest_slot(), head.id.slot);
            random.go_back(head);
            // At once, and after another block.
            drop(store);
            let (opened, restored) = open(dir.path());
            model.check(&restored);
            store = opened;
        }
        let next = random.block();
        store.append(&next).expect("append");
        model.append(next);
        drop(store);
        model.check(&open(dir.path()).1);
    }
}

#[test]
fn a_ledger_goes_back_only_to_a_block_that_is_stored() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = RandomLedger::new(4);
    let (mut store, mut model) = create(dir.path(), &mut random);
    let block = random.block();
    store.append(&block).expect("append");
    let newest = block.id.slot;
    model.append(block);
    for head in [newest + 1, u64::MAX] {
        let refused = store.revert_to(head, std::iter::empty());
        assert!(matches!(refused, Err(StoreError::NotNext { .. })));
    }
    drop(store);
    model.check(&open(dir.path()).1);
}

#[test]
fn the_callers_rows_are_from_the_newest_batch() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = RandomLedger::new(3);
    let first = random.block();
    let row = |text: &str| Some(text.as_bytes().to_vec());
    let mut rows =
        CallerRows { genesis: b"genesis".to_vec(), epochs: row("epochs"), bank: row("bank") };
    let new = NewLedger::<Fjall>::start(dir.path(), &rows, &first).expect("it starts");
    drop(new.finish().expect("it is created"));
    for n in 0..3 {
        let opened = LedgerStore::<Fjall>::open(dir.path()).expect("undamaged").expect("a ledger");
        assert_eq!(opened.rows, rows);
        let mut store = opened.read(|_, _| {}).expect("accounts");
        let bank = format!("bank {n}");
        store.set_bank(bank.clone().into_bytes());
        rows.bank = row(&bank);
        if n == 1 {
            store.set_epochs(b"other epochs".to_vec());
            rows.epochs = row("other epochs");
        }
        store.append(&random.block()).expect("append");
    }
}

#[test]
fn blocks_on_several_forks_have_their_parents_ids() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = RandomLedger::new(4);
    let (mut store, mut model) = create(dir.path(), &mut random);
    for n in 0..5 {
        let mut block = random.block();
        block.parent = model.blocks.last().expect("the first one").id;
        block.id.version += 10 * n;
        store.append(&block).expect("append");
        model.append(block);
    }
    drop(store);
    model.check(&open(dir.path()).1);
}

#[test]
fn blocks_appended_during_creation_override_streamed_accounts() {
    for seed in 0..10 {
        println!("seed {seed}");
        let dir = tempfile::tempdir().expect("a directory");
        let mut random = RandomLedger::new(seed);
        // More than a chunk.
        let mut accounts = random.genesis_accounts();
        // Random data, which cannot be compressed.
        let mut data = vec![0; 2 << 20];
        StdRng::seed_from_u64(seed).fill(&mut data[..]);
        let large = Arc::new(account_with(data));
        let large = (0..6).map(|n| (Pubkey::new_from_array([n + 1; 32]), Arc::clone(&large)));
        accounts.extend(large);
        let first = random.block();
        let rows = CallerRows { genesis: b"the genesis".to_vec(), ..CallerRows::default() };
        let mut new = NewLedger::<Fjall>::start(dir.path(), &rows, &first).expect("it starts");
        let mut model = Model::new(accounts.clone(), first);
        let mut stream = accounts.into_iter();
        let mut chunks = 0;
        loop {
            let blocks: Vec<Block> = (0..2).map(|_| random.block()).collect();
            new.append_all(&blocks.iter().collect::<Vec<_>>()).expect("append");
            blocks.into_iter().for_each(|block| model.append(block));
            assert!(LedgerStore::<Fjall>::open(dir.path()).expect("no ledger yet").is_none());
            chunks += 1;
            if !new.insert_chunk(&mut stream).expect("insert") {
                break;
            }
        }
        assert!(chunks > 2);
        let mut store = new.finish().expect("it is created");
        let block = random.block();
        store.append(&block).expect("append");
        model.append(block);
        drop(store);
        model.check(&open(dir.path()).1);
    }
}

/// Returns an account with this data.
fn account_with(data: Vec<u8>) -> Account {
    let account = solana_account::Account { lamports: 1, data, ..Default::default() };
    Account(solana_account::AccountSharedData::from(account))
}
