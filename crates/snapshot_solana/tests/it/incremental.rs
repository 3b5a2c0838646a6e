//! Selection of account versions, and the changes of an incremental archive.

use std::collections::BTreeMap;
use std::path::Path;

use snapshot_solana::{LoadedState, Progress, Snapshot, SnapshotError, load_on_top};
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

/// Loads an archive on top of the accounts of a map, which are of a later slot than its base, maybe.
fn on_top_of(map: &mut Map, before: &Snapshot, path: &Path) -> Result<Snapshot, SnapshotError> {
    map.slot = None;
    let state = LoadedState {
        slot: before.bank.slot,
        lt_hash: (*before.bank.lt_hash).clone(),
        accounts_len: before.accounts_len,
        lamports: before.lamports,
    };
    load_on_top(path, state, 2, &Progress::default(), map)
}

#[test]
fn an_incremental_snapshot_loads_on_top_of_any_later_state_of_its_chain() {
    let dir = dir();
    let full = full();
    let earlier = [stored(1, 91, b"newest"), stored(2, 0, b""), stored(7, 70, b"seven")].concat();
    let later = [stored(1, 92, b""), stored(7, 0, b""), stored(8, 8, b"eight")].concat();
    let first = Forge::on_top_of(&full, 15, vec![(12, earlier.clone())]);
    // On top of the same full one: it has what the first one has.
    let second = Forge::on_top_of(&full, 20, vec![(18, later), (12, earlier)]);
    let full = full.write(dir.path());
    let first = first.write(dir.path());
    let second = second.write(dir.path());
    for steps in [vec![&first, &second], vec![&second]] {
        let (mut at, mut map) = load(&full, None, 1, &Progress::default()).expect("it loads");
        for path in steps {
            at = on_top_of(&mut map, &at, path).expect("it loads on top");
            assert_eq!((map.slot, map.accounts.len()), (Some(at.bank.slot), at.accounts_len));
        }
        let expected = [(address(1), 92), (address(4), 41), (address(8), 8)];
        assert_eq!((at.bank.slot, at.lamports), (20, 92 + 41 + 8));
        assert_eq!(lamports(map), BTreeMap::from(expected));
    }
}

#[test]
fn an_incremental_snapshot_above_the_state_or_not_newer_or_altered_is_refused() {
    let dir = dir();
    let full = full();
    let mut above = full.clone();
    above.slot = 11;
    let change = vec![(12, stored(1, 91, b""))];
    let above = Forge::on_top_of(&above, 15, change.clone()).write(dir.path());
    let right = Forge::on_top_of(&full, 15, change.clone()).write(dir.path());
    let mut altered = Forge::on_top_of(&full, 16, change);
    altered.below.insert("accounts/1.8".to_owned(), stored(99, 1, b""));
    let altered = altered.write(dir.path());
    let path = full.write(dir.path());
    let loaded = || load(&path, None, 1, &Progress::default()).expect("it loads");
    let (at, mut map) = loaded();
    let refused = on_top_of(&mut map, &at, &above);
    assert!(matches!(refused, Err(SnapshotError::AboveLedger { base: 11, slot: 10, .. })));
    let refused = on_top_of(&mut map, &at, &altered);
    assert!(matches!(refused, Err(SnapshotError::ChecksumMismatch { .. })));
    let (at, mut map) = loaded();
    let at = on_top_of(&mut map, &at, &right).expect("it loads on top");
    let refused = on_top_of(&mut map, &at, &right);
    assert!(matches!(refused, Err(SnapshotError::NotNewer { of: 15, slot: 15, .. })));
}

#[test]
fn a_renamed_incremental_snapshot_is_complete_above_the_state_or_refused() {
    let dir = dir();
    let full = full();
    let mut above = full.clone();
    above.slot = 13;
    above.storages.push((12, stored(5, 50, b"")));
    let right = Forge::on_top_of(&full, 15, vec![(12, stored(1, 91, b""))]).write(dir.path());
    let above = Forge::on_top_of(&above, 15, vec![(14, stored(1, 91, b""))]).write(dir.path());
    let path = full.write(dir.path());
    let renamed = dir.path().join("incremental.tar.zst");
    std::fs::copy(&right, &renamed).expect("copy");
    let (at, mut map) = load(&path, None, 1, &Progress::default()).expect("it loads");
    let at = on_top_of(&mut map, &at, &renamed).expect("it loads on top");
    assert_eq!((at.bank.slot, map.accounts.len()), (15, at.accounts_len));
    load(&path, Some(&renamed), 1, &Progress::default()).expect("both load");
    std::fs::copy(&above, &renamed).expect("copy");
    let (at, mut map) = load(&path, None, 1, &Progress::default()).expect("it loads");
    for refused in [
        on_top_of(&mut map, &at, &renamed).expect_err("it lacks slot 12"),
        load(&path, Some(&renamed), 1, &Progress::default()).map(drop).expect_err("it lacks it"),
    ] {
        let text = refused.to_string();
        assert!(text.contains("1 storage files are missing: accounts/12.19"), "{text}");
    }
}

#[test]
fn an_incremental_snapshot_with_a_storage_file_of_its_base_is_refused() {
    let dir = dir();
    let full = full();
    let (copied_slot, copied) = full.storages[0].clone();
    let storages = vec![(12, stored(1, 91, b"")), (copied_slot, copied)];
    let mut incremental = Forge::on_top_of(&full, 15, storages);
    incremental.listed_below.retain(|file| file.slot != copied_slot);
    let incremental = incremental.write(dir.path());
    let path = full.write(dir.path());
    let (at, mut map) = load(&path, None, 1, &Progress::default()).expect("it loads");
    for refused in [
        on_top_of(&mut map, &at, &incremental).expect_err("it has slot 9"),
        load(&path, Some(&incremental), 1, &Progress::default()).map(drop).expect_err("it has it"),
    ] {
        let text = refused.to_string();
        assert!(text.contains("a storage file of the base"), "{text}");
    }
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
                    let key = random.u8(..9);
                    let lamports = random.u64(..3) * random.u64(1..10);
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
