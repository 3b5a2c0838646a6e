//! Loads accounts into the root of a ledger in chunks, before its first publication.
//!
//! Bounds: [`CHUNK_MAX`] accounts are buffered.
//! Cost: each account is hashed once, for the sum over all of them. A snapshot brings its own sum, which was verified.

use std::collections::HashMap;
use std::sync::Arc;

use chain_solana::{BlockInfo, Reader};
use lattice::LtHash;
use ledger::{Address, AddressId, BlockId, Change};
use query::{Ledger, LedgerConfig, LedgerError, LedgerUsage};
use solana::{Account, lt_hash};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;
use svm::{AccountSource, Vm};

use crate::error::GenesisError;

/// Lamports of a new ledger at most. A `u64` still holds twice as many, after inflation.
const LAMPORTS_MAX: u64 = u64::MAX / 2;
/// Accounts of one chunk.
const CHUNK_MAX: usize = 4_096;

/// A ledger that is being loaded.
pub(crate) struct BulkLoader {
    ledger: Ledger<Account, BlockInfo>,
    reader: Reader,
    root: BlockId,
    bank: Arc<BlockInfo>,
    pending: Vec<Change<Account>>,
    /// Lamports of all accounts that were [`Self::add`]ed. The sum may exceed a `u64`.
    lamports: u128,
    /// The lattice hash over all accounts, except those that only [`Self::put`] wrote.
    lt_hash: LtHash,
}

impl AccountSource for BulkLoader {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.ledger.account(key)
    }
}

impl BulkLoader {
    /// An empty ledger whose root is the block of `bank`. [`Self::finish`] replaces the bank.
    pub(crate) fn new(config: LedgerConfig, bank: BlockInfo) -> Self {
        let (root, bank) = (bank.block, Arc::new(bank));
        let (ledger, reader) = Ledger::new(config, root, Arc::clone(&bank));
        Self {
            ledger,
            reader,
            root,
            bank,
            pending: Vec::new(),
            lamports: 0,
            lt_hash: LtHash::EMPTY,
        }
    }

    /// Adds an account that is not in the ledger, with the next chunk.
    pub(crate) fn add(&mut self, key: Pubkey, account: Account) -> Result<(), LedgerError> {
        self.lamports += u128::from(account.0.lamports());
        self.lt_hash.mix_in(&lt_hash(&key, &account.0));
        self.pending.push(change(key, account));
        if self.pending.len() >= CHUNK_MAX { self.flush() } else { Ok(()) }
    }

    /// Writes accounts at once, each at most once. `None` removes an account. Returns their ids. The sums stay as they
    /// are.
    pub(crate) fn put(
        &mut self,
        accounts: impl Iterator<Item = (Pubkey, Option<AccountSharedData>)>,
    ) -> Result<Vec<AddressId>, LedgerError> {
        let changes = accounts.map(|(key, account)| match account {
            Some(account) => change(key, Account(account)),
            None => Change { address: Address::from(key.to_bytes()), record: None },
        });
        self.ledger.apply(self.root, changes.collect(), Arc::clone(&self.bank))
    }

    /// The id of an address in the ledger's table: that of an account or of an index key.
    pub(crate) fn number(&self, key: &Pubkey) -> Option<AddressId> {
        self.reader.addresses().lookup(&Address::from(key.to_bytes()))
    }

    /// Memory usage of the ledger.
    pub(crate) fn usage(&self) -> LedgerUsage {
        self.ledger.usage()
    }

    /// Replaces accounts by those of a VM. Returns the lamports gained and lost.
    pub(crate) fn replace(&mut self, vm: &Vm, keys: &[Pubkey]) -> Result<(u64, u64), LedgerError> {
        self.flush()?;
        let after = || keys.iter().filter_map(|key| Some((*key, vm.account(key)?)));
        after().for_each(|(key, account)| self.rehash(&key, account));
        let before = keys.iter().filter_map(|key| self.ledger.account(key));
        let lost = before.map(|account| account.0.lamports()).fold(0, u64::saturating_add);
        let gained = after().map(|(_, account)| account.lamports()).fold(0, u64::saturating_add);
        self.put(after().map(|(key, account)| (key, Some(account.clone()))))?;
        Ok((gained, lost))
    }

