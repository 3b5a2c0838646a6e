//! The records of a log, decoded, and the messages of an encoded one.

use std::sync::Arc;

use bytes::Bytes;
use ledger::Slot;
use solana::{Account, VerificationLevel};
use solana_hash::Hash;
use solana_pubkey::Pubkey;

use crate::{Block, BlockFooter, BlockInfo, BlockhashQueue, RevertReason};

/// The digest of a record: BLAKE3 of its head message, which has the digests of its bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecordDigest(pub [u8; 32]);

impl RecordDigest {
    /// Computes the digest of a record from its head message.
    pub(super) fn from_head(head: &[u8]) -> Self {
        Self(*blake3::hash(head).as_bytes())
    }
}

/// The position of a record in the chain of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLink {
    /// The number of the record. The first record of a generation continues from the snapshot that it names, by one.
    pub number: u64,
    /// The digest of the record before it.
    pub previous: RecordDigest,
}

/// The identity of the writer of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterId {
    /// The number of the writer's leadership. A later leader has a higher one.
    pub term: u64,
    /// The random id of the writing process.
    pub ingester: [u8; 16],
    /// The level that a bank needs before the writer calls it confirmed: [`VerificationLevel::Computed`] if it makes
    /// its banks, `None` if it verifies nothing.
    pub level: Option<VerificationLevel>,
}

/// A block in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockName {
    /// The slot of the block.
    pub slot: Slot,
    /// The number of the block's record.
    pub number: u64,
}

/// The name of a block that every node gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockKey {
    /// The slot of the block.
    pub slot: Slot,
    /// The blockhash of the block.
    pub blockhash: Hash,
}

/// The digests of a block's content, over unpacked bytes. Two sources of a chain agree on a block if `state` is equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDigests {
    /// The accounts, and the facts that a bank hash covers.
    pub state: [u8; 32],
    /// Results of transactions, rewards, time, entries and footer. Sources may leave some of them out.
    pub rest: [u8; 32],
}

/// A block with its account writes.
#[derive(Clone, Debug)]
pub struct BlockRecord {
    /// The position of the record.
    pub link: RecordLink,
    /// The writer of the record.
    pub writer: WriterId,
    /// The number of the parent's record.
    pub parent_number: u64,
    /// The blockhash of the parent. After a jump, `block.previous_blockhash` is that of the parent on the chain.
    pub parent_blockhash: Hash,
    /// Sum of the lamports of all accounts after the block.
    pub capitalization: u64,
    /// Seconds since 1970, from the clock sysvar of the block.
    pub clock_time: i64,
    /// Whether the ledger jumped to this block ([`crate::LedgerEvent::Jumped`]): the writes are the differences to the
    /// parent, and the blocks in between are unknown.
    pub is_jump: bool,
    /// The time of the record in milliseconds since 1970, for measurements only.
    pub made_at_ms: u64,
    /// All other data of the block. The versions are numbers of records. It has no writes.
    pub block: Block,
    /// The footer of the block, if it has one.
    pub footer: Option<Arc<BlockFooter>>,
    /// The account writes, in the order of addresses, each account once.
    pub accounts: Vec<WireAccount>,
    /// The digests of the content, which were checked.
    pub digests: BlockDigests,
}

impl BlockRecord {
    /// Returns the properties of the block for readers of its state. `earlier` are the blockhashes up to the parent's.
    /// After a jump the parent's queue lacks those in between; the RecentBlockhashes sysvar has the valid ones.
    pub fn block_info(&self, earlier: &BlockhashQueue) -> BlockInfo {
        let Block {
            id, parent, block_height, transaction_count, bank_hash, hash_components, ..
        } = self.block;
        BlockInfo {
            block: id,
            parent,
            block_height,
            blockhashes: Arc::new(earlier.with(self.block.blockhash)),
            transaction_count,
            unix_timestamp: self.clock_time,
            capitalization: self.capitalization,
            bank_hash,
            hash_components,
            complete: true,
        }
    }
}

