//! Damage is reported, never served, and never causes a panic.

use std::fs;
use std::path::PathBuf;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::{Batch, Engine, Fjall, Row, RowCodec, StoreError};

use super::*;
use crate::key::{Key, TABLES};

/// Rows for the engine without encoding and checks.
struct Raw(Vec<Row<Key>>);

impl Batch for Raw {
    type Key = Key;

    fn rows(&self) -> &[Row<Key>] {
        &self.0[1..]
    }

    fn replaces(&mut self, _row: usize, _value: Option<&[u8]>) {}

    fn last(&mut self) -> Row<Key> {
        let Row { key, value } = &self.0[0];
        Row { key: *key, value: value.clone() }
    }
}

/// Returns the rows of a ledger that is not open.
fn rows(dir: &Path) -> Vec<(Key, Vec<u8>)> {
    let engine = Fjall::open(&dir.join(Fjall::PATH), &TABLES).expect("the engine opens");
    let mut rows = Vec::new();
    for table in TABLES {
        let scanned = engine.scan(table, &mut |key, value| {
            rows.push((Key::from_bytes(table, key).expect("a key of ours"), value.to_vec()));
            true
        });
        scanned.expect("scan");
    }
    rows
}

/// Sets or removes rows. The head does not change unless it is among them.
fn set(dir: &Path, changed: Vec<(Key, Option<Vec<u8>>)>) {
    let mut head = rows(dir).into_iter().filter(|(key, _)| *key == Key::Head);
    let (key, value) = head.next().expect("a head");
    let mut batch = vec![Row { key, value: Some(value) }];
    for (key, value) in changed {
        if key == Key::Head {
            batch[0].value = value;
        } else {
            batch.push(Row { key, value });
        }
    }
    let mut engine = Fjall::open(&dir.join(Fjall::PATH), &TABLES).expect("the engine opens");
    engine.commit(&mut Raw(batch)).expect("commit");
}

/// Returns a ledger of 20 blocks, closed.
fn ledger(dir: &Path, seed: u64) -> Model {
    let mut random = RandomLedger::new(seed);
    let (mut store, mut model) = create(dir, &mut random);
    for n in 0..20 {
        let block = random.block();
        store.set_epochs(vec![1; 100]);
        store.set_bank(vec![n; 2_048]);
        store.append(&block).expect("append");
        model.append(block);
    }
    model
}

fn find_value(rows: &[(Key, Vec<u8>)], key: Key) -> Vec<u8> {
    rows.iter().find(|(found, _)| *found == key).expect("a row").1.clone()
}

#[test]
fn a_flipped_bit_in_any_value_names_the_row() {
    let dir = tempfile::tempdir().expect("a directory");
    let model = ledger(dir.path(), 1);
    let rows = rows(dir.path());
    let block = Key::Block(model.blocks[7].id.slot);
    let accounts = rows.iter().filter(|(key, _)| matches!(key, Key::Account(_)));
    let [small, large] = [0, 4_000].map(|bytes| {
        accounts.clone().find(|(_, value)| value.len() > bytes).expect("an account").0
    });
    let mut random = StdRng::seed_from_u64(1);
    for key in [Key::Genesis, Key::Head, Key::Epochs, Key::Bank, block, small, large] {
        let whole = find_value(&rows, key);
        let ends = [0, 1, 2, 6, whole.len() - 1];
        let inside = (0..6).map(|_| random.random_range(0..whole.len()));
        for at in ends.into_iter().chain(inside.collect::<Vec<_>>()) {
            let mut value = whole.clone();
            value[at] ^= 1 << random.random_range(0..8);
            set(dir.path(), vec![(key, Some(value))]);
            let refusal = refusal(dir.path());
            let named = format!("ledger DIR is damaged: {key}: checksum ");
            assert!(refusal.starts_with(&named), "{refusal}");
            assert!(refusal.ends_with("; fix: start with --reset"), "{refusal}");
        }
        for bytes in [0, 5, 6, whole.len() / 2] {
            set(dir.path(), vec![(key, Some(whole[..bytes].to_vec()))]);
            let refusal = refusal(dir.path());
            assert!(refusal.starts_with(&format!("ledger DIR is damaged: {key}: ")), "{refusal}");
        }
        set(dir.path(), vec![(key, Some(whole))]);
    }
    model.check(&open(dir.path()).1);
}