    /// Writes accounts at once and replaces existing ones. An account without lamports removes one.
    pub(crate) fn put_over(
        &mut self,
        accounts: HashMap<Pubkey, AccountSharedData>,
    ) -> Result<(), LedgerError> {
        self.flush()?;
        for (key, account) in &accounts {
            let before = self.ledger.account(key).map_or(0, |account| account.0.lamports());
            // The account before was counted.
            self.lamports += u128::from(account.lamports());
            self.lamports = self.lamports.saturating_sub(u128::from(before));
            self.rehash(key, account);
        }
        let is_there = |account: &AccountSharedData| account.lamports() > 0;
        self.put(accounts.into_iter().map(|(key, it)| (key, Some(it).filter(is_there))))?;
        Ok(())
    }

    /// Accounts of the VM that the ledger lacks: builtin programs that another node did not have.
    pub(crate) fn missing_accounts(&mut self, vm: &Vm) -> Result<Vec<Pubkey>, LedgerError> {
        self.flush()?;
        let keys = vm.accounts().map(|(key, _)| *key);
        Ok(keys.filter(|key| self.ledger.account(key).is_none()).collect())
    }

    /// The ledger with all accounts so far.
    pub(crate) fn ledger(&mut self) -> Result<&Ledger<Account, BlockInfo>, LedgerError> {
        self.flush()?;
        Ok(&self.ledger)
    }

    /// Lamports of all accounts that were added.
    pub(crate) fn lamports(&self) -> u64 {
        u64::try_from(self.lamports).unwrap_or(u64::MAX)
    }

    /// Fails if the accounts have more than [`LAMPORTS_MAX`] lamports together.
    pub(crate) fn check_lamports(&self) -> Result<(), GenesisError> {
        let (lamports, max) = (self.lamports, LAMPORTS_MAX);
        if lamports > u128::from(max) {
            return Err(GenesisError::Lamports { lamports, max });
        }
        Ok(())
    }

    /// The lattice hash over all accounts.
    pub(crate) fn lt_hash(&self) -> &LtHash {
        &self.lt_hash
    }

    /// Sets the lattice hash over all accounts so far.
    pub(crate) fn set_lt_hash(&mut self, lt_hash: LtHash) {
        self.lt_hash = lt_hash;
    }

    /// Sets the sum of lamports of all accounts so far.
    pub(crate) fn set_lamports(&mut self, lamports: u64) {
        self.lamports = lamports.into();
    }

    /// Finishes loading and publishes everything to readers.
    pub(crate) fn finish(
        mut self,
        bank: BlockInfo,
    ) -> Result<(Ledger<Account, BlockInfo>, Reader), LedgerError> {
        self.flush()?;
        self.ledger.apply(self.root, Vec::new(), Arc::new(bank))?;
        self.ledger.publish();
        Ok((self.ledger, self.reader))
    }

    /// Replaces an account in the lattice hash. The ledger still has the old one.
    fn rehash(&mut self, key: &Pubkey, account: &AccountSharedData) {
        if let Some(before) = self.ledger.account(key) {
            self.lt_hash.mix_out(&lt_hash(key, &before.0));
        }
        self.lt_hash.mix_in(&lt_hash(key, account));
    }

    fn flush(&mut self) -> Result<(), LedgerError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        self.ledger.apply(self.root, pending, Arc::clone(&self.bank)).map(|_| ())
    }
}

fn change(key: Pubkey, account: Account) -> Change<Account> {
    Change { address: Address::from(key.to_bytes()), record: account.into_record() }
}
