//! A bank: at its start, and when it is whole.

use std::time::Instant;

use ledger::BlockId;
use solana::Entry;
use solana_pubkey::Pubkey;

use crate::account_writes::BankAccounts;
use crate::update::{BlockMeta, SourceId};

/// A bank that a source has started to send.
#[derive(Clone, Debug)]
pub struct OpenBank<A> {
    /// The id of the bank, which [`Bank::id`] repeats.
    pub id: BlockId,
    /// The SlotHashes sysvar as the bank wrote it last. Its newest slot is that of the parent.
    pub slot_hashes: A,
    /// The Clock sysvar as the bank wrote it last.
    pub clock: A,
}

/// A whole bank. Its parent was in an earlier event, or is the root.
#[derive(Clone, Debug)]
pub struct Bank<A, T, M> {
    /// The id. The version is that of no other bank of the feed.
    pub id: BlockId,
    /// The id of the parent.
    pub parent: BlockId,
    /// The source that completed it.
    pub source: SourceId,
    /// The accounts that no [`Event::Quiescent`](crate::Event::Quiescent) reported since their last write, each once,
    /// in no order.
    pub pending: Vec<Pubkey>,
    /// When its first update was received.
    pub first_received: Instant,
    /// When the update was received that completed it.
    pub completed: Instant,
    /// Each account once, with its last write, by address.
    pub accounts: BankAccounts<A>,
    /// All transactions of the block, by index.
    pub transactions: Vec<T>,
    /// All entries, by index; empty if the source did not send all of them.
    pub entries: Vec<Entry>,
    /// The properties of the frozen block.
    pub meta: BlockMeta<M>,
}
