//! Loading: one thread unpacks, the others parse, hash and keep.
//!
//! In: archives. Out: a [`Snapshot`] that was compared with everything the archives say of
//! themselves. Between the threads is one bounded queue of batches; a full one makes unpacking wait.
//! Bounds: [`BATCHES_PER_THREAD`] waiting batches and one in work for each thread, of 1 MiB, or as long
//! as the account (at most 10 MiB) that makes it longer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

use crate::accounts::Accounts;
use crate::archive::{Archive, Entry};
use crate::bank::BankFields;
use crate::error::SnapshotError;
use crate::lattice::LatticeHash;
use crate::name::ArchiveName;
use crate::progress::Progress;
use crate::storage::{self, Batch};

/// Batches that may wait, for each thread that takes them.
const BATCHES_PER_THREAD: usize = 2;
/// The only layout there is since 2020.
const VERSION: &[u8] = b"1.2.0";

/// A ledger's state as of one slot, checked.
pub struct Snapshot {
    /// What the bank says: of the incremental archive, if there is one.
    pub bank: BankFields,
    /// How many accounts there are.
    pub accounts_len: usize,
    /// Lamports in all of them; equal to the bank's capitalization.
    pub lamports: u64,
    /// The hash over all accounts, as file names of archives have it.
    pub accounts_hash: Hash,
    pub(crate) accounts: Accounts,
}

impl Snapshot {
    /// The accounts, in no order, each once. Memory is let go as they are taken.
    pub fn into_accounts(self) -> impl Iterator<Item = (Pubkey, AccountSharedData)> {
        self.accounts.into_iter()
    }

    /// Lets `see` look at every account, in no order.
    pub fn each_account(&self, see: impl FnMut(&Pubkey, &AccountSharedData)) {
        self.accounts.each(see);
    }
}

/// Loads a full archive, and an incremental one on top of it if there is one, with `threads` threads
/// (at least one) beside the calling one, which unpacks.
///
/// Memory: the accounts, and a few MiB for each thread.
/// Errors: the archive is truncated, altered, not an archive, or not on top of the full one; each says
/// where. Nothing is returned of an archive that was not read to its end and checked whole.
pub fn load(
    full: &Path,
    incremental: Option<&Path>,
    threads: usize,
    progress: &Progress,
) -> Result<Snapshot, SnapshotError> {
    let mut archive = Archive::open(full, progress)?;
    let incremental = incremental.map(|path| Archive::open(path, progress)).transpose()?;
    let mut loading = Loading {
        accounts: Accounts::new(),
        sum: LatticeHash::EMPTY,
        threads: threads.max(1),
        progress,
    };
    if ArchiveName::parse(archive.name()).is_some_and(|name| name.base.is_some()) {
        return Err(archive.foreign("an incremental snapshot where a full one is needed"));
    }
    let (mut bank, mut lamports) = loading.load(&mut archive, None)?;
    if let Some(mut archive) = incremental {
        (bank, lamports) = loading.load(&mut archive, Some(bank.slot))?;
    }
    let Loading { mut accounts, sum, .. } = loading;
    Ok(Snapshot {
        bank,
        accounts_len: accounts.len(),
        lamports,
        accounts_hash: sum.checksum(),
        accounts,
    })
}

/// What is common to both archives.
struct Loading<'a> {
    accounts: Accounts,
    /// The hash over the accounts kept.
    sum: LatticeHash,
    threads: usize,
    progress: &'a Progress,
}

/// How a worker tells that it is no use going on.
#[derive(Default)]
struct Failure {
    is_set: AtomicBool,
    first: Mutex<Option<SnapshotError>>,
}

