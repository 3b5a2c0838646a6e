//! Puts messages together to records, and checks them.
//!
//! Input: the messages of a log in order. Output: each record when its last message has arrived.
//! Invariant: each record continues the chain of records ([`RecordChain`]), or it is refused. So a record that is
//! missing, repeated, of another log or of a writer without a term is noticed, even if all its messages are undamaged.
//! Bounds: the unpacked sections of one record, which grow as bodies arrive.
//! Not here: the record that the first one follows, which a snapshot names (`replica`).

use bytes::Bytes;
use ledger::BlockId;
use zstd::bulk::Decompressor;

use super::block_content::{read_accounts, read_rest};
use super::body::Section;
use super::error::WireError;
use super::facts::rest_hasher;
use super::head::{BlockHead, Head, HeadContent};
use super::record::{BlockDigests, BlockRecord, Record, RecordDigest, RecordLink, WriterId};
use super::record_chain::RecordChain;
use crate::Block;

/// Reads the records of a log from its messages. After an error it cannot continue: the next record would not follow.
#[derive(Default)]
pub struct RecordReader {
    decompressor: Decompressor<'static>,
    /// The last record.
    last: Option<RecordChain>,
    /// The block that lacks bodies.
    open: Option<OpenBlock>,
}

/// A record that was read, and its digest.
#[derive(Clone, Debug)]
pub struct ReadRecord {
    /// The record.
    pub record: Record,
    /// The digest, which the next record names.
    pub digest: RecordDigest,
}

/// A block that lacks bodies.
struct OpenBlock {
    link: RecordLink,
    writer: WriterId,
    digest: RecordDigest,
    made_at_ms: u64,
    head: Box<BlockHead>,
    /// Number of bodies that have arrived.
    arrived: usize,
    state: Vec<u8>,
    rest: Vec<u8>,
}

impl RecordReader {
    /// Creates a reader that accepts any first record.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a reader whose first record must continue a chain.
    pub fn after(last: RecordChain) -> Self {
        Self { last: Some(last), ..Self::default() }
    }

    /// Returns the last record that was read, or the one that the reader started after.
    pub fn last(&self) -> Option<RecordChain> {
        self.last
    }

    /// Takes the next message; `is_head` is as the log stores it. Returns the record that the message completes, or
    /// `Ok(None)` if the record has more messages. An error names the record and the message.
    pub fn push(&mut self, is_head: bool, payload: Bytes) -> Result<Option<ReadRecord>, WireError> {
        let open = match (self.open.take(), is_head) {
            (None, true) => match self.start_record(&payload)? {
                Started::Block(open) => open,
                Started::Complete(read) => return Ok(Some(self.accept(read))),
            },
            (Some(open), false) => self.add_body(open, &payload)?,
            (None, false) => {
                return Err(WireError::Unexpected {
                    found: "a body".to_owned(),
                    expected: self.describe_next_record(),
                });
            }
            (Some(open), true) => {
                return Err(WireError::Unexpected {
                    found: "a head".to_owned(),
                    expected: open.describe_next_body(),
                });
            }
        };
        if open.arrived < open.head.bodies.len() {
            self.open = Some(open);
            return Ok(None);
        }
        let digest = open.digest;
        let record = Record::Block(Box::new(open.decode()?));
        Ok(Some(self.accept(ReadRecord { record, digest })))
    }

    /// The next record has to follow this one.
    fn accept(&mut self, read: ReadRecord) -> ReadRecord {
        let number = read.record.link().number;
        let writer = Some(read.record.writer());
        self.last = Some(RecordChain { number, digest: read.digest, writer });
        read
    }

    fn start_record(&mut self, payload: &Bytes) -> Result<Started, WireError> {
        let Head { link, writer, digest, made_at_ms, content } = Head::read(payload)?;
        if let Some(last) = &self.last {
            last.check(link, writer, matches!(content, HeadContent::Term(_)))?;
        }
        let record = match content {
            HeadContent::Block(head) => {
                return Ok(Started::Block(OpenBlock {
                    link,
                    writer,
                    digest,
                    made_at_ms,
                    head,
                    arrived: 0,
                    state: Vec::new(),
                    rest: Vec::new(),
                }));
            }
            HeadContent::Marks(record) => Record::Marks(record),
            HeadContent::Term(record) => Record::Term(record),
            HeadContent::Snapshot(record) => Record::Snapshot(record),
        };
        Ok(Started::Complete(ReadRecord { record, digest }))
    }

