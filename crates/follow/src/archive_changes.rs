//! The accounts that an archive changes in a ledger, which a jump to the archive's slot writes.
//!
//! In: the ledger's state at a block, and the accounts of an archive, as an [`AccountSink`]. An incremental archive has
//! what was written; of full archives, what is as in the ledger is left out, and what they do not have is closed. Out:
//! each account that differs, with its new state.
//! Bounds: [`ArchiveChanges::new`]'s `bytes_max` of accounts that differ, and an address for each; a bit for each
//! address of the ledger.
//! Invariant: the ledger is only read. The view pins its block, so an address that has a record there retains its id.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chain_solana::{Reader, View};
use ledger::{Address, AddressId};
use snapshot_solana::{AccountSink, AccountSinkError, BankFields};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;

/// Bytes of an account besides its data, here and as a write of the block that the ledger jumps to.
const ACCOUNT_BYTES: usize = 320;

/// An account after the jump; `None` if it is closed.
pub type AccountAfter = (Pubkey, Option<AccountSharedData>);

/// The archive changes more than a jump may hold in memory.
#[derive(Debug, thiserror::Error)]
#[error(
    "the archive changes {bytes} B of accounts or more, at most {limit} (follow.changes_bytes_max): start again from it"
)]
pub struct TooManyChanges {
    bytes: usize,
    limit: usize,
}

/// Collects what an archive changes.
pub struct ArchiveChanges {
    view: View,
    reader: Reader,
    /// Whether the archive has all accounts.
    is_full: bool,
    /// The states that differ from the ledger's.
    changes: HashMap<Pubkey, Option<AccountSharedData>>,
    /// Numbers of the addresses without a record in the ledger.
    numbers: HashMap<Pubkey, u32>,
    /// The records of the ledger that the archives had so far, by id.
    found: Vec<u64>,
    bytes: usize,
    bytes_max: usize,
    /// The bytes that are held, for metrics.
    gauge: Arc<AtomicU64>,
}

impl Drop for ArchiveChanges {
    fn drop(&mut self) {
        self.gauge.store(0, Ordering::Relaxed);
    }
}

impl ArchiveChanges {
    /// Of full archives, and incremental ones on top of them (`is_full`), or of an incremental one on top of the
    /// ledger. `gauge` shows the bytes that are held.
    pub fn new(
        view: View,
        reader: Reader,
        is_full: bool,
        bytes_max: usize,
        gauge: Arc<AtomicU64>,
    ) -> Self {
        Self {
            view,
            reader,
            is_full,
            changes: HashMap::default(),
            numbers: HashMap::default(),
            found: Vec::new(),
            bytes: 0,
            bytes_max,
            gauge,
        }
    }

    /// Returns the differences from the ledger after the archives were loaded.
    pub fn into_changes(mut self) -> Result<Vec<AccountAfter>, TooManyChanges> {
        if self.is_full {
            let gone: Vec<Pubkey> = self
                .view
                .all()
                .filter_map(|(address, _)| address.to_array().map(Pubkey::new_from_array))
                .filter(|pubkey| self.id(pubkey).is_some_and(|id| !self.is_found(id)))
                .collect();
            for pubkey in gone {
                self.insert(pubkey, None)?;
            }
        }
        let view = &self.view;
        let changes = std::mem::take(&mut self.changes);
        let is_change = |(pubkey, after): &AccountAfter| {
            let before = view.record(&Address::from(pubkey.to_bytes()));
            before.as_ref().map(|account| &account.0) != after.as_ref()
        };
        let mut changes: Vec<_> = changes.into_iter().filter(is_change).collect();
        changes.sort_unstable_by_key(|(pubkey, _)| *pubkey);
        Ok(changes)
    }

    /// The id of an address that has a record in the ledger.
    fn id(&self, pubkey: &Pubkey) -> Option<AddressId> {
        let address = Address::from(pubkey.to_bytes());
        self.view.record(&address)?;
        self.reader.addresses().lookup(&address)
    }

    fn is_found(&self, id: AddressId) -> bool {
        let at = id.0 as usize;
        self.found.get(at / 64).is_some_and(|bits| bits & (1 << (at % 64)) != 0)
    }

    fn set_found(&mut self, id: AddressId, is_found: bool) {
        let at = id.0 as usize;
        if self.found.len() <= at / 64 {
            self.found.resize(at / 64 + 1, 0);
        }
        let bit = 1 << (at % 64);
        if is_found {
            self.found[at / 64] |= bit;
        } else {
            self.found[at / 64] &= !bit;
        }
    }

    /// Numbers of addresses with a record are even, others odd.
    fn number(&mut self, pubkey: &Pubkey, id: Option<AddressId>) -> u32 {
        let next = (self.numbers.len() as u32).wrapping_mul(2) + 1;
        id.map_or_else(|| *self.numbers.entry(*pubkey).or_insert(next), |id| id.0.wrapping_mul(2))
    }

    fn insert(
        &mut self,
        pubkey: Pubkey,
        account: Option<AccountSharedData>,
    ) -> Result<(), TooManyChanges> {
        self.bytes += account_bytes(&account);
        if let Some(replaced) = self.changes.insert(pubkey, account) {
            self.bytes -= account_bytes(&replaced);
        }
        let bytes = self.bytes;
        let limit = self.bytes_max;
        if bytes > limit { Err(TooManyChanges { bytes, limit }) } else { Ok(()) }
    }

    fn remove(&mut self, pubkey: &Pubkey) {
        let removed = self.changes.remove(pubkey);
        self.bytes -= removed.map_or(0, |account| account_bytes(&account));
    }
}

fn account_bytes(account: &Option<AccountSharedData>) -> usize {
    ACCOUNT_BYTES + account.as_ref().map_or(0, |account| account.data().len())
}

impl AccountSink for ArchiveChanges {
    fn start(&mut self, _: &BankFields) -> Result<(), AccountSinkError> {
        Ok(())
    }

    fn id_of(&self, key: &Pubkey) -> Option<u32> {
        let known = self.numbers.get(key).copied();
        known.or_else(|| self.id(key).map(|id| id.0.wrapping_mul(2)))
    }

    fn account(&self, key: &Pubkey) -> Option<AccountSharedData> {
        if let Some(change) = self.changes.get(key) {
            return change.clone();
        }
        let is_loaded = !self.is_full || self.id(key).is_some_and(|id| self.is_found(id));
        let record = self.view.record(&Address::from(key.to_bytes())).filter(|_| is_loaded);
        record.map(|account| account.0.clone())
    }

    fn put(&mut self, changes: Vec<AccountAfter>) -> Result<Vec<u32>, AccountSinkError> {
        let mut numbers = Vec::with_capacity(changes.len());
        for (pubkey, account) in changes {
            let before = self.view.record(&Address::from(pubkey.to_bytes()));
            let id = before.as_ref().and_then(|_| self.id(&pubkey));
            numbers.push(self.number(&pubkey, id));
            if let Some(id) = id.filter(|_| self.is_full) {
                self.set_found(id, account.is_some());
            }
            if before.as_ref().map(|before| &before.0) == account.as_ref() {
                self.remove(&pubkey);
            } else {
                self.insert(pubkey, account)?;
            }
        }
        self.gauge.store(self.bytes as u64, Ordering::Relaxed);
        Ok(numbers)
    }
}
