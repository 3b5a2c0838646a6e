//! Selection of account versions, and the changes of an incremental archive.

use std::collections::BTreeMap;

use snapshot_solana::{Progress, SnapshotError};
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use tempfile::TempDir;
use testkit::archive::Accounts;

use crate::forge::{Forge, address, stored};
use crate::map::{Map, load};

fn dir() -> TempDir {
    TempDir::new().expect("a directory")
}

fn full() -> Forge {
    // Slot 5 follows slot 9, and has older versions of 1 and 3, and a closed account 6.
    let newer = [stored(1, 90, b"new"), stored(3, 0, b""), stored(4, 40, b""), stored(4, 41, b"x")];
    let older =
        [stored(1, 10, b"old"), stored(2, 20, b"two"), stored(3, 30, b"three"), stored(6, 0, b"")];
    Forge::full(10, vec![(9, newer.concat()), (5, older.concat())])
}

fn lamports(map: Map) -> BTreeMap<Pubkey, u64> {
    map.accounts.into_iter().map(|(key, account)| (key, account.lamports())).collect()
}

#[test]
fn the_newest_version_counts_by_slot_then_by_offset_and_closed_accounts_go() {
    let dir = dir();
    let path = full().write(dir.path());
    for threads in [1, 4] {
        let (snapshot, map) = load(&path, None, threads, &Progress::default()).expect("it loads");
        assert_eq!(snapshot.lamports, 90 + 20 + 41);
        let expected = [(address(1), 90), (address(2), 20), (address(4), 41)];
        assert_eq!(lamports(map), BTreeMap::from(expected));
    }
}

#[test]
fn bytes_after_the_accounts_of_a_storage_file_are_ignored() {
    let dir = dir();
    let path = Forge { slack: 4_096, ..full() }.write(dir.path());
    let (snapshot, _) = load(&path, None, 1, &Progress::default()).expect("it loads");
    assert_eq!(snapshot.accounts_len, 3);
}

#[test]
fn large_accounts_and_batches_are_joined() {
    let dir = dir();
    let data: Vec<u8> = (0..3_000_001_u32).map(|n| n as u8).collect();
    let small = (0..200).flat_map(|key| stored(key, 1, &vec![key; 10_001]));
    let mut bytes: Vec<u8> = small.collect();
    bytes.extend(stored(201, 5, &data));
    // The last account lacks its padding.
    bytes.truncate(bytes.len() - 7);
    let path = Forge::full(7, vec![(7, bytes)]).write(dir.path());
    let (snapshot, map) = load(&path, None, 3, &Progress::default()).expect("it loads");
    assert_eq!(snapshot.accounts_len, 201);
    let large = map.accounts.get(&address(201));
    assert_eq!(large.map(|account| account.data() == data), Some(true));
}

#[test]
fn an_incremental_snapshot_changes_adds_and_closes() {
    let dir = dir();
    let full = full();
    let changes = [stored(1, 91, b"newest"), stored(2, 0, b""), stored(7, 70, b"seven")].concat();
    let incremental = Forge::on_top_of(&full, 15, vec![(12, changes)]);
    let paths = (full.write(dir.path()), incremental.write(dir.path()));
    let loaded = load(&paths.0, Some(&paths.1), 2, &Progress::default()).expect("both load");
    let (snapshot, map) = loaded;
    assert_eq!(snapshot.bank.slot, 15);
    assert_eq!(snapshot.lamports, 91 + 41 + 70);
    let expected = [(address(1), 91), (address(4), 41), (address(7), 70)];
    assert_eq!(lamports(map), BTreeMap::from(expected));
}

#[test]
fn an_incremental_snapshot_of_another_full_one_is_refused() {
    let dir = dir();
    let full = full();
    let mut other = full.clone();
    other.slot = 11;
    let changes = vec![(12, stored(1, 91, b""))];
    let incremental = Forge::on_top_of(&other, 15, changes.clone()).write(dir.path());
    let path = full.write(dir.path());
    let refused = load(&path, Some(&incremental), 1, &Progress::default());
    assert!(matches!(refused, Err(SnapshotError::NotOnTop { base: 11, full: 10, .. })));

    // The same slot, but other accounts below.
    let mut altered = Forge::on_top_of(&full, 15, changes);
    altered.below.insert("accounts/1.8".to_owned(), stored(99, 1, b""));
    let refused = load(&path, Some(&altered.write(dir.path())), 1, &Progress::default());
    assert!(matches!(refused, Err(SnapshotError::ChecksumMismatch { .. })));

    // The two the wrong way round.
    let refused = load(&incremental, Some(&path), 1, &Progress::default());
    assert!(matches!(refused, Err(SnapshotError::Unsupported { .. })));
}

/// Many versions of few accounts, closed and opened again, in files in any order. The expected
/// result is that of the second reader, which sorts all versions.
#[test]
fn the_newest_version_counts_in_any_order() {
    let dir = dir();
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..30 {
        let mut storages = |first: u64, files: u64| {
            let mut storages = Vec::new();
            for slot in first..first + files {
                let versions = (0..random.u8(..12)).map(|_| {
                    let (key, lamports) = (random.u8(..9), random.u64(..3) * random.u64(1..10));
                    stored(key, lamports, &vec![key; random.usize(..40)])
                });
                storages.push((slot, versions.flatten().collect()));
            }
            random.shuffle(&mut storages);
            storages
        };
        let full = Forge::full(40, storages(1, 30));
        let changes = Forge::on_top_of(&full, 60, storages(41, 15));
        let mut written = Accounts::default();
        for files in [full.files(), changes.files()] {
            written.add(&files).expect("whole files");
        }
        let paths = (full.write(dir.path()), changes.write(dir.path()));
        let threads = 1 + round % 3;
        let (snapshot, map) = load(&paths.0, Some(&paths.1), threads, &Progress::default())
            .unwrap_or_else(|err| panic!("round {round}: {err}"));
        assert_eq!(snapshot.accounts_hash, written.lt_hash().checksum());
        let found = map.accounts.iter().map(|(key, account)| (*key, account.data().to_vec()));
        let expected = written.open().map(|(key, account)| (*key, account.data.clone()));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "round {round}");
    }
}