#[test]
fn missing_and_outdated_rows_are_detected() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = RandomLedger::new(2);
    let (mut store, mut model) = create(dir.path(), &mut random);
    drop(store);
    let old = rows(dir.path());
    store = open(dir.path()).0;
    for _ in 0..20 {
        let block = random.block();
        store.append(&block).expect("append");
        model.append(block);
    }
    drop(store);
    let new = rows(dir.path());
    let slots: Vec<u64> = model.blocks.iter().map(|block| block.id.slot).collect();
    let first = slots[0];
    let second = slots[1];
    let newest = slots[slots.len() - 1];

    let check = |changed: Vec<(Key, Option<Vec<u8>>)>, expected: &str| {
        let restore = changed.iter().map(|(key, _)| {
            (*key, new.iter().find(|(found, _)| found == key).map(|(_, value)| value.clone()))
        });
        let restore = restore.collect();
        set(dir.path(), changed);
        let expected = format!("ledger DIR is damaged: {expected}; fix: start with --reset");
        assert_eq!(refusal(dir.path()), expected);
        set(dir.path(), restore);
    };
    check(
        vec![(Key::Block(slots[9]), None)],
        &format!("block {}: its parent, block {}, is missing", slots[10], slots[9]),
    );
    check(
        vec![(Key::Block(first), None)],
        &format!("block {second}: is the oldest, but block {first} should be"),
    );
    check(
        vec![(Key::Block(newest), None)],
        &format!("block {newest}: missing, and it is the newest"),
    );
    // An older head: blocks and accounts are newer than it.
    check(
        vec![(Key::Head, Some(find_value(&old, Key::Head)))],
        &format!("head: names block {first}, but block {newest} was stored"),
    );
    let (account, _) = new.iter().find(|(key, _)| matches!(key, Key::Account(_))).expect("one");
    let accounts = model.accounts.len();
    check(
        vec![(*account, None)],
        &format!("accounts: there are {}, there should be {accounts}", accounts - 1),
    );
    let (stale, before) = old
        .iter()
        .find(|(key, value)| {
            matches!(key, Key::Account(_))
                && new.iter().any(|(found, newer)| found == key && newer != value)
        })
        .expect("an account that changed");
    check(
        vec![(*stale, Some(before.clone()))],
        &format!("accounts: some are not as block {newest} left them"),
    );
    model.check(&open(dir.path()).1);

    // The whole engine of an earlier time, with the newest slot in its file outside of it.
    let gone = new.iter().filter(|(key, _)| !old.iter().any(|(found, _)| found == key));
    let gone = gone.map(|(key, _)| (*key, None));
    let back = old.iter().map(|(key, value)| (*key, Some(value.clone())));
    check(
        gone.chain(back).collect(),
        &format!("head: names block {first}, but block {newest} was stored"),
    );
}

#[test]
fn an_account_newer_than_the_head_is_detected() {
    let dir = tempfile::tempdir().expect("a directory");
    let model = ledger(dir.path(), 3);
    let head = model.blocks[model.blocks.len() - 1].id.slot;
    let (pubkey, account) = model.accounts.first_key_value().expect("an account");
    let body = chain_solana::wire::codec::write_account(head + 1, account);
    let mut row_codec = RowCodec::new().expect("a codec");
    let row = row_codec.encode_row(Key::Account(*pubkey), &body);
    set(dir.path(), vec![(row.key, row.value)]);
    let expected = format!(
        "ledger DIR is damaged: account {pubkey}: was written by block {}, which is past the head, {head}; fix: start with --reset",
        head + 1
    );
    assert_eq!(refusal(dir.path()), expected);
}

#[test]
fn a_value_under_another_key_is_detected() {
    let dir = tempfile::tempdir().expect("a directory");
    let model = ledger(dir.path(), 4);
    let rows = rows(dir.path());
    let [one, other] = [3, 4].map(|index: usize| Key::Block(model.blocks[index].id.slot));
    set(dir.path(), vec![(one, Some(find_value(&rows, other)))]);
    let named = format!("ledger DIR is damaged: {one}: checksum ");
    assert!(refusal(dir.path()).starts_with(&named));
}

