//! The content of a block's record, which does not depend on its position in the log.
//!
//! Cost: one pass over the accounts and the transactions, with compression at level 1 and BLAKE3. A writer encodes a
//! block when it is frozen, off its own thread; placing it in the log afterwards costs one small head.

use std::sync::Arc;

use ledger::Slot;
use solana::Entry;
use solana_hash::Hash;

use super::block_content::{Rest, write_accounts, write_rest};
use super::body::{Body, BodyWriter, Section};
use super::error::EncodeError;
use super::facts::{BankFacts, rest_hasher};
use super::head::{BlockHead, write_block_head};
use super::record::{BlockDigests, BlockKey, EncodedRecord, RecordLink, WriterId};
use crate::{Block, BlockFooter, BlockInfo};

/// A block and what its producer knows of it.
#[derive(Clone, Copy, Debug)]
pub struct BlockSource<'a> {
    /// The block with its writes.
    pub block: &'a Block,
    /// The blockhash of the parent.
    pub parent_blockhash: Hash,
    /// Sum of the lamports of all accounts after the block.
    pub capitalization: u64,
    /// Seconds since 1970, from the clock sysvar of the block.
    pub clock_time: i64,
    /// Whether the ledger jumped to this block ([`crate::LedgerEvent::Jumped`]).
    pub is_jump: bool,
    /// The footer of the block, if it has one.
    pub footer: Option<&'a Arc<BlockFooter>>,
    /// The time in milliseconds since 1970.
    pub made_at_ms: u64,
}

impl<'a> BlockSource<'a> {
    /// Creates the source of a block that is not a jump and has no footer. `info` is the block as its ledger shows it.
    pub fn new(block: &'a Block, info: &BlockInfo, made_at_ms: u64) -> Self {
        // A reader has the rest: in the block itself, and in the blockhashes of the blocks before it.
        let BlockInfo {
            block: _,
            parent: _,
            block_height: _,
            blockhashes: _,
            transaction_count: _,
            unix_timestamp,
            capitalization,
            bank_hash: _,
            hash_components: _,
            complete: _,
        } = *info;
        Self {
            block,
            parent_blockhash: block.previous_blockhash,
            capitalization,
            clock_time: unix_timestamp,
            is_jump: false,
            footer: None,
            made_at_ms,
        }
    }
}

/// A block as the bodies of a record, and the facts of its head. Clones share the bodies.
#[derive(Clone, Debug)]
pub struct EncodedBlock {
    facts: BankFacts,
    digests: BlockDigests,
    made_at_ms: u64,
    bodies: Vec<Body>,
}

impl EncodedBlock {
    /// Encodes a block. Fails if it is too large for a record, or writes an account twice.
    pub fn new(source: &BlockSource<'_>) -> Result<Self, EncodeError> {
        Self::encode(source, &source.block.entries)
    }

    /// Encodes a block without its entries and its footer. Sources that have them and sources that do not have them give
    /// equal records then.
    pub fn without_entries(source: &BlockSource<'_>) -> Result<Self, EncodeError> {
        Self::encode(&BlockSource { footer: None, ..*source }, &[])
    }

    fn encode(source: &BlockSource<'_>, entries: &[Entry]) -> Result<Self, EncodeError> {
        let BlockSource {
            block,
            parent_blockhash,
            capitalization,
            clock_time,
            is_jump,
            footer,
            made_at_ms,
        } = *source;
        // The versions are those of this process. The record has numbers of records instead.
        let Block {
            id,
            parent,
            block_height,
            blockhash,
            previous_blockhash,
            bank_hash,
            hash_components,
            block_time,
            transaction_count,
            transactions,
            rewards,
            reward_partitions,
            entries: _,
            writes,
        } = block;
        let facts = BankFacts {
            slot: id.slot,
            parent_slot: parent.slot,
            parent_blockhash,
            blockhash: *blockhash,
            previous_blockhash: *previous_blockhash,
            bank_hash: *bank_hash,
            hash_components: *hash_components,
            block_height: *block_height,
            capitalization,
            clock_time,
            is_jump,
        };
        let rest = Rest {
            block_time: *block_time,
            transaction_count: *transaction_count,
            reward_partitions: *reward_partitions,
            footer: footer.map(|footer| &**footer),
            rewards,
            entries,
            transactions,
        };
        let mut writer = BodyWriter::new(facts.slot)?;
        let mut section = writer.start_section(Section::State, facts.hasher());
        write_accounts(facts.slot, writes, &mut section)?;
        let state = section.finish()?;
        let mut section = writer.start_section(Section::Rest, rest_hasher());
        write_rest(&rest, &mut section)?;
        let digests = BlockDigests { state, rest: section.finish()? };
        Ok(Self { facts, digests, made_at_ms, bodies: writer.into_bodies() })
    }

    /// Returns the slot of the block.
    pub fn slot(&self) -> Slot {
        self.facts.slot
    }

    /// Returns the blockhash, which with the slot names a block in every process.
    pub fn blockhash(&self) -> Hash {
        self.facts.blockhash
    }

    /// Returns the parent.
    pub fn parent(&self) -> BlockKey {
        BlockKey { slot: self.facts.parent_slot, blockhash: self.facts.parent_blockhash }
    }

    /// Returns the digests of the content.
    pub fn digests(&self) -> BlockDigests {
        self.digests
    }

    /// Returns the bytes of the bodies.
    pub fn bytes(&self) -> usize {
        self.bodies.iter().map(|body| body.message.len()).sum()
    }

    /// Returns the record of the block at a position of the log. `parent_number` is the number of the parent's record.
    pub fn to_record(
        &self,
        link: RecordLink,
        writer: WriterId,
        parent_number: u64,
    ) -> EncodedRecord {
        let entries = self.bodies.iter().map(|body| body.entry).collect();
        let head = BlockHead {
            facts: self.facts.clone(),
            parent_number,
            digests: self.digests,
            bodies: entries,
        };
        EncodedRecord {
            head: write_block_head(link, writer, self.made_at_ms, &head),
            bodies: self.bodies.iter().map(|body| body.message.clone()).collect(),
        }
    }
}
