//! Writes a full snapshot archive: the bank's fields, the status cache, and one storage file with all accounts.
//!
//! In: what a bank states ([`ArchivedBank`]), and its accounts, which are read twice: the fields precede them, and state
//! their bytes, their lamports and their hash. Out: `snapshot-SLOT-HASH.tar.zst` in a directory.
//! Bounds: one account, the compressor and a buffer in memory. The file is as large as the compressed accounts.
//! Invariant: an archive has its name only when it is whole, and its bank hash follows from its accounts.
//! Not here: what readers do not need, because accounts have it: current stakes, votes of vote accounts, rent. A
//! validator does not start from such an archive.

use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lattice::LtHash;
use solana::{Account, lt_hash};
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use store::durable_file;
use tar::Header;
use zstd::stream::write::Encoder;

use crate::archived_bank::{ArchivedBank, STORAGE_ID};
use crate::bank_fields::BankFields;
use crate::fields_writer::{self, StorageTotals};

/// What a validator compresses with.
const ZSTD_LEVEL: i32 = 1;
/// Bytes that are written to the disk at a time.
const BUFFER_BYTES: usize = 1 << 18;
/// Bytes of an account before its data.
const HEAD: usize = 136;
/// The only layout since 2020.
const VERSION: &[u8] = b"1.2.0";

/// An archive on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenArchive {
    /// Slot of the bank.
    pub slot: u64,
    /// File name of the archive.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// The reason why no archive could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveWriteError {
    /// The file cannot be written. Fix: the directory, or space on the disk.
    #[error("write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        err: io::Error,
    },
    /// The bank states another hash than the one that follows from its accounts. The first bank of a ledger that started
    /// from a snapshot does. Fix: take a newer bank.
    #[error("the bank of slot {slot} states the hash {stated}, and its accounts have {found}")]
    BankHash {
        /// The slot.
        slot: u64,
        /// The hash that it states.
        stated: Hash,
        /// The hash that follows.
        found: Hash,
    },
}

/// Writes the archive of a bank into a directory. `accounts` returns the same accounts at each call.
///
/// Cost: two passes over the accounts, about 5 us each.
pub fn write_archive<I>(
    dir: &Path,
    bank: &ArchivedBank,
    accounts: impl Fn() -> I,
) -> Result<WrittenArchive, ArchiveWriteError>
where
    I: Iterator<Item = (Pubkey, Arc<Account>)>,
{
    let slot = bank.fields.slot;
    let mut totals = StorageTotals { bytes: 0, lamports: 0, lt_hash: LtHash::EMPTY };
    for (pubkey, account) in accounts() {
        totals.bytes += stored_len(&account) as u64;
        totals.lamports = totals.lamports.saturating_add(account.0.lamports());
        totals.lt_hash.mix_in(&lt_hash(&pubkey, &account.0));
    }
    check_hash(&bank.fields, &totals.lt_hash)?;
    let hash = Hash::new_from_array(totals.lt_hash.checksum());
    let name = format!("snapshot-{slot}-{hash}.tar.zst");
    let path = dir.join(&name);
    let part = dir.join("snapshot.part");
    let fields = fields_writer::encode(bank, &totals);
    let storage = AccountsReader { accounts: accounts(), buffer: Vec::new(), position: 0 };
    let written = write_files(&part, bank, &fields, (totals.bytes, storage));
    let written = written.and_then(|file| {
        let bytes = file.metadata()?.len();
        durable_file::rename(&file, &part, &path)?;
        Ok(bytes)
    });
    match written {
        Ok(bytes) => Ok(WrittenArchive { slot, name, path, bytes }),
        Err(err) => {
            // The part of an archive is of no use. The next one overwrites it if it stays.
            let _ = std::fs::remove_file(&part);
            Err(ArchiveWriteError::Write { path: part, err })
        }
    }
}

fn check_hash(fields: &BankFields, lt_hash: &LtHash) -> Result<(), ArchiveWriteError> {
    let slot = fields.slot;
    let stated = fields.bank_hash;
    let found = fields.computed_hash(lt_hash);
    if found == stated {
        return Ok(());
    }
    Err(ArchiveWriteError::BankHash { slot, stated, found })
}

/// Writes the files of an archive. Returns the archive.
fn write_files(
    path: &Path,
    bank: &ArchivedBank,
    fields: &[u8],
    (storage_bytes, storage): (u64, impl Read),
) -> io::Result<File> {
    let slot = bank.fields.slot;
    let file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
    let mut archive = tar::Builder::new(Encoder::new(file, ZSTD_LEVEL)?);
    let empty = 0_u64.to_le_bytes();
    let status_cache = if bank.status_cache.is_empty() { &empty } else { &bank.status_cache[..] };
    for (name, bytes) in [
        ("version".to_owned(), VERSION),
        ("snapshots/status_cache".to_owned(), status_cache),
        (format!("snapshots/{slot}/{slot}"), fields),
    ] {
        archive.append_data(&mut header(bytes.len() as u64), name, bytes)?;
    }
    let name = format!("accounts/{slot}.{STORAGE_ID}");
    archive.append_data(&mut header(storage_bytes), name, storage)?;
    let file = archive.into_inner()?.finish()?;
    file.into_inner().map_err(|err| err.into_error())
}

fn header(bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o644);
    header
}

/// Bytes of an account in a storage file.
fn stored_len(account: &Account) -> usize {
    (HEAD + account.0.data().len()).next_multiple_of(8)
}

/// Accounts in the form of a storage file.
struct AccountsReader<I> {
    accounts: I,
    /// The account that is being read.
    buffer: Vec<u8>,
    position: usize,
}

impl<I: Iterator<Item = (Pubkey, Arc<Account>)>> Read for AccountsReader<I> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.position == self.buffer.len() {
            self.buffer.clear();
            self.position = 0;
            let Some((pubkey, account)) = self.accounts.next() else { return Ok(0) };
            put(&mut self.buffer, &pubkey, &account);
        }
        let rest = &self.buffer[self.position..];
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        self.position += len;
        Ok(len)
    }
}

/// Appends an account as a storage file has it.
fn put(file: &mut Vec<u8>, pubkey: &Pubkey, account: &Account) {
    let end = file.len() + stored_len(account);
    let Account(account) = account;
    file.extend([0; 8]); // write version, which is no longer used
    file.extend((account.data().len() as u64).to_le_bytes());
    file.extend(pubkey.as_array());
    file.extend(account.lamports().to_le_bytes());
    file.extend(account.rent_epoch().to_le_bytes());
    file.extend(account.owner().as_array());
    file.push(account.executable().into());
    file.extend([0; 7 + 32]); // alignment, unused hash
    file.extend(account.data());
    file.resize(end, 0);
}
