//! Loading: one thread unpacks, others parse and hash, the calling thread writes to the sink.
//!
//! In: archives. Out: accounts to an [`AccountSink`], and a [`Snapshot`] once they match all values
//! in the archives. Two bounded queues of batches connect the threads; a full queue blocks its
//! producer.
//! Bounds: in each queue [`BATCHES_PER_THREAD`] batches a thread, and one in progress, of 1 MiB, or
//! longer if one account (at most 10 MiB) is.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use lattice::LtHash;
use parking_lot::Mutex;
use solana_hash::Hash;

use crate::account_versions::{AccountSink, VersionResolver};
use crate::append_vec::{self, Batch, ParsedBatch};
use crate::archive::{Archive, Entry};
use crate::archive_name::ArchiveName;
use crate::bank_fields::{BankFields, StorageFile};
use crate::error::SnapshotError;
use crate::progress::Progress;
use crate::status_cache::StatusCache;

/// Batches for each parsing thread in each of the two queues.
const BATCHES_PER_THREAD: usize = 2;
/// The file of the status cache, before or after the accounts.
const STATUS_CACHE: &str = "snapshots/status_cache";
/// The only layout since 2020.
const VERSION: &[u8] = b"1.2.0";

/// A checked ledger state at one slot. Its accounts are in the sink.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The bank's fields: of the incremental archive, if there is one.
    pub bank: BankFields,
    /// Number of accounts.
    pub accounts_len: usize,
    /// Lamports in all of them; equal to the bank's capitalization.
    pub lamports: u64,
    /// The hash over all accounts, as in file names of archives.
    pub accounts_hash: Hash,
}

/// Loads a full archive, and optionally an incremental one based on it, into `sink`: one thread
/// unpacks, `threads` (at least one) parse and hash, and the calling thread writes.
///
/// Memory: besides the sink about 6 MiB for each thread, 8 bytes for each id of the sink, and about
/// 60 for each closed account of one archive.
/// Errors: the archive is truncated, altered, not an archive, or not based on the full one; each
/// has the position. Or the sink refuses accounts. The sink's content is valid only if this
/// succeeds: then the archives were read to their end and checked completely.
pub fn load(
    full: &Path,
    incremental: Option<&Path>,
    threads: usize,
    progress: &Progress,
    sink: &mut impl AccountSink,
) -> Result<Snapshot, SnapshotError> {
    let mut archive = Archive::open(full, progress)?;
    let mut incremental = incremental.map(|path| Archive::open(path, progress)).transpose()?;
    if ArchiveName::parse(archive.name()).is_some_and(|name| name.base.is_some()) {
        return Err(archive.unsupported("an incremental snapshot where a full one is needed"));
    }
    let mut bank = read_bank(&mut archive)?;
    let newer = incremental.as_mut().map(|archive| read_bank_on_top(archive, &bank)).transpose()?;
    sink.start(newer.as_ref().unwrap_or(&bank)).map_err(SnapshotError::AccountSink)?;
    let accounts = VersionResolver::new(sink);
    let mut loading = Loader { accounts, files: 0, threads: threads.max(1), progress };
    loading.load(&mut archive, &mut bank, None)?;
    let base = Some(bank.slot);
    let mut newest = bank;
    if let (Some(archive), Some(mut bank)) = (&mut incremental, newer) {
        loading.load(archive, &mut bank, base)?;
        newest = bank;
    }
    let VersionResolver { sum, len, .. } = loading.accounts;
    Ok(Snapshot {
        lamports: newest.capitalization,
        bank: newest,
        accounts_len: len,
        accounts_hash: Hash::new_from_array(sum.checksum()),
    })
}

/// Checks that a file starts as a snapshot archive does: the compression, and the tar header of its first file. It may be
/// truncated or damaged after that, which only [`load`] finds.
///
/// Cost: unpacks the first block, at most some megabytes.
/// Errors: the file cannot be read, or it is something else.
pub fn check_start(path: &Path) -> Result<(), SnapshotError> {
    let progress = Progress::default();
    let mut archive = Archive::open(path, &progress)?;
    match archive.next_file()? {
        Some(_) => Ok(()),
        None => Err(archive.unsupported("it contains no files")),
    }
}