impl Loading<'_> {
    /// Takes one archive in, and checks what there is then.
    fn load(
        &mut self,
        archive: &mut Archive<'_>,
        base: Option<u64>,
    ) -> Result<(BankFields, u64), SnapshotError> {
        let name = ArchiveName::parse(archive.name());
        let bank = read_bank(archive)?;
        if let Some(full) = base {
            let lowest = bank.storages.keys().min().copied().unwrap_or(u64::MAX);
            let said = name.as_ref().and_then(|name| name.base);
            // Under another name, its oldest account tells: everything in it came after the base.
            let base = said.unwrap_or_else(|| full.min(lowest.saturating_sub(1)));
            if base != full {
                let archive = archive.name().to_owned();
                return Err(SnapshotError::NotOnTop { archive, base, full });
            }
            if bank.slot <= full || lowest <= full {
                let (slot, oldest) = (bank.slot, lowest.min(bank.slot));
                let reason = format!("of slot {slot} with accounts of {oldest}, on top of {full}");
                return Err(archive.damaged(reason));
            }
        }
        self.read_storages(archive, &bank)?;
        self.accounts.forget_closed();
        let lamports = self.check(archive, &bank, name.as_ref())?;
        Ok((bank, lamports))
    }

    fn read_storages(
        &mut self,
        archive: &mut Archive<'_>,
        bank: &BankFields,
    ) -> Result<(), SnapshotError> {
        let failure = Failure::default();
        let (sender, receiver) = sync_channel(self.threads * BATCHES_PER_THREAD);
        // Owned by the workers alone: once they are gone, sending fails.
        let receiver = Arc::new(Mutex::new(receiver));
        let (accounts, progress) = (&self.accounts, self.progress);
        let sums = thread::scope(|scope| {
            let mut workers = Vec::new();
            for _ in 0..self.threads {
                let (receiver, failure) = (Arc::clone(&receiver), &failure);
                let work = move || keep(&receiver, accounts, progress, failure);
                let worker = thread::Builder::new().name("snapshot".into());
                workers.push(worker.spawn_scoped(scope, work).map_err(SnapshotError::Thread)?);
            }
            drop(receiver);
            let unpacked = unpack(archive, bank, &sender, &failure);
            drop(sender);
            let sums: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            unpacked.map(|()| sums)
        });
        if let Some(err) = failure.first.into_inner() {
            return Err(err);
        }
        for sum in sums? {
            match sum {
                Ok(sum) => self.sum.add(&sum),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    }

    /// Compares what was read with what the archive says of it; gives the lamports in it.
    fn check(
        &mut self,
        archive: &Archive<'_>,
        bank: &BankFields,
        name: Option<&ArchiveName>,
    ) -> Result<u64, SnapshotError> {
        let found = self.sum.checksum();
        let altered = |says, expected: &dyn std::fmt::Display| {
            let what = "the hash over all accounts";
            SnapshotError::altered(archive.name(), what, found, says, expected)
        };
        let written = bank.accounts_hash.hash();
        if written != self.sum {
            return Err(altered("the bank", &written.checksum()));
        }
        if let Some(name) = name
            && name.hash != found.to_string()
        {
            return Err(altered("the file name", &name.hash));
        }
        let lamports = self.accounts.lamports();
        if lamports != u128::from(bank.capitalization) {
            return Err(archive.damaged(format!(
                "{lamports} lamports in all accounts, and the bank says {}",
                bank.capitalization
            )));
        }
        Ok(bank.capitalization)
    }
}

/// Reads up to the bank's fields, which stand before all accounts.
fn read_bank(archive: &mut Archive<'_>) -> Result<BankFields, SnapshotError> {
    let mut has_version = false;
    while let Some(entry) = archive.next_file()? {
        match entry.name.split('/').collect::<Vec<_>>().as_slice() {
            ["version"] => {
                check_version(archive, &entry)?;
                has_version = true;
            }
            ["snapshots", "status_cache"] => {}
            ["snapshots", slot, file] if slot == file && is_number(slot) => {
                if !has_version {
                    return Err(archive.foreign("the bank's fields stand before the version"));
                }
                let bank = BankFields::read(archive)?;
                let named = ArchiveName::parse(archive.name()).map(|name| name.slot);
                if *slot != bank.slot.to_string() || named.is_some_and(|named| named != bank.slot) {
                    let reason = format!("the bank is of slot {}", bank.slot);
                    return Err(archive.damaged_at(0, reason));
                }
                bank.check(archive)?;
                return Ok(bank);
            }
            ["accounts", file] if storage_name(file).is_some() => {
                return Err(archive.foreign("accounts stand before the bank's fields"));
            }
            _ => return Err(archive.foreign("no such file belongs here")),
        }
    }
    Err(archive.foreign("there is no bank in it"))
}

fn check_version(archive: &mut Archive<'_>, entry: &Entry) -> Result<(), SnapshotError> {
    let mut version = Vec::new();
    archive.append(&mut version, entry.size.min(32) as usize)?;
    if version.trim_ascii() != VERSION {
        let version = String::from_utf8_lossy(&version).into_owned();
        return Err(archive.foreign(format!("version {version:?}, not 1.2.0")));
    }
    Ok(())
}

/// Sends every account of the rest of the archive; returns early if the workers gave up.
fn unpack(
    archive: &mut Archive<'_>,
    bank: &BankFields,
    batches: &SyncSender<Batch>,
    failure: &Failure,
) -> Result<(), SnapshotError> {
    let mut missing = bank.storages.clone();
    while let Some(entry) = archive.next_file()? {
        if entry.name == "snapshots/status_cache" {
            continue;
        }
        let name = entry.name.strip_prefix("accounts/").and_then(storage_name);
        let Some((slot, id)) = name else {
            return Err(archive.foreign("no such file belongs here"));
        };
        let file = missing.remove(&slot).filter(|file| file.id == id);
        let Some(file) = file else {
            return Err(archive.damaged("the bank lists no such file, or it stood here before"));
        };
        if entry.size < file.bytes {
            let reason = format!("{} bytes, and the bank says {}", entry.size, file.bytes);
            return Err(archive.damaged(reason));
        }
        let send = |batch| !failure.is_set.load(Ordering::Relaxed) && batches.send(batch).is_ok();
        if !storage::batches(archive, &entry.name, slot, file.bytes, send)? {
            return Ok(()); // the workers tell why
        }
    }
    match missing.iter().next() {
        Some((slot, file)) => {
            let (left, id) = (missing.len(), file.id);
            Err(archive.damaged(format!("{left} storage files are missing: accounts/{slot}.{id}")))
        }
        None => Ok(()),
    }
}

/// A worker: takes batches until there are no more. Gives the hash over what it changed.
fn keep(
    batches: &Mutex<Receiver<Batch>>,
    accounts: &Accounts,
    progress: &Progress,
    failure: &Failure,
) -> LatticeHash {
    let mut sum = LatticeHash::EMPTY;
    loop {
        // One waits at the queue, the others for their turn at it.
        let Ok(batch) = batches.lock().recv() else { return sum };
        let mut count = 0;
        for stored in batch.accounts() {
            match stored {
                Ok(stored) => accounts.put(batch.slot, stored, &mut sum),
                Err(err) => {
                    failure.first.lock().get_or_insert(err);
                    failure.is_set.store(true, Ordering::Relaxed);
                    return sum;
                }
            }
            count += 1;
        }
        progress.took(count, batch.len());
    }
}

/// The slot and the number in `SLOT.ID`.
fn storage_name(file: &str) -> Option<(u64, u64)> {
    let (slot, id) = file.split_once('.')?;
    let number = |text: &str| is_number(text).then(|| text.parse().ok()).flatten();
    Some((number(slot)?, number(id)?))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
