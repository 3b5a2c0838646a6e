//! A whole bank: everything that a slot's block wrote and executed.

use std::time::Instant;

use ledger::BlockId;
use solana::Entry;
use solana_pubkey::Pubkey;

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

/// A whole bank. Its parent was in an earlier event, or is the root.
#[derive(Clone, Debug)]
pub struct Bank<A, T, M> {
    /// The id. The version rises with each bank of the feed.
    pub id: BlockId,
    /// The parent.
    pub parent: BlockId,
    /// The source that completed it.
    pub source: SourceId,
    /// When its first update was received.
    pub first_received: Instant,
    /// When the update was received that completed it.
    pub completed: Instant,
    /// Each account once, with its last write, by address.
    pub accounts: Vec<AccountWrite<A>>,
    /// All transactions, by index.
    pub transactions: Vec<T>,
    /// All entries, by index; empty if the source did not send all of them.
    pub entries: Vec<Entry>,
    /// Its properties.
    pub meta: BlockMeta<M>,
}
