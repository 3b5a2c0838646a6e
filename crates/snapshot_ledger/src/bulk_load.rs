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

/// Accounts of one chunk.
const CHUNK_MAX: usize = 4_096;

/// A ledger that is being loaded.
pub struct BulkLoader {
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

impl BulkLoader {
    /// An empty ledger whose root is the block of `bank`. [`Self::finish`] replaces the bank.
    pub fn new(config: LedgerConfig, bank: BlockInfo) -> Self {
        let root = bank.block;
        let bank = Arc::new(bank);
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

    /// An account that was written. Those that [`Self::add`] has buffered are not found.
    pub fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.ledger.record(&Address::from(key.to_bytes()))
    }

    /// Adds an account that is not in the ledger, with the next chunk.
    pub fn add(&mut self, key: Pubkey, account: Account) -> Result<(), LedgerError> {
        self.lamports += u128::from(account.0.lamports());
        self.lt_hash.mix_in(&lt_hash(&key, &account.0));
        self.pending.push(change(key, account));
        if self.pending.len() >= CHUNK_MAX { self.flush() } else { Ok(()) }
    }

    /// Writes accounts at once, each at most once. `None` removes an account. Returns their ids. The sums stay as they
    /// are.
    pub fn put(
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
    pub fn number(&self, key: &Pubkey) -> Option<AddressId> {
        self.reader.addresses().lookup(&Address::from(key.to_bytes()))
    }

    /// Memory usage of the ledger.
    pub fn usage(&self) -> LedgerUsage {
        self.ledger.usage()
    }

    /// Replaces accounts. Returns the lamports gained and lost.
    pub fn replace(
        &mut self,
        accounts: Vec<(Pubkey, AccountSharedData)>,
    ) -> Result<(u64, u64), LedgerError> {
        self.flush()?;
        accounts.iter().for_each(|(key, account)| self.rehash(key, account));
        let before = accounts.iter().filter_map(|(key, _)| self.account(key));
        let lost = before.map(|account| account.0.lamports()).fold(0, u64::saturating_add);
        let after = accounts.iter().map(|(_, account)| account.lamports());
        let gained = after.fold(0, u64::saturating_add);
        self.put(accounts.into_iter().map(|(key, account)| (key, Some(account))))?;
        Ok((gained, lost))
    }

    /// Writes accounts at once and replaces existing ones. An account without lamports removes one.
    pub fn put_over(
        &mut self,
        accounts: HashMap<Pubkey, AccountSharedData>,
    ) -> Result<(), LedgerError> {
        self.flush()?;
        for (key, account) in &accounts {
            let before = self.account(key).map_or(0, |account| account.0.lamports());
            // The account before was counted.
            self.lamports += u128::from(account.lamports());
            self.lamports = self.lamports.saturating_sub(u128::from(before));
            self.rehash(key, account);
        }
        let is_there = |account: &AccountSharedData| account.lamports() > 0;
        self.put(accounts.into_iter().map(|(key, it)| (key, Some(it).filter(is_there))))?;
        Ok(())
    }

    /// The ledger with all accounts so far.
    pub fn ledger(&mut self) -> Result<&Ledger<Account, BlockInfo>, LedgerError> {
        self.flush()?;
        Ok(&self.ledger)
    }

    /// Lamports of all accounts that were added. The sum may exceed a `u64`.
    pub fn lamports(&self) -> u128 {
        self.lamports
    }

    /// The lattice hash over all accounts.
    pub fn lt_hash(&self) -> &LtHash {
        &self.lt_hash
    }

    /// Sets the lattice hash over all accounts so far.
    pub fn set_lt_hash(&mut self, lt_hash: LtHash) {
        self.lt_hash = lt_hash;
    }

    /// Sets the sum of lamports of all accounts so far.
    pub fn set_lamports(&mut self, lamports: u64) {
        self.lamports = lamports.into();
    }

    /// Finishes loading and publishes everything to readers.
    pub fn finish(
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
        if let Some(before) = self.account(key) {
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