/// The state of a ledger that an incremental archive is loaded on top of.
#[derive(Clone, Debug)]
pub struct LoadedState {
    /// The slot of its newest block.
    pub slot: u64,
    /// The hash over all accounts.
    pub lt_hash: LtHash,
    /// Number of accounts, or more.
    pub accounts_len: usize,
    /// Lamports in all accounts.
    pub lamports: u64,
}

/// Loads an incremental archive into `sink`, whose accounts are those of `state`. The archive's base may be any block of
/// the same chain up to that state: everything that was written after the base is in the archive.
///
/// Memory and errors: as [`load`]; or the archive's base is above the state, or its slot is not.
pub fn load_on_top(
    incremental: &Path,
    state: LoadedState,
    threads: usize,
    progress: &Progress,
    sink: &mut impl AccountSink,
) -> Result<Snapshot, SnapshotError> {
    let mut archive = Archive::open(incremental, progress)?;
    let mut bank = read_bank(&mut archive)?;
    let name = || archive.name().to_owned();
    // The base of a renamed file is not known: if it is above the state, storage files are missing.
    let base = ArchiveName::parse(archive.name()).and_then(|name| name.base).unwrap_or(state.slot);
    if base > state.slot {
        return Err(SnapshotError::AboveLedger { archive: name(), base, slot: state.slot });
    }
    if bank.slot <= state.slot {
        return Err(SnapshotError::NotNewer { archive: name(), of: bank.slot, slot: state.slot });
    }
    sink.start(&bank).map_err(SnapshotError::AccountSink)?;
    let LoadedState { lt_hash, accounts_len, lamports, .. } = state;
    let accounts = VersionResolver::on_top(sink, lt_hash, accounts_len, lamports.into());
    let mut loading = Loader { accounts, files: 0, threads: threads.max(1), progress };
    loading.load(&mut archive, &mut bank, Some(base))?;
    let VersionResolver { sum, len, .. } = loading.accounts;
    Ok(Snapshot {
        lamports: bank.capitalization,
        bank,
        accounts_len: len,
        accounts_hash: Hash::new_from_array(sum.checksum()),
    })
}

/// Reads the bank of an incremental archive and checks that it is based on the full one.
fn read_bank_on_top(
    archive: &mut Archive<'_>,
    full: &BankFields,
) -> Result<BankFields, SnapshotError> {
    let base_in_name = ArchiveName::parse(archive.name()).and_then(|name| name.base);
    let bank = read_bank(archive)?;
    let full = full.slot;
    // The base of a renamed file is not known: if it is above the full one, storage files are missing.
    let base = base_in_name.unwrap_or(full);
    if base != full {
        return Err(SnapshotError::NotOnTop { archive: archive.name().to_owned(), base, full });
    }
    if bank.slot <= full {
        return Err(archive.damaged(format!("of slot {}, on top of {full}", bank.slot)));
    }
    Ok(bank)
}

/// State for both archives.
struct Loader<'a, T> {
    accounts: VersionResolver<'a, T>,
    /// Number of storage files in the previous archives.
    files: u32,
    threads: usize,
    progress: &'a Progress,
}

