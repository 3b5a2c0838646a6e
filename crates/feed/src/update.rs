//! One update of a source's stream.

use ledger::Slot;
use solana::Entry;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

/// One session of a stream. Write versions and bank ids have a meaning within one session only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u64);

/// An update of a source about one slot.
#[derive(Clone, Debug)]
pub struct Update<A, T, M> {
    /// The session that received the update.
    pub source: SourceId,
    /// The slot that the update is about.
    pub slot: Slot,
    /// The name of the bank within the session, if the source names its banks.
    pub bank_id: Option<u64>,
    /// Bytes that the update makes the receiver hold.
    pub bytes: usize,
    /// The kind of the update, with its content.
    pub kind: UpdateKind<A, T, M>,
}

/// The kinds of updates, with their contents.
#[derive(Clone, Debug)]
pub enum UpdateKind<A, T, M> {
    /// A write of an account by the bank.
    Account {
        /// Address of the written account.
        pubkey: Pubkey,
        /// Rises with each write of the session.
        write_version: u64,
        /// State of the account after the write.
        account: A,
    },
    /// A transaction that the bank executed.
    Transaction {
        /// Index of the transaction in the block.
        index: u64,
        /// The transaction with its result.
        transaction: T,
    },
    /// An entry of Proof of History.
    Entry {
        /// Index of the entry in the block.
        index: u64,
        /// The entry of Proof of History.
        entry: Entry,
    },
    /// The properties of a frozen block.
    BlockMeta(BlockMeta<M>),
    /// A new status of the slot.
    Status(SlotStatus),
}

/// The properties of a frozen block.
#[derive(Clone, Debug)]
pub struct BlockMeta<M> {
    /// Slot of the parent block.
    pub parent_slot: Slot,
    /// The blockhash of the parent.
    pub parent_blockhash: Hash,
    /// Blockhash of the block.
    pub blockhash: Hash,
    /// Number of transactions that were executed, votes and failed ones included.
    pub executed_transaction_count: u64,
    /// Number of entries that the source sends of the bank. 0 if it sends none, or if they are not requested.
    pub entries_count: u64,
    /// Properties that the feed does not read.
    pub meta: M,
}

/// A status of a slot, as its source reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotStatus {
    /// A bank was made for the slot. A second one replaces the first.
    CreatedBank,
    /// A bank of the slot is frozen. It may be on any fork.
    Processed,
    /// More than two thirds of the stake voted for the bank.
    Confirmed,
    /// The bank is a root of the source.
    Finalized,
    /// The bank is invalid and was discarded.
    Dead {
        /// The broken rule, as the source names it.
        error: String,
    },
}
