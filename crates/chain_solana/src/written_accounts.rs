//! Accounts that transactions wrote and that the ledger's state does not have, such as those of a bundle that is still
//! running.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::quality::RandomState;
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;

/// Accounts after some transactions, each with its last state.
#[derive(Clone, Debug, Default)]
pub struct WrittenAccounts {
    /// `None` if the account was removed.
    accounts: HashMap<Pubkey, Option<Arc<Account>>, RandomState>,
    bytes: u64,
}

impl WrittenAccounts {
    /// Adds the state of an account. One without lamports was removed.
    pub fn insert(&mut self, key: Pubkey, account: &AccountSharedData) {
        self.bytes += account.data().len() as u64;
        let account = (account.lamports() > 0).then(|| Arc::new(Account(account.clone())));
        if let Some(Some(before)) = self.accounts.insert(key, account) {
            self.bytes = self.bytes.saturating_sub(before.0.data().len() as u64);
        }
    }

    /// Returns an account that was written: `Some(None)` if it was removed. `None` if it was not written.
    pub fn get(&self, key: &Pubkey) -> Option<Option<Arc<Account>>> {
        self.accounts.get(key).cloned()
    }

    /// Iterates over the addresses that were written.
    pub fn keys(&self) -> impl Iterator<Item = &Pubkey> {
        self.accounts.keys()
    }

    /// Returns the bytes of data of these accounts.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_state_replaces_an_earlier_one() {
        let key = Pubkey::new_from_array([1; 32]);
        let owner = Pubkey::default();
        let mut written = WrittenAccounts::default();
        assert!(written.get(&key).is_none());
        written.insert(key, &AccountSharedData::new(5, 100, &owner));
        written.insert(key, &AccountSharedData::new(7, 30, &owner));
        let lamports = written.get(&key).flatten().map(|account| account.0.lamports());
        assert_eq!((lamports, written.bytes(), written.keys().count()), (Some(7), 30, 1));
        written.insert(key, &AccountSharedData::new(0, 0, &owner));
        assert!(matches!(written.get(&key), Some(None)));
        assert_eq!(written.bytes(), 0);
    }
}
