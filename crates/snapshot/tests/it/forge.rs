//! Makes archives: the same bytes as a validator would write, of whatever a test needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use solana_pubkey::Pubkey;
use solana_sha256_hasher::hashv;

use crate::naive;

/// A snapshot to be written.
#[derive(Clone)]
pub(crate) struct Forge {
    pub(crate) slot: u64,
    /// The slot of the full snapshot below, for an incremental one.
    pub(crate) base: Option<u64>,
    /// Accounts that were there before: in the hash, not in the archive.
    pub(crate) below: BTreeMap<String, Vec<u8>>,
    /// Storage files by slot, in the order in which they are to stand.
    pub(crate) storages: Vec<(u64, Vec<u8>)>,
    /// Bytes behind the accounts of each storage file that are none.
    pub(crate) slack: usize,
    /// Added to the capitalization that the bank states.
    pub(crate) lamports_off: u64,
}

impl Forge {
    pub(crate) fn full(slot: u64, storages: Vec<(u64, Vec<u8>)>) -> Self {
        let below = BTreeMap::new();
        Self { slot, base: None, below, storages, slack: 0, lamports_off: 0 }
    }

    pub(crate) fn on_top_of(full: &Self, slot: u64, storages: Vec<(u64, Vec<u8>)>) -> Self {
        Self { base: Some(full.slot), below: full.files(), ..Self::full(slot, storages) }
    }

    /// Storage files by name.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let files = self.storages.iter();
        files.map(|(slot, bytes)| (storage_name(*slot), bytes.clone())).collect()
    }

    /// Writes the archive into `dir`, under the name that it should have.
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

    /// The bank's fields as bincode has them, and the hash for the file's name.
    fn bank(&self) -> (Vec<u8>, String) {
        let mut accounts = BTreeMap::new();
        naive::walk(&self.below, &mut accounts);
        naive::walk(&self.files(), &mut accounts);
        let lattice = naive::lattice(&accounts);
        let lamports: u64 = accounts.values().map(|account| account.lamports).sum();
        let (parent_hash, last) = ([3; 32], [4; 32]);
        let bank_hash = hashv(&[&parent_hash, &1_u64.to_le_bytes(), &last]);
        let bank_hash = hashv(&[bank_hash.as_ref(), &lattice]).to_bytes();

        let mut out = Vec::new();
        let mut raw = |bytes: &[u8]| out.extend_from_slice(bytes);
        let n = |number: u64| number.to_le_bytes();
        raw(&n(1)); // blockhash queue: index, last, two hashes, kept
        raw(&[1]);
        raw(&last);
        raw(&n(2));
        for (index, hash) in [(1, last), (0, [5; 32])] {
            raw(&hash);
            [5_000, index, 0].into_iter().for_each(|number| raw(&n(number)));
        }
        raw(&n(300));
        raw(&n(0)); // ancestors
        raw(&bank_hash);
        raw(&parent_hash);
        raw(&n(self.slot - 1));
        raw(&n(0)); // hard forks
        raw(&n(77)); // transactions
        raw(&n(0)); // ticks
        raw(&n(1)); // signatures
        raw(&n(lamports + self.lamports_off));
        raw(&n(0)); // ticks at most
        raw(&[0]); // hashes per tick
        raw(&n(64));
        raw(&400_000_000_u128.to_le_bytes());
        raw(&n(1_700_000_000));
        raw(&[0; 16]);
        raw(&n(self.slot));
        raw(&n(0));
        raw(&n(self.slot)); // height
        raw(&[0; 32 + 16 + 33 + 8]); // leader, fees, rent
        raw(&[0; 8 + 33 + 8 + 17]); // rent collector
        [8_192, 8_192].into_iter().for_each(|number| raw(&n(number)));
        raw(&[0; 17]); // rest of the epoch schedule
        raw(&[0; 48]); // inflation
        raw(&[0; 5 * 8]); // stakes
        raw(&[0; 4 * 8]); // accounts and stakes without use
        raw(&[1]);
        raw(&n(self.storages.len() as u64));
        for (slot, bytes) in &self.storages {
            [*slot, 1, *slot + 7, bytes.len() as u64]
                .into_iter()
                .for_each(|number| raw(&n(number)));
        }
        raw(&n(0));
        raw(&n(self.slot));
        raw(&[0; 64 + 40 + 16]);
        raw(&n(5_000));
        raw(&[0, 0]);
        raw(&n(0)); // epochs with stakes
        raw(&[1]);
        raw(&lattice);
        raw(&[0]);
        (out, naive::checksum(&lattice).to_string())
    }
}

fn storage_name(slot: u64) -> String {
    format!("accounts/{slot}.{}", slot + 7)
}

/// A tar archive in a Zstandard stream.
pub(crate) fn pack(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, &bytes[..]).expect("append an entry");
    }
    let archive = archive.into_inner().expect("end the archive");
    zstd::stream::encode_all(&archive[..], 1).expect("compress the archive")
}

/// An account as a storage file has it, padded.
pub(crate) fn stored(key: u8, lamports: u64, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 8];
    out.extend((data.len() as u64).to_le_bytes());
    out.extend(address(key).to_bytes());
    out.extend(lamports.to_le_bytes());
    out.extend(u64::MAX.to_le_bytes());
    out.extend([9; 32]);
    out.extend([0; 8 + 32]);
    out.extend(data);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

pub(crate) fn address(key: u8) -> Pubkey {
    Pubkey::new_from_array([key; 32])
}
