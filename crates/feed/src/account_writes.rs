//! The writes of accounts, in an open bank and in a whole one.

use std::collections::BTreeMap;

use solana_pubkey::Pubkey;

/// The last write of an account in a bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWrite<A> {
    /// Address of the written account.
    pub pubkey: Pubkey,
    /// Of the write, within the session.
    pub write_version: u64,
    /// State of the account after the write.
    pub account: A,
}

/// The last write of an account in an open bank.
#[derive(Clone, Debug)]
pub(crate) struct OpenWrite<A> {
    pub(crate) write: LastWrite<A>,
    pub(crate) bytes: usize,
    /// The bank's writes before it.
    pub(crate) written_at: u64,
    pub(crate) is_pending: bool,
    /// Whether the bank has written the account before.
    pub(crate) is_again: bool,
}

/// The accounts that a bank has written, by address, each with its last write.
///
/// They are where they were while the bank was open: nothing is moved when it is awaited.
#[derive(Clone, Debug)]
pub struct BankAccounts<A>(pub(crate) BTreeMap<Pubkey, OpenWrite<A>>);

impl<A> BankAccounts<A> {
    /// Returns the number of written accounts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the bank has written no account.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the last write of an account.
    pub fn get(&self, pubkey: &Pubkey) -> Option<&LastWrite<A>> {
        self.0.get(pubkey).map(|last| &last.write)
    }

    /// Returns the last write of each account, by address.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &LastWrite<A>> {
        self.0.values().map(|last| &last.write)
    }

    /// Consumes the accounts and returns the last write of each one, by address.
    pub fn into_writes(self) -> impl ExactSizeIterator<Item = LastWrite<A>> {
        self.0.into_values().map(|last| last.write)
    }
}

impl<A> Default for BankAccounts<A> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}
