//! A second reader of archives, for small ones: unpacks every file and keeps every account in a map.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};

use super::Expected;
use super::lattice::Lattice;

/// An account as it is written.
pub(super) struct Stored {
    /// The slot and the place in its file.
    place: (u64, usize),
    pub(super) lamports: u64,
    pub(super) owner: [u8; 32],
    pub(super) executable: bool,
    pub(super) rent_epoch: u64,
    pub(super) data: Vec<u8>,
}

/// The newest version of every account, closed ones too, and what was written.
pub(super) struct Archive {
    pub(super) slot: u64,
    pub(super) accounts: HashMap<[u8; 32], Stored>,
    written: u64,
    bytes: u64,
}

pub(super) fn read(path: &Path) -> Result<Archive> {
    let mut read = Archive { slot: 0, accounts: HashMap::new(), written: 0, bytes: 0 };
    let unpacked = zstd::stream::read::Decoder::new(File::open(path)?)?;
    for entry in tar::Archive::new(unpacked).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        if let Some(slot) = name.strip_prefix("snapshots/").and_then(|rest| rest.split_once('/')) {
            read.slot = slot.0.parse().context("the slot of the bank")?;
        }
        let Some((slot, _)) = name.strip_prefix("accounts/").and_then(|file| file.split_once('.'))
        else {
            continue;
        };
        let slot = slot.parse().context("the slot of a file")?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        read.walk(slot, &bytes).with_context(|| format!("{name} is cut off"))?;
    }
    Ok(read)
}

impl Archive {
    fn walk(&mut self, slot: u64, bytes: &[u8]) -> Option<()> {
        let mut at = 0;
        while at < bytes.len() {
            let number = |from: usize| {
                Some(u64::from_le_bytes(bytes.get(at + from..at + from + 8)?.try_into().ok()?))
            };
            let key = |from: usize| bytes.get(at + from..at + from + 32)?.try_into().ok();
            let len = number(8)? as usize;
            let stored = Stored {
                place: (slot, at),
                lamports: number(48)?,
                rent_epoch: number(56)?,
                owner: key(64)?,
                executable: *bytes.get(at + 96)? == 1,
                data: bytes.get(at + 136..at + 136 + len)?.to_vec(),
            };
            let newest = self.accounts.get(&key(16)?).map(|kept| kept.place);
            if newest.is_none_or(|newest| newest < stored.place) {
                self.accounts.insert(key(16)?, stored);
            }
            self.written += 1;
            at = (at + 136 + len).div_ceil(8) * 8;
        }
        self.bytes += bytes.len() as u64;
        Some(())
    }
}

pub(super) fn expected(read: &Archive) -> Expected {
    let mut lattice = Lattice::new();
    let (mut accounts, mut lamports) = (0, 0);
    for (key, stored) in read.accounts.iter().filter(|(_, stored)| stored.lamports > 0) {
        lattice.add(key, stored.lamports, &stored.data, stored.executable, &stored.owner);
        accounts += 1;
        lamports += stored.lamports;
    }
    let hash = lattice.checksum().to_string();
    Expected { accounts, lamports, hash, written: read.written, bytes: read.bytes }
}