impl<T: AccountSink> Loader<'_, T> {
    /// Loads one archive, which is full or on top of `base`, and checks the result.
    fn load(
        &mut self,
        archive: &mut Archive<'_>,
        bank: &mut BankFields,
        base: Option<u64>,
    ) -> Result<(), SnapshotError> {
        let files = Files::new(&bank.storages, self.files, base);
        if let Some(status_cache) = self.read_storages(archive, files)? {
            bank.status_cache = Arc::new(status_cache);
        }
        self.files += bank.storages.len() as u32; // a snapshot has at most 5,000,000
        self.accounts.forget_closed();
        self.check(archive, bank)
    }

    fn read_storages(
        &mut self,
        archive: &mut Archive<'_>,
        files: Files,
    ) -> Result<Option<StatusCache>, SnapshotError> {
        let capacity = self.threads * BATCHES_PER_THREAD;
        let (batch_sender, batch_receiver) = sync_channel(capacity);
        let (parsed_sender, parsed_receiver) = sync_channel(capacity);
        // Only the workers own it: once they have ended, sending fails.
        let batch_receiver = Arc::new(Mutex::new(batch_receiver));
        thread::scope(|scope| {
            let start = |name: &str| thread::Builder::new().name(name.into());
            for _ in 0..self.threads {
                let batches = Arc::clone(&batch_receiver);
                let parsed = parsed_sender.clone();
                let worker = start("parse").spawn_scoped(scope, move || parse(&batches, &parsed));
                worker.map_err(SnapshotError::Thread)?;
            }
            drop((batch_receiver, parsed_sender));
            let unpacker =
                start("unpack").spawn_scoped(scope, move || unpack(archive, files, &batch_sender));
            let unpacker = unpacker.map_err(SnapshotError::Thread)?;
            let applied = self.apply_batches(parsed_receiver);
            let unpacked = match unpacker.join() {
                Ok(unpacked) => unpacked,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            // An error of the sink is the cause; unpacking only ended because of it.
            applied.and(unpacked)
        })
    }

    /// Applies batches until there are no more. Nothing more is parsed after this has returned.
    fn apply_batches(
        &mut self,
        batches: Receiver<Result<ParsedBatch, SnapshotError>>,
    ) -> Result<(), SnapshotError> {
        for batch in batches {
            let batch = batch?;
            let written = batch.written;
            let bytes = batch.bytes;
            self.accounts.apply_batch(batch).map_err(SnapshotError::AccountSink)?;
            self.progress.record_accounts(written, bytes);
        }
        Ok(())
    }

    /// Compares the loaded accounts with the archive's own values.
    fn check(&self, archive: &Archive<'_>, bank: &BankFields) -> Result<(), SnapshotError> {
        let found = Hash::new_from_array(self.accounts.sum.checksum());
        let altered = |claimed_by, expected: &dyn std::fmt::Display| {
            let what = "the hash over all accounts";
            SnapshotError::checksum_mismatch(archive.name(), what, found, claimed_by, expected)
        };
        if *bank.lt_hash != self.accounts.sum {
            let written = Hash::new_from_array(bank.lt_hash.checksum());
            return Err(altered("the bank", &written));
        }
        if let Some(name) = ArchiveName::parse(archive.name())
            && name.hash != found.to_string()
        {
            return Err(altered("the file name", &name.hash));
        }
        let lamports = self.accounts.lamports;
        if lamports != u128::from(bank.capitalization) {
            return Err(archive.damaged(format!(
                "{lamports} lamports in all accounts, and the bank says {}",
                bank.capitalization
            )));
        }
        Ok(())
    }
}

/// The storage files that an archive may still contain.
struct Files {
    /// By slot, each with its number.
    listed: HashMap<u64, (u32, StorageFile)>,
    /// The bank of an incremental archive lists the files of its base too, and the archive does not contain them.
    base: Option<u64>,
}

impl Files {
    /// `before` is the number of files in other archives, all of older slots.
    fn new(storages: &HashMap<u64, StorageFile>, before: u32, base: Option<u64>) -> Self {
        let mut slots: Vec<u64> = storages.keys().copied().collect();
        slots.sort_unstable();
        let numbered = slots.into_iter().zip(before + 1..);
        let listed = numbered.map(|(slot, number)| (slot, (number, storages[&slot]))).collect();
        Self { listed, base }
    }

    /// Removes the file of a slot from the list. Returns it with its number.
    fn remove_listed(&mut self, slot: u64, id: u64) -> Option<(u32, StorageFile)> {
        self.listed.remove(&slot).filter(|(_, file)| file.id == id)
    }

    /// The files that should have been in the archive.
    fn missing(&self) -> impl Iterator<Item = (u64, StorageFile)> {
        let is_above_base = |slot: u64| self.base.is_none_or(|base| slot > base);
        let files = self.listed.iter().filter(move |(slot, _)| is_above_base(**slot));
        files.map(|(slot, (_, file))| (*slot, *file))
    }
}

