//! A snapshot archive with the accounts that a follower needs.

use std::path::{Path, PathBuf};

use solana_clock::Clock;
use solana_rent::Rent;
use solana_sdk_ids::sysvar;
use testkit::archive::{self, Accounts, StorageFile, Stored};

pub(crate) const SLOT: u64 = 100;
/// The blockhash of the snapshot's block, as `testkit` writes it.
pub(crate) const BLOCKHASH: [u8; 32] = [4; 32];
/// Lamports of the wallet [`WALLET`] in the snapshot.
pub(crate) const LAMPORTS: u64 = 5_000;
pub(crate) const WALLET: [u8; 32] = [7; 32];

/// Writes an archive into `dir`. Returns its path.
pub(crate) fn write(dir: &Path) -> PathBuf {
    let clock = Clock { slot: SLOT, unix_timestamp: 1_700_000_000, ..Clock::default() };
    let clock = bincode::serialize(&clock).expect("a clock");
    let rent = bincode::serialize(&Rent::default()).expect("rent");
    let mut file = Vec::new();
    let mut put = |address: [u8; 32], lamports, owner: [u8; 32], data: &[u8]| {
        let account = Stored { lamports, owner, executable: false, rent_epoch: u64::MAX, data };
        archive::put(&mut file, &address, &account);
    };
    put(sysvar::clock::ID.to_bytes(), 1, sysvar::ID.to_bytes(), &clock);
    put(sysvar::rent::ID.to_bytes(), 1, sysvar::ID.to_bytes(), &rent);
    put(WALLET, LAMPORTS, [0; 32], &[]);
    let name = format!("accounts/{SLOT}.1");
    let mut accounts = Accounts::default();
    accounts.add(&[(name.clone(), file.clone())].into()).expect("whole files");
    let lattice = accounts.lt_hash();
    let lamports = accounts.lamports();
    let files = [StorageFile { slot: SLOT, id: 1, bytes: file.len() as u64 }];
    let bank = archive::bank_fields(SLOT, &files, lamports, &lattice);
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in [
        ("version".to_owned(), b"1.2.0".to_vec()),
        ("snapshots/status_cache".to_owned(), vec![0; 8]),
        (format!("snapshots/{SLOT}/{SLOT}"), bank),
        (name, file),
    ] {
        archive::append(&mut tar, &name, &bytes).expect("append an entry");
    }
    let tar = tar.into_inner().expect("end the archive");
    let path = dir.join(format!("snapshot-{SLOT}-{}.tar.zst", lattice.checksum()));
    let packed = zstd::stream::encode_all(&tar[..], 1).expect("compress");
    std::fs::write(&path, packed).expect("write the archive");
    path
}
