//! A whole bank: everything that a slot's block wrote and executed.

use std::time::Instant;

use ledger::{BlockId, Slot};
use solana::Entry;
use solana_pubkey::Pubkey;

use crate::account_writes::BankAccounts;
use crate::update::{BlockMeta, SourceId};

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
    /// The accounts whose last write was not drained while the bank was open
    /// ([`Feed::drain_quiescent`](crate::Feed::drain_quiescent)), each once, in no order.
    pub pending: Vec<Pubkey>,
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