    fn add_body(&mut self, mut open: OpenBlock, payload: &[u8]) -> Result<OpenBlock, WireError> {
        let Some(entry) = open.head.bodies.get(open.arrived).copied() else {
            return Err(WireError::Unexpected {
                found: "a body".to_owned(),
                expected: self.describe_next_record(),
            });
        };
        open.arrived += 1;
        let unpacked = entry.unpack(payload, &mut self.decompressor);
        let unpacked = unpacked.map_err(|fault| WireError::Body {
            record: open.link.number,
            index: open.arrived as u16,
            count: open.head.bodies.len() as u16,
            section: entry.section.name(),
            fault,
        })?;
        let announced = open.head.section_bytes(entry.section);
        let section = match entry.section {
            Section::State => &mut open.state,
            Section::Rest => &mut open.rest,
        };
        append(section, &unpacked, announced);
        Ok(open)
    }

    fn describe_next_record(&self) -> String {
        let last = self.last.as_ref();
        last.map_or_else(
            || "the head of a record".to_owned(),
            |last| format!("record {}", last.number.saturating_add(1)),
        )
    }
}

/// The outcome of a head.
enum Started {
    Block(OpenBlock),
    Complete(ReadRecord),
}

impl OpenBlock {
    fn describe_next_body(&self) -> String {
        let count = self.head.bodies.len();
        format!("body {} of {count} of record {}", self.arrived + 1, self.link.number)
    }

    /// Decodes the block, if its sections have the digests of its head.
    fn decode(self) -> Result<BlockRecord, WireError> {
        let Self { link, writer, digest: _, made_at_ms, head, arrived: _, state, rest } = self;
        let BlockHead { facts, parent_number, digests, bodies: _ } = *head;
        let number = link.number;
        let found = BlockDigests {
            state: digest_section(facts.hasher(), &state),
            rest: digest_section(rest_hasher(), &rest),
        };
        if found.state != digests.state {
            return Err(WireError::Digest { what: format!("the state of record {number}") });
        }
        if found.rest != digests.rest {
            return Err(WireError::Digest { what: format!("the rest of record {number}") });
        }
        let damaged =
            |place: &str, what| WireError::damaged_value(format!("record {number}: {place}"), what);
        let accounts = read_accounts(&state).map_err(|err| damaged("state", err.what))?;
        drop(state);
        let content = read_rest(facts.slot, &rest).map_err(|err| damaged("rest", err.what))?;
        Ok(BlockRecord {
            link,
            writer,
            parent_number,
            parent_blockhash: facts.parent_blockhash,
            capitalization: facts.capitalization,
            clock_time: facts.clock_time,
            is_jump: facts.is_jump,
            made_at_ms,
            block: Block {
                id: BlockId { slot: facts.slot, version: number },
                parent: BlockId { slot: facts.parent_slot, version: parent_number },
                block_height: facts.block_height,
                blockhash: facts.blockhash,
                previous_blockhash: facts.previous_blockhash,
                bank_hash: facts.bank_hash,
                hash_components: facts.hash_components,
                block_time: content.block_time,
                transaction_count: content.transaction_count,
                transactions: content.transactions,
                rewards: content.rewards,
                reward_partitions: content.reward_partitions,
                entries: content.entries,
                writes: Vec::new(),
            },
            footer: content.footer,
            accounts,
            digests,
        })
    }
}

fn digest_section(mut hasher: blake3::Hasher, section: &[u8]) -> [u8; 32] {
    *hasher.update(section).finalize().as_bytes()
}

/// Appends to a section. Its capacity doubles, up to the announced length and never above it.
pub(super) fn append(section: &mut Vec<u8>, unpacked: &[u8], announced: usize) {
    let needed = section.len() + unpacked.len();
    if needed > section.capacity() {
        let capacity = needed.max(section.capacity() * 2).min(announced.max(needed));
        section.reserve_exact(capacity - section.len());
    }
    section.extend_from_slice(unpacked);
}