/// The last write of a block to one account.
#[derive(Clone, Debug, PartialEq)]
pub struct WireAccount {
    /// The address of the account.
    pub pubkey: Pubkey,
    /// The account after the block; `None` if it was closed.
    pub account: Option<Account>,
}

/// Events of blocks that earlier records have, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarksRecord {
    /// The position of the record.
    pub link: RecordLink,
    /// The writer of the record.
    pub writer: WriterId,
    /// The time of the record in milliseconds since 1970, for measurements only.
    pub made_at_ms: u64,
    /// The marks, at most [`super::MARKS_MAX`].
    pub marks: Vec<Mark>,
}

/// An event of one block, as in [`crate::LedgerEvent`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The block is the processed tip.
    TipMoved(BlockName),
    /// The block is confirmed.
    Confirmed(BlockName),
    /// The block is the root.
    Rooted(BlockName),
    /// The block is removed.
    Reverted {
        /// The removed block.
        block: BlockName,
        /// The reason. An error is cut after [`super::REVERT_ERROR_BYTES_MAX`].
        reason: RevertReason,
    },
}

/// The start of a leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermRecord {
    /// The position of the record.
    pub link: RecordLink,
    /// The new leader and its term.
    pub writer: WriterId,
    /// The time of the record in milliseconds since 1970, for measurements only.
    pub made_at_ms: u64,
    /// The reason of the change, for people. It is cut after 1,000 bytes.
    pub reason: String,
}

/// A snapshot that a reader may start from. The first record of a generation is one; later ones name newer snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRecord {
    /// The position of the record.
    pub link: RecordLink,
    /// The writer of the record.
    pub writer: WriterId,
    /// The time of the record in milliseconds since 1970, for measurements only.
    pub made_at_ms: u64,
    /// The key of the snapshot's manifest in the object store.
    pub manifest_key: String,
    /// The digest of the manifest.
    pub manifest_digest: [u8; 32],
    /// The block of the snapshot.
    pub block: BlockName,
    /// The digest of the block's record.
    pub block_digest: RecordDigest,
}

/// A record of a log.
#[derive(Clone, Debug)]
pub enum Record {
    /// A block with its account writes.
    Block(Box<BlockRecord>),
    /// Events of blocks.
    Marks(MarksRecord),
    /// The start of a leadership.
    Term(TermRecord),
    /// A snapshot that a reader may start from.
    Snapshot(SnapshotRecord),
}

impl Record {
    /// Returns the position of the record.
    pub fn link(&self) -> RecordLink {
        match self {
            Self::Block(record) => record.link,
            Self::Marks(record) => record.link,
            Self::Term(record) => record.link,
            Self::Snapshot(record) => record.link,
        }
    }

    /// Returns the writer of the record.
    pub fn writer(&self) -> WriterId {
        match self {
            Self::Block(record) => record.writer,
            Self::Marks(record) => record.writer,
            Self::Term(record) => record.writer,
            Self::Snapshot(record) => record.writer,
        }
    }

    /// Returns the kind of the record as a word, for metrics and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Block(_) => "block",
            Self::Marks(_) => "marks",
            Self::Term(_) => "term",
            Self::Snapshot(_) => "snapshot",
        }
    }
}

/// A record as messages.
#[derive(Clone, Debug)]
pub struct EncodedRecord {
    /// The first message.
    pub head: Bytes,
    /// The other messages, in order.
    pub bodies: Vec<Bytes>,
}

impl EncodedRecord {
    /// Returns the digest of the record, which the next record names.
    pub fn digest(&self) -> RecordDigest {
        RecordDigest::from_head(&self.head)
    }

    /// Returns the bytes of all messages.
    pub fn bytes(&self) -> usize {
        self.head.len() + self.bodies.iter().map(Bytes::len).sum::<usize>()
    }
}
