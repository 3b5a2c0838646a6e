//! Storage files: accounts in the order in which the validator appended them.
//!
//! An account has a header of 136 bytes, then its data, then padding to a multiple of 8; the last
//! one may lack the padding. [`batches`] cuts a file between accounts, so that threads can share
//! one file.
//! Bounds: a batch is about [`BATCH_BYTES`], more only if one account is.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::quality::RandomState;
use lattice::LtHash;
use solana::lt_hash;
use solana_account::{Account, AccountSharedData};
use solana_pubkey::Pubkey;

use crate::archive::Archive;
use crate::error::{ArchiveOffset, SnapshotError};
use crate::version_position::VersionPosition;

/// Bytes of accounts in a batch.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes before an account's data.
const HEAD: usize = 136;
/// Maximum bytes of an account's data, as on a cluster.
const DATA_MAX: u64 = 10 << 20;
const ALIGN: u64 = 8;
// Offsets in a header. The first 8 bytes and the last 32 are unused.
const DATA_LEN_AT: usize = 8;
const KEY_AT: usize = 16;
const LAMPORTS_AT: usize = 48;
const RENT_EPOCH_AT: usize = 56;
const OWNER_AT: usize = 64;
const EXECUTABLE_AT: usize = 96;

/// Complete accounts of one storage file, unparsed.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Number of its file, as in [`VersionPosition::new`].
    number: u32,
    /// Offset of the first account in the file.
    offset: u64,
    archive: Arc<str>,
    file: Arc<str>,
}

/// The accounts of a batch, no address twice: the later version in a file counts.
pub(crate) struct ParsedBatch {
    pub(crate) accounts: Vec<(Pubkey, VersionPosition, AccountSharedData)>,
    /// The hash over them.
    pub(crate) sum: LtHash,
    /// Number of accounts in the batch, including older versions.
    pub(crate) written: u64,
    /// Bytes of the batch.
    pub(crate) bytes: usize,
}

/// Splits the first `valid` bytes of the current entry, file `number`, into batches. `send` returns
/// whether to continue.
pub(crate) fn batches(
    archive: &mut Archive<'_>,
    file: &str,
    number: u32,
    valid: u64,
    mut send: impl FnMut(Batch) -> bool,
) -> Result<bool, SnapshotError> {
    let (archive_name, file): (Arc<str>, Arc<str>) = (archive.name().into(), file.into());
    let mut bytes = Vec::new();
    let mut position = 0;
    let mut offset = 0;
    while position < valid {
        if position + HEAD as u64 > valid {
            return Err(archive.damaged("an account's head is cut off"));
        }
        let start = bytes.len();
        archive.append(&mut bytes, HEAD)?;
        let data_len = u64_at(&bytes[start..], DATA_LEN_AT);
        let end = position + HEAD as u64 + data_len.min(DATA_MAX);
        if data_len > DATA_MAX || end > valid {
            return Err(archive.damaged_at(
                position + DATA_LEN_AT as u64,
                format!("an account of {data_len} bytes; {} are left", valid - position),
            ));
        }
        let next = end.next_multiple_of(ALIGN).min(valid);
        archive.append(&mut bytes, (next - position) as usize - HEAD)?;
        position = next;
        if bytes.len() >= BATCH_BYTES || position == valid {
            let batch = Batch {
                bytes: std::mem::take(&mut bytes),
                number,
                offset,
                archive: Arc::clone(&archive_name),
                file: Arc::clone(&file),
            };
            offset = position;
            if !send(batch) {
                return Ok(false);
            }
            bytes.reserve(BATCH_BYTES.min((valid - position) as usize));
        }
    }
    Ok(true)
}

/// Address, offset in the file, account.
type Stored = (Pubkey, u64, AccountSharedData);

impl Batch {
    /// Parses and hashes the batch on a worker thread.
    pub(crate) fn parse(&self) -> Result<ParsedBatch, SnapshotError> {
        let mut accounts = Vec::new();
        let mut written = 0;
        let mut seen: HashMap<Pubkey, usize, RandomState> = HashMap::default();
        for stored in self.accounts() {
            let (key, offset, account) = stored?;
            let stored = (key, VersionPosition::new(self.number, offset), account);
            written += 1;
            match seen.get(&key) {
                Some(older) => accounts[*older] = stored,
                None => {
                    seen.insert(key, accounts.len());
                    accounts.push(stored);
                }
            }
        }
        let mut sum = LtHash::EMPTY;
        for (key, _, account) in &accounts {
            sum.mix_in(&lt_hash(key, account));
        }
        Ok(ParsedBatch { accounts, sum, written, bytes: self.bytes.len() })
    }

    /// The accounts in the order in which they were written, with their offsets.
    fn accounts(&self) -> impl Iterator<Item = Result<Stored, SnapshotError>> {
        let mut position = 0;
        std::iter::from_fn(move || {
            let head = self.bytes.get(position..position + HEAD)?;
            let start = position;
            let data_at = position + HEAD;
            let end = data_at + u64_at(head, DATA_LEN_AT) as usize;
            position = end.next_multiple_of(ALIGN as usize);
            // `batches` has checked that the data is complete.
            Some(self.account(start, head, &self.bytes[data_at..end]))
        })
    }

    fn account(&self, start: usize, head: &[u8], data: &[u8]) -> Result<Stored, SnapshotError> {
        let offset = self.offset + start as u64;
        let executable = match head[EXECUTABLE_AT] {
            0 => false,
            1 => true,
            other => {
                return Err(SnapshotError::Damaged {
                    at: ArchiveOffset {
                        archive: self.archive.to_string(),
                        file: Some(self.file.to_string()),
                        offset: offset + EXECUTABLE_AT as u64,
                    },
                    reason: format!("whether an account is executable is {other}, not 0 or 1"),
                });
            }
        };
        let lamports = u64_at(head, LAMPORTS_AT);
        let account = Account {
            lamports,
            // A closed account needs no data.
            data: if lamports == 0 { Vec::new() } else { data.to_vec() },
            owner: pubkey_at(head, OWNER_AT),
            executable,
            rent_epoch: u64_at(head, RENT_EPOCH_AT),
        };
        Ok((pubkey_at(head, KEY_AT), offset, account.into()))
    }
}

fn u64_at(head: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn pubkey_at(head: &[u8], at: usize) -> Pubkey {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(&head[at..at + 32]);
    Pubkey::new_from_array(bytes)
}
