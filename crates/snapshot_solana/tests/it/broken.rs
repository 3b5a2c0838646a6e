//! Archives that are truncated, altered or something else: each is refused with the position.

use std::path::Path;

use snapshot_solana::{Progress, Snapshot, SnapshotError};
use tempfile::TempDir;
use testkit::archive;

use crate::forge::{Forge, pack, stored};
use crate::map::{Map, load};
use crate::sample::sample;

fn small() -> Forge {
    let bytes = [stored(1, 10, b"one"), stored(2, 20, &[7; 300])].concat();
    Forge::full(10, vec![(3, bytes), (8, stored(1, 11, b"newer"))])
}

fn load_bytes(dir: &Path, name: &str, bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
    let path = dir.join(name);
    std::fs::write(&path, bytes).expect("write the archive");
    load(&path, None, 1, &Progress::default()).map(|(snapshot, _)| snapshot)
}

/// Loads an archive that must be refused.
fn refuse(name: &str, bytes: &[u8]) -> String {
    let dir = TempDir::new().expect("a directory");
    match load_bytes(dir.path(), name, bytes) {
        Ok(_) => panic!("{name} was accepted"),
        Err(err) => err.to_string(),
    }
}

fn read(path: &Path) -> (String, Vec<u8>) {
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    (name, std::fs::read(path).expect("read the archive"))
}

#[test]
fn a_truncated_archive_is_refused_at_every_length() {
    let dir = TempDir::new().expect("a directory");
    let (name, bytes) = read(&small().write(dir.path()));
    for len in 0..bytes.len() {
        let refused = load_bytes(dir.path(), &name, &bytes[..len]);
        assert!(
            matches!(refused, Err(SnapshotError::Truncated { .. })),
            "{len} of {}: {:?}",
            bytes.len(),
            refused.map(|_| ())
        );
    }
}

#[test]
fn the_truncated_sample_is_refused_and_says_where() {
    let dir = TempDir::new().expect("a directory");
    let (name, bytes) = read(&sample());
    for part in 0..24 {
        let len = bytes.len() * part / 24;
        let Err(SnapshotError::Truncated { at }) = load_bytes(dir.path(), &name, &bytes[..len])
        else {
            panic!("{len} bytes were accepted, or refused for another reason");
        };
        assert_eq!(at.archive, name);
        if part == 12 {
            assert_eq!(at.file.as_deref(), Some("accounts/0.0"));
            assert!(at.offset > 0);
        }
    }
}

/// Checks that an archive with a flipped bit is refused, or that the bit does not matter.
pub(crate) fn check_flips(path: &Path, offsets: impl Iterator<Item = usize>) {
    let dir = TempDir::new().expect("a directory");
    let (name, bytes) = read(path);
    let (whole, _) = load(path, None, 1, &Progress::default()).expect("the archive loads");
    for at in offsets {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        if let Ok(loaded) = load_bytes(dir.path(), &name, &flipped) {
            assert_eq!(loaded.accounts_hash, whole.accounts_hash, "byte {at}");
            assert_eq!(loaded.lamports, whole.lamports, "byte {at}");
            assert_eq!(loaded.bank.bank_hash, whole.bank.bank_hash, "byte {at}");
            assert_eq!(loaded.bank.slot, whole.bank.slot, "byte {at}");
        }
    }
}

#[test]
fn no_flipped_byte_changes_an_account_unnoticed() {
    let dir = TempDir::new().expect("a directory");
    let path = small().write(dir.path());
    let len = std::fs::metadata(&path).expect("its length").len() as usize;
    check_flips(&path, 0..len);
}

#[test]
fn no_flipped_byte_of_the_sample_changes_an_account_unnoticed() {
    let path = sample();
    let len = std::fs::metadata(&path).expect("its length").len() as usize;
    check_flips(&path, (0..32).map(|part| len * part / 32 + part * 7));
}

#[test]
fn every_altered_byte_of_a_storage_file_is_noticed() {
    let forge = small();
    let dir = TempDir::new().expect("a directory");
    let (name, _) = read(&forge.write(dir.path()));
    let files = archive::files(&dir.path().join(&name)).expect("its files");
    let storage = "accounts/8.15";
    // Padding and unused fields may have any value; so may the rent epoch, which no hash covers.
    let counts = |at: usize| matches!(at, 8..56 | 64..97) || (136..141).contains(&at);
    for at in (0..files[storage].len()).filter(|at| counts(*at)) {
        let mut entries: Vec<(String, Vec<u8>)> = vec![
            ("version".to_owned(), files["version"].clone()),
            ("snapshots/10/10".to_owned(), files["snapshots/10/10"].clone()),
            ("accounts/3.10".to_owned(), files["accounts/3.10"].clone()),
            (storage.to_owned(), files[storage].clone()),
        ];
        entries[3].1[at] ^= 0x10;
        let refused = load_bytes(dir.path(), &name, &pack(&entries));
        assert!(
            matches!(
                refused,
                Err(SnapshotError::ChecksumMismatch { .. } | SnapshotError::Damaged { .. })
            ),
            "byte {at}: {:?}",
            refused.map(|_| ())
        );
    }
}

