//! A second reader, written to be obvious: it unpacks every file, walks each from its first byte to its last, and
//! stores every account in a map.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use solana_pubkey::Pubkey;

use super::stored::HEAD_BYTES;
use super::{PlainLtHash, Stored};

/// An account and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedAccount {
    /// The slot of its file, and the first byte in it.
    pub location: (u64, usize),
    /// Balance in lamports; 0 if the account is closed.
    pub lamports: u64,
    /// The program that owns it.
    pub owner: [u8; 32],
    /// Whether it is a program.
    pub executable: bool,
    /// Its rent epoch.
    pub rent_epoch: u64,
    /// Data of the account.
    pub data: Vec<u8>,
}

impl LocatedAccount {
    /// The form in which it is written.
    pub fn stored(&self) -> Stored<'_> {
        let Self { lamports, owner, executable, rent_epoch, ref data, .. } = *self;
        Stored { lamports, owner, executable, rent_epoch, data }
    }
}

/// The newest version of each account, closed ones included.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// By address.
    pub newest: BTreeMap<Pubkey, LocatedAccount>,
    /// Number of accounts that were read, older versions and closed ones included.
    pub written: u64,
    /// The bytes of their files.
    pub bytes: u64,
}

/// Everything in an archive, by file name.
///
/// Errors: the file cannot be read, or is not an archive.
pub fn files(path: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let unpacked = zstd::stream::read::Decoder::new(File::open(path)?)?;
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(unpacked).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        files.insert(name, bytes);
    }
    Ok(files)
}

impl Accounts {
    /// Adds what is in the storage files among `files`; `None` if one of them is cut off.
    pub fn add(&mut self, files: &BTreeMap<String, Vec<u8>>) -> Option<()> {
        for (name, bytes) in files {
            if let Some((slot, _)) =
                name.strip_prefix("accounts/").and_then(|file| file.split_once('.'))
            {
                self.add_file(slot.parse().ok()?, bytes)?;
            }
        }
        Some(())
    }

    fn add_file(&mut self, slot: u64, bytes: &[u8]) -> Option<()> {
        let mut at = 0;
        while at < bytes.len() {
            let number = |from: usize| {
                Some(u64::from_le_bytes(bytes.get(at + from..at + from + 8)?.try_into().ok()?))
            };
            let key = |from: usize| bytes.get(at + from..at + from + 32)?.try_into().ok();
            let len = number(8)? as usize;
            let data = at + HEAD_BYTES;
            let placed = LocatedAccount {
                location: (slot, at),
                lamports: number(48)?,
                rent_epoch: number(56)?,
                owner: key(64)?,
                executable: *bytes.get(at + 96)? == 1,
                data: bytes.get(data..data + len)?.to_vec(),
            };
            let address = Pubkey::new_from_array(key(16)?);
            let newest = self.newest.get(&address).map(|account| account.location);
            if newest.is_none_or(|newest| newest < placed.location) {
                self.newest.insert(address, placed);
            }
            self.written += 1;
            at = (data + len).next_multiple_of(8);
        }
        self.bytes += bytes.len() as u64;
        Some(())
    }

    /// The open accounts.
    pub fn open(&self) -> impl Iterator<Item = (&Pubkey, &LocatedAccount)> {
        self.newest.iter().filter(|(_, placed)| placed.lamports > 0)
    }

    /// The lamports of the open accounts.
    pub fn lamports(&self) -> u64 {
        self.open().map(|(_, placed)| placed.lamports).sum()
    }

    /// The hash over the open accounts.
    pub fn lt_hash(&self) -> PlainLtHash {
        let mut lattice = PlainLtHash::default();
        self.open().for_each(|(key, placed)| lattice.add(&key.to_bytes(), &placed.stored()));
        lattice
    }
}
