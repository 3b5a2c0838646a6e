//! Creates archives with the bytes that a validator would write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use solana_pubkey::Pubkey;
use testkit::archive::{self, Accounts, HashedFields, StorageFile, Stored, UnhashedFields};

/// A snapshot to write.
#[derive(Clone)]
pub(crate) struct Forge {
    pub(crate) slot: u64,
    /// The slot of the full snapshot below, for an incremental one.
    pub(crate) base: Option<u64>,
    /// Accounts of the full snapshot: in the hash, not in the archive.
    pub(crate) below: BTreeMap<String, Vec<u8>>,
    /// Storage files of the full snapshot, which a validator lists in an incremental archive too.
    pub(crate) listed_below: Vec<StorageFile>,
    /// Storage files by slot, in the order in which they are written.
    pub(crate) storages: Vec<(u64, Vec<u8>)>,
    /// Bytes after the accounts of each storage file that are not accounts.
    pub(crate) slack: usize,
    /// Added to the capitalization that the bank states.
    pub(crate) lamports_off: u64,
    /// What no hash covers.
    pub(crate) unhashed: UnhashedFields,
}

impl Forge {
    pub(crate) fn full(slot: u64, storages: Vec<(u64, Vec<u8>)>) -> Self {
        let below = BTreeMap::new();
        let unhashed = UnhashedFields::default();
        let listed_below = Vec::new();
        Self {
            slot,
            base: None,
            below,
            listed_below,
            storages,
            slack: 0,
            lamports_off: 0,
            unhashed,
        }
    }

    pub(crate) fn on_top_of(full: &Self, slot: u64, storages: Vec<(u64, Vec<u8>)>) -> Self {
        Self {
            base: Some(full.slot),
            below: full.files(),
            listed_below: full.list_files(),
            ..Self::full(slot, storages)
        }
    }

    /// The storage files that the bank lists.
    fn list_files(&self) -> Vec<StorageFile> {
        let file = |(slot, bytes): &(u64, Vec<u8>)| StorageFile {
            slot: *slot,
            id: slot + 7,
            bytes: bytes.len() as u64,
        };
        self.storages.iter().map(file).chain(self.listed_below.iter().copied()).collect()
    }

    /// Storage files by name.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let files = self.storages.iter();
        files.map(|(slot, bytes)| (storage_name(*slot), bytes.clone())).collect()
    }

    /// Writes the archive into `dir`, under its proper name.
    pub(crate) fn write(&self, dir: &Path) -> PathBuf {
        let (bank, hash) = self.bank();
        let name = match self.base {
            Some(base) => format!("incremental-snapshot-{base}-{}-{hash}.tar.zst", self.slot),
            None => format!("snapshot-{}-{hash}.tar.zst", self.slot),
        };
        let mut entries = vec![
            ("version".to_owned(), b"1.2.0".to_vec()),
            ("snapshots/status_cache".to_owned(), vec![0; 8]),
            (format!("snapshots/{0}/{0}", self.slot), bank),
        ];
        entries.extend(self.storages.iter().map(|(slot, bytes)| {
            let mut bytes = bytes.clone();
            bytes.resize(bytes.len() + self.slack, 0);
            (storage_name(*slot), bytes)
        }));
        let path = dir.join(name);
        std::fs::write(&path, pack(&entries)).expect("write the archive");
        path
    }

    /// The bank's fields, and the hash for the file's name.
    fn bank(&self) -> (Vec<u8>, String) {
        let mut accounts = Accounts::default();
        for files in [&self.below, &self.files()] {
            accounts.add(files).expect("whole files");
        }
        let files = self.list_files();
        let lattice = accounts.lt_hash();
        let lamports = accounts.lamports() + self.lamports_off;
        let hashed = HashedFields::at(self.slot);
        let unhashed = &self.unhashed;
        let bank =
            archive::bank_fields_with(self.slot, hashed, unhashed, &files, lamports, &lattice);
        (bank, lattice.checksum().to_string())
    }
}

fn storage_name(slot: u64) -> String {
    format!("accounts/{slot}.{}", slot + 7)
}

/// A tar archive in a Zstandard stream.
pub(crate) fn pack(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in entries {
        archive::append(&mut archive, name, bytes).expect("append an entry");
    }
    let archive = archive.into_inner().expect("end the archive");
    zstd::stream::encode_all(&archive[..], 1).expect("compress the archive")
}

/// An account in the form of a storage file, padded.
pub(crate) fn stored(key: u8, lamports: u64, data: &[u8]) -> Vec<u8> {
    let owner = [9; 32];
    let account = Stored { lamports, owner, executable: false, rent_epoch: u64::MAX, data };
    let mut out = Vec::new();
    archive::put(&mut out, &address(key).to_bytes(), &account);
    out
}

pub(crate) fn address(key: u8) -> Pubkey {
    Pubkey::new_from_array([key; 32])
}
