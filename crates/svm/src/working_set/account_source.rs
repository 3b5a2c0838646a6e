//! The accounts from which a working set loads: those of a view, of the open block, or of a block after transactions
//! that it does not have yet.

#[cfg(test)]
use std::collections::HashMap;
use std::sync::Arc;

use chain_solana::{BlockInfo, View, WrittenAccounts};
use ledger::Address;
use solana::Account;
#[cfg(test)]
use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;

/// The accounts of a ledger as of one block.
pub trait AccountSource {
    /// Returns the account of `key`.
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>>;
}

impl AccountSource for View {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.record(&Address::from(key.to_bytes()))
    }
}

impl AccountSource for query::Ledger<Account, BlockInfo> {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.record(&Address::from(key.to_bytes()))
    }
}

/// The accounts of a ledger after transactions that it does not have yet.
pub struct Overlay<'a, S> {
    /// The accounts that these transactions wrote.
    pub written: &'a WrittenAccounts,
    /// The source of all other accounts.
    pub source: &'a S,
}

impl<S: AccountSource> AccountSource for Overlay<'_, S> {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.written.get(key).unwrap_or_else(|| self.source.account(key))
    }
}

#[cfg(test)]
impl AccountSource for HashMap<Pubkey, AccountSharedData> {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.get(key).map(|account| Arc::new(Account(account.clone())))
    }
}
