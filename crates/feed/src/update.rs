//! What a source says: one update of a stream.

use ledger::Slot;
use solana::Entry;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

/// One session of a stream. Write versions and bank ids have a meaning within one session only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u64);

/// One update of a source.
#[derive(Clone, Debug)]
pub struct Update<A, T, M> {
    /// The source.
    pub source: SourceId,
    /// The slot.
    pub slot: Slot,
    /// The name of the bank within the session, if the source names its banks.
    pub bank_id: Option<u64>,
    /// Bytes that the update makes the receiver hold.
    pub bytes: usize,
    /// The content.
    pub kind: UpdateKind<A, T, M>,
}

/// The content of an update.
#[derive(Clone, Debug)]
pub enum UpdateKind<A, T, M> {
    /// An account after a write.
    Account {
        /// The account's address.
        pubkey: Pubkey,
        /// Rises with each write of the session.
        write_version: u64,
        /// The account.
        account: A,
    },
    /// An executed transaction.
    Transaction {
        /// Its index in the block.
        index: u64,
        /// The transaction.
        transaction: T,
    },
    /// A link of Proof of History.
    Entry {
        /// Its index in the block.
        index: u64,
        /// The link.
        entry: Entry,
    },
    /// The properties of a frozen block.
    BlockMeta(BlockMeta<M>),
    /// A status of the slot.
    Status(SlotStatus),
}

/// The properties of a frozen block.
#[derive(Clone, Debug)]
pub struct BlockMeta<M> {
    /// The slot of the parent.
    pub parent_slot: Slot,
    /// The blockhash of the parent.
    pub parent_blockhash: Hash,
    /// The blockhash.
    pub blockhash: Hash,
    /// Number of transactions that were executed, votes and failed ones included.
    pub executed_transaction_count: u64,
    /// Number of entries that the source sends of the bank. 0 if it sends none, or if they are not requested.
    pub entries_count: u64,
    /// The other properties.
    pub meta: M,
}

/// A status of a slot.
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
    /// The bank broke a rule.
    Dead {
        /// The broken rule.
        error: String,
    },
}