#[test]
fn another_file_is_refused_with_its_name() {
    let name = "snapshot.tar.zst";
    let file = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_vec());
    let packed = |files: &[(String, Vec<u8>)]| refuse(name, &pack(files));

    assert!(refuse(name, b"").contains("cut off"));
    assert!(refuse(name, b"BZh91AY&SY").contains("compressed with bzip2; Zstandard (tar.zst)"));
    assert!(refuse(name, &[b'v'; 512]).contains("not compressed; Zstandard (tar.zst)"));
    let text = zstd::stream::encode_all(&[b'a'; 2_000][..], 1).expect("compress");
    assert!(refuse(name, &text).contains("no tar header here"));
    assert_eq!(
        packed(&[file("genesis.bin", b"x")]),
        "snapshot.tar.zst: genesis.bin at byte 0: not a snapshot archive as Agave 4 writes it: \
         no such file belongs here"
    );
    assert!(packed(&[file("version", b"1.1.0")]).contains("version \"1.1.0\", not 1.2.0"));
    assert!(packed(&[file("version", b"1.2.0")]).contains("there is no bank in it"));
    assert!(packed(&[file("accounts/1.1", b"")]).contains("before the bank's fields"));
    let huge = [0xff; 100];
    let version = file("version", b"1.2.0");
    assert!(packed(&[version, file("snapshots/1/1", &huge)]).contains("snapshots/1/1 at byte 8"));
}

#[test]
fn the_start_of_an_archive_shows_whether_it_is_one() {
    let dir = TempDir::new().expect("a directory");
    let (name, bytes) = read(&sample());
    let path = dir.path().join(name);
    let check = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("write the archive");
        snapshot_solana::check_start(&path).map_err(|err| err.to_string())
    };
    assert_eq!(check(&bytes), Ok(()));
    assert_eq!(check(&bytes[..bytes.len() / 2]), Ok(()), "its end is not read");
    let text = zstd::stream::encode_all(&[b'a'; 2_000][..], 1).expect("compress");
    for (bytes, reason) in [
        (&bytes[..3], "cut off"),
        (&b"BZh91AY&SY"[..], "compressed with bzip2; Zstandard (tar.zst)"),
        (&[b'v'; 512][..], "not compressed; Zstandard (tar.zst)"),
        (&text[..], "no tar header here"),
        (&pack(&[])[..], "it contains no files"),
    ] {
        assert!(check(bytes).is_err_and(|err| err.contains(reason)), "{reason}");
    }
    std::fs::remove_file(&path).expect("it exists");
    let missing = snapshot_solana::check_start(&path);
    assert!(matches!(missing, Err(SnapshotError::Open { .. })), "{missing:?}");
}

#[test]
fn inconsistent_archives_are_refused() {
    let dir = TempDir::new().expect("a directory");
    let forge = small();
    let refused = |forge: &Forge, rename: Option<&str>| {
        let (name, bytes) = read(&forge.write(dir.path()));
        refuse(rename.unwrap_or(&name), &bytes)
    };
    let off = Forge { lamports_off: 1, ..forge.clone() };
    assert!(refused(&off, None).contains("31 lamports in all accounts, and the bank says 32"));
    let other_hash = refused(&forge, Some("snapshot-10-1111.tar.zst"));
    assert!(other_hash.contains("and the file name says 1111"), "{other_hash}");
    let other_slot = refused(&forge, Some("snapshot-11-1111.tar.zst"));
    assert!(other_slot.contains("the bank is of slot 10"), "{other_slot}");

    let (name, _) = read(&forge.write(dir.path()));
    let files = archive::files(&dir.path().join(&name)).expect("its files");
    let mut entries: Vec<(String, Vec<u8>)> =
        ["version", "snapshots/10/10", "accounts/3.10", "accounts/8.15"]
            .map(|name| (name.to_owned(), files[name].clone()))
            .into();
    let last = entries.pop().expect("a storage file");
    assert!(refuse(&name, &pack(&entries)).contains("files are missing: accounts/8.15"));
    entries.extend([last.clone(), last.clone()]);
    assert!(refuse(&name, &pack(&entries)).contains("accounts/8.15 at byte 0"));
    entries.truncate(3);
    entries.push((last.0, last.1[..8].to_vec()));
    assert!(refuse(&name, &pack(&entries)).contains("8 bytes, and the bank says"));
}

#[test]
fn a_full_sink_ends_the_load_with_its_error() {
    let dir = TempDir::new().expect("a directory");
    let bytes: Vec<u8> = (0..250).flat_map(|key| stored(key, 1, &[key; 30_000])).collect();
    let path = Forge::full(10, vec![(3, bytes)]).write(dir.path());
    for threads in [1, 4] {
        let mut map = Map { accounts_max: Some(100), ..Map::default() };
        let progress = Progress::default();
        let refused = snapshot_solana::load(&path, None, threads, &progress, &mut map);
        let Err(SnapshotError::AccountSink(source)) = refused else { panic!("it was accepted") };
        assert_eq!(source.to_string(), "the map is full");
    }
}
