//! A whole bank: everything that a slot's block wrote and executed.

use std::collections::BTreeMap;
use std::time::Instant;

use ledger::{BlockId, Slot};
use solana::Entry;
use solana_pubkey::Pubkey;

use crate::assembly::OpenWrite;
use crate::update::{BlockMeta, SourceId};

/// The last write of an account in a bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountWrite<A> {
    /// The account's address.
    pub pubkey: Pubkey,
    /// Of the write, within the session.
    pub write_version: u64,
    /// The account.
    pub account: A,
}

/// The accounts that a bank has written, by address, each with its last write.
///
/// They are where they were while the bank was open: nothing is moved when it is awaited.
#[derive(Clone, Debug)]
pub struct BankAccounts<A>(pub(crate) BTreeMap<Pubkey, OpenWrite<A>>);

impl<A> BankAccounts<A> {
    /// Their number.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last write of an account.
    pub fn get(&self, pubkey: &Pubkey) -> Option<&AccountWrite<A>> {
        self.0.get(pubkey).map(|last| &last.write)
    }

    /// All of them, by address.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &AccountWrite<A>> {
        self.0.values().map(|last| &last.write)
    }

    /// All of them, by address.
    pub fn into_writes(self) -> impl ExactSizeIterator<Item = AccountWrite<A>> {
        self.0.into_values().map(|last| last.write)
    }
}

impl<A> Default for BankAccounts<A> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// The name of a bank while it is open ([`Feed::open_banks`](crate::Feed::open_banks)). No other bank of the feed has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenId {
    /// The source.
    pub source: SourceId,
    /// The slot.
    pub slot: Slot,
    pub(crate) number: u64,
}

/// A whole bank. Its parent was in an earlier event, or is the root.
#[derive(Clone, Debug)]
pub struct Bank<A, T, M> {
    /// The id. The version is that of no other bank of the feed.
    pub id: BlockId,
    /// The parent.
    pub parent: BlockId,
    /// The source that completed it.
    pub source: SourceId,
    /// Its name while it was open.
    pub open: OpenId,
    /// The accounts whose last write was not taken while it was open
    /// ([`Feed::take_settled`](crate::Feed::take_settled)), each once, in no order.
    pub unsettled: Vec<Pubkey>,
    /// When its first update was received.
    pub first_received: Instant,
    /// When the update was received that completed it.
    pub completed: Instant,
    /// Each account once, with its last write, by address.
    pub accounts: BankAccounts<A>,
    /// All transactions, by index.
    pub transactions: Vec<T>,
    /// All entries, by index; empty if the source did not send all of them.
    pub entries: Vec<Entry>,
    /// Its properties.
    pub meta: BlockMeta<M>,
}
