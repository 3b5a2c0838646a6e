//! Archives that are compressed with LZ4 (`tar.lz4`), as a validator writes them on request.

use std::path::Path;

use snapshot_solana::{Progress, SnapshotError};
use tempfile::TempDir;
use testkit::archive::copy_as_lz4;

use crate::broken::check_flips;
use crate::forge::{Forge, stored};
use crate::map::load;
use crate::sample::sample;

#[test]
fn an_lz4_archive_loads_as_its_zstandard_twin_does() {
    let dir = TempDir::new().expect("a directory");
    let copy = copy_as_lz4(&sample(), dir.path()).expect("a copy");
    assert!(copy.to_string_lossy().ends_with(".tar.lz4"));
    let progress = Progress::default();
    let (expected, expected_map) =
        load(&sample(), None, 2, &Progress::default()).expect("it loads");
    let (snapshot, map) = load(&copy, None, 2, &progress).expect("it loads");
    assert_eq!(snapshot.accounts_hash, expected.accounts_hash);
    assert_eq!(snapshot.bank.bank_hash, expected.bank.bank_hash);
    assert_eq!(map.accounts, expected_map.accounts);
    assert_eq!(progress.archive_bytes(), progress.archive_bytes_total());
}

#[test]
fn an_lz4_archive_is_loaded_on_top_of_one_of_zstandard() {
    let dir = TempDir::new().expect("a directory");
    let full = Forge::full(10, vec![(3, stored(1, 10, b"one"))]);
    let incremental = Forge::on_top_of(&full, 20, vec![(15, stored(2, 20, b"two"))]);
    let incremental = incremental.write(dir.path());
    let full = full.write(dir.path());
    let copy = |path: &Path| copy_as_lz4(path, dir.path()).expect("a copy");
    let lz4 = copy(&incremental);
    for (full, incremental) in
        [(full.clone(), lz4.clone()), (copy(&full), incremental), (copy(&full), lz4)]
    {
        let loaded = load(&full, Some(&incremental), 1, &Progress::default());
        let (snapshot, _) = loaded.expect("both load");
        assert_eq!((snapshot.bank.slot, snapshot.lamports), (20, 30));
    }
}

#[test]
fn the_content_of_an_archive_says_how_it_is_compressed() {
    let dir = TempDir::new().expect("a directory");
    let path = Forge::full(10, vec![(3, stored(1, 10, b"one"))]).write(dir.path());
    let copy = copy_as_lz4(&path, dir.path()).expect("a copy");
    std::fs::rename(&copy, &path).expect("rename");
    load(&path, None, 1, &Progress::default()).expect("LZ4 with the name of Zstandard");
}

#[test]
fn a_truncated_lz4_archive_is_refused_and_says_where() {
    let dir = TempDir::new().expect("a directory");
    let copy = copy_as_lz4(&sample(), dir.path()).expect("a copy");
    let bytes = std::fs::read(&copy).expect("read the archive");
    for part in 0..12 {
        std::fs::write(&copy, &bytes[..bytes.len() * part / 12]).expect("cut it");
        let refused = load(&copy, None, 1, &Progress::default()).err();
        let Some(SnapshotError::Truncated { at }) = refused else { panic!("{part}: {refused:?}") };
        assert_eq!(Some(at.archive.as_str()), copy.file_name().and_then(|name| name.to_str()));
    }
}

#[test]
fn no_flipped_byte_of_an_lz4_archive_changes_an_account() {
    let dir = TempDir::new().expect("a directory");
    let copy = copy_as_lz4(&sample(), dir.path()).expect("a copy");
    let len = std::fs::metadata(&copy).expect("its length").len() as usize;
    check_flips(&copy, (0..16).map(|part| len * part / 16 + part * 7));
}