#[test]
fn files_outside_the_engine_are_checked_as_well() {
    let dir = tempfile::tempdir().expect("a directory");
    let model = ledger(dir.path(), 5);
    let check = |file: &str, bytes: Option<&[u8]>, expected: &str| {
        let path = dir.path().join(file);
        let whole = fs::read(&path).expect("read");
        match bytes {
            Some(bytes) => fs::write(&path, bytes).expect("write"),
            None => fs::remove_file(&path).expect("remove"),
        }
        assert_eq!(refusal(dir.path()), format!("ledger DIR {expected}; fix: start with --reset"));
        fs::write(&path, whole).expect("write");
    };
    check("newest", None, "is damaged: newest: missing");
    check("newest", Some(&[]), "is damaged: newest: checksum");
    check("newest", Some(&[1; 12]), "is damaged: newest: checksum");
    check("hydrant-ledger", Some(b""), "is damaged: hydrant-ledger: does not say which format");
    check(
        "hydrant-ledger",
        Some(&[0xff; 9]),
        "is damaged: hydrant-ledger: does not say which format",
    );
    check(
        "hydrant-ledger",
        Some(b"hydrant ledger, format 2\n"),
        "has format 2, this version reads 1",
    );
    model.check(&open(dir.path()).1);
    fs::remove_dir_all(dir.path().join(Fjall::PATH)).expect("remove");
    assert_eq!(
        refusal(dir.path()),
        "ledger DIR is damaged: head: missing; fix: start with --reset"
    );
}

/// Uses a ledger so large that the engine has moved data from its journal to tables.
#[test]
fn damaged_files_are_refused_or_were_unused() {
    let home = tempfile::tempdir().expect("a directory");
    let whole = home.path().join("whole");
    let mut random = RandomLedger::new(6);
    let (mut store, mut model) = create(&whole, &mut random);
    for _ in 0..500 {
        let block = random.block();
        store.append(&block).expect("append");
        model.append(block);
    }
    drop(store);
    let files = files_below(&whole.join(Fjall::PATH));
    let tables = files.iter().filter(|(path, _)| path.display().to_string().contains("/tables/"));
    assert!(tables.count() > 0, "all is in the journal: {files:?}");
    let mut random = StdRng::seed_from_u64(6);
    for damage in 0..60 {
        let damaged = home.path().join("damaged");
        copy(&whole, &damaged);
        // Files are chosen regardless of their sizes.
        let (path, bytes) = &files[random.random_range(0..files.len())];
        let path = damaged.join(path.strip_prefix(&whole).expect("below"));
        if *bytes == 0 {
            continue;
        }
        let at = random.random_range(0..*bytes);
        let mut data = fs::read(&path).expect("read");
        if damage % 4 == 0 {
            data.truncate(at);
        } else {
            data[at] ^= 1 << random.random_range(0..8);
        }
        fs::write(&path, data).expect("write");
        println!("damage {damage}: byte {at} of {bytes} in {}", path.display());
        match LedgerStore::<Fjall>::open_whole(&damaged) {
            Ok(opened) => model.check(&opened.expect("a ledger").1),
            Err(StoreError::Damaged { what, .. }) => println!("{what}"),
            Err(err) => panic!("{err:?}"),
        }
        fs::remove_dir_all(&damaged).expect("remove");
    }
}

fn copy(from: &Path, to: &Path) {
    for (path, _) in files_below(from) {
        let target = to.join(path.strip_prefix(from).expect("below"));
        fs::create_dir_all(target.parent().expect("a folder")).expect("create");
        fs::copy(&path, &target).expect("copy");
    }
}

/// Files and their lengths, in a stable order.
fn files_below(dir: &Path) -> Vec<(PathBuf, usize)> {
    let entries = fs::read_dir(dir).expect("read");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let files = paths.into_iter().flat_map(|path| {
        if path.is_dir() {
            return files_below(&path);
        }
        let bytes = path.metadata().expect("metadata").len() as usize;
        vec![(path, bytes)]
    });
    files.collect()
}