/// Reads up to the bank's fields, which precede all accounts.
fn read_bank(archive: &mut Archive<'_>) -> Result<BankFields, SnapshotError> {
    let mut has_version = false;
    let mut status_cache = StatusCache::default();
    while let Some(entry) = archive.next_file()? {
        match entry.name.split('/').collect::<Vec<_>>().as_slice() {
            ["version"] => {
                check_version(archive, &entry)?;
                has_version = true;
            }
            ["snapshots", "status_cache"] => status_cache = StatusCache::read(archive)?,
            ["snapshots", slot, file] if slot == file && is_number(slot) => {
                if !has_version {
                    return Err(archive.unsupported("the bank's fields stand before the version"));
                }
                let mut bank = BankFields::read(archive)?;
                bank.status_cache = Arc::new(status_cache);
                let named = ArchiveName::parse(archive.name()).map(|name| name.slot);
                if *slot != bank.slot.to_string() || named.is_some_and(|named| named != bank.slot) {
                    let reason = format!("the bank is of slot {}", bank.slot);
                    return Err(archive.damaged_at(0, reason));
                }
                bank.check(archive)?;
                return Ok(bank);
            }
            ["accounts", file] if storage_name(file).is_some() => {
                return Err(archive.unsupported("accounts stand before the bank's fields"));
            }
            _ => return Err(archive.unsupported("no such file belongs here")),
        }
    }
    Err(archive.unsupported("there is no bank in it"))
}

fn check_version(archive: &mut Archive<'_>, entry: &Entry) -> Result<(), SnapshotError> {
    let mut version = Vec::new();
    archive.append(&mut version, entry.size.min(32) as usize)?;
    if version.trim_ascii() != VERSION {
        let version = String::from_utf8_lossy(&version).into_owned();
        return Err(archive.unsupported(format!("version {version:?}, not 1.2.0")));
    }
    Ok(())
}

/// Sends all accounts in the rest of the archive. Returns the status cache, if it is there. Returns early if the receivers have ended.
fn unpack(
    archive: &mut Archive<'_>,
    mut files: Files,
    batches: &SyncSender<Batch>,
) -> Result<Option<StatusCache>, SnapshotError> {
    // The base of a renamed archive is not known: it may be older, and then its files are in the archive.
    let base = ArchiveName::parse(archive.name()).and_then(|name| name.base);
    let mut status_cache = None;
    while let Some(entry) = archive.next_file()? {
        if entry.name == STATUS_CACHE {
            status_cache = Some(StatusCache::read(archive)?);
            continue;
        }
        let name = entry.name.strip_prefix("accounts/").and_then(storage_name);
        let Some((slot, id)) = name else {
            return Err(archive.unsupported("no such file belongs here"));
        };
        if base.is_some_and(|base| slot <= base) {
            return Err(archive.damaged("a storage file of the base"));
        }
        let Some((number, file)) = files.remove_listed(slot, id) else {
            return Err(archive.damaged("the bank lists no such file, or it stood here before"));
        };
        if entry.size < file.bytes {
            let reason = format!("{} bytes, and the bank says {}", entry.size, file.bytes);
            return Err(archive.damaged(reason));
        }
        let send = |batch| batches.send(batch).is_ok();
        if !append_vec::batches(archive, &entry.name, number, file.bytes, send)? {
            return Ok(None);
        }
    }
    match files.missing().min_by_key(|(slot, _)| *slot) {
        Some((slot, StorageFile { id, .. })) => {
            let left = files.missing().count();
            Err(archive.damaged(format!("{left} storage files are missing: accounts/{slot}.{id}")))
        }
        None => Ok(status_cache),
    }
}

/// A worker: parses batches until there are no more or the receiver has ended.
fn parse(
    batches: &Mutex<Receiver<Batch>>,
    parsed: &SyncSender<Result<ParsedBatch, SnapshotError>>,
) {
    loop {
        // One worker waits on the queue, the others wait for the lock.
        let Ok(batch) = batches.lock().recv() else { return };
        if parsed.send(batch.parse()).is_err() {
            return;
        }
    }
}

/// The slot and the id in `SLOT.ID`.
fn storage_name(file: &str) -> Option<(u64, u64)> {
    let (slot, id) = file.split_once('.')?;
    let number = |text: &str| is_number(text).then(|| text.parse().ok()).flatten();
    Some((number(slot)?, number(id)?))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
