//! The heads of records as bytes.
//!
//! Everything of a record that is not a block is in its head. The head of a block has its facts, its digests, and the
//! list of its bodies. A checksum at the end distinguishes a damaged head from one of a newer version.
//! Bounds: 273 bytes of facts and 13 bytes for each body; [`super::MESSAGE_BYTES_MAX`] for marks.

use bytes::Bytes;
use solana_hash::Hash;
use store::{ByteReader, ByteWriter, DecodeError};

use super::body::{BodyEntry, Section};
use super::codec::{read_level, write_level};
use super::error::WireError;
use super::facts::BankFacts;
use super::marks::{read_mark, read_name, truncate, write_mark, write_name};
use super::record::{
    BlockDigests, BlockName, EncodedRecord, Mark, MarksRecord, RecordDigest, RecordLink,
    SnapshotRecord, TermRecord, WriterId,
};
use super::{
    BODY_UNPACKED_BYTES_MAX, MESSAGE_BYTES_MAX, RECORD_MESSAGES_MAX, RECORD_UNPACKED_BYTES_MAX,
    RECORD_VERSION,
};

/// The first bytes of every head.
const MAGIC: [u8; 4] = *b"HYDL";
/// Bytes of the checksum at the end of every head.
pub(super) const CHECKSUM_BYTES: usize = 4;
/// The longest reason of a new term.
pub(super) const TERM_REASON_BYTES_MAX: usize = 1_000;

const BLOCK: u8 = 1;
const MARKS: u8 = 2;
const TERM: u8 = 3;
const SNAPSHOT: u8 = 4;

/// The content of a record that its head has, without the bodies: for a writer that takes over, and for tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// The position of the record.
    pub link: RecordLink,
    /// The writer of the record.
    pub writer: WriterId,
    /// The digest of the record.
    pub digest: RecordDigest,
    /// Number of messages after the head.
    pub body_messages: u16,
    /// The kind of the record.
    pub kind: RecordKind,
}

/// The kind of a record, with the content of its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A block.
    Block {
        /// The block.
        name: BlockName,
        /// The blockhash of the block.
        blockhash: Hash,
        /// The parent of the block.
        parent: BlockName,
        /// The digests of the content, which were not checked.
        digests: BlockDigests,
    },
    /// Events of blocks.
    Marks(Vec<Mark>),
    /// The start of a leadership.
    Term,
    /// A snapshot that a reader may start from.
    Snapshot(SnapshotRecord),
}

/// Reads the head of a record. Fails if it is damaged, or of a newer version.
pub fn read_head(payload: &Bytes) -> Result<RecordHead, WireError> {
    let Head { link, writer, digest, made_at_ms: _, content } = Head::read(payload)?;
    let body_messages = content.bodies().len() as u16;
    let kind = match content {
        HeadContent::Block(head) => {
            let BlockHead { facts, parent_number, digests, bodies: _ } = *head;
            RecordKind::Block {
                name: BlockName { slot: facts.slot, number: link.number },
                blockhash: facts.blockhash,
                parent: BlockName { slot: facts.parent_slot, number: parent_number },
                digests,
            }
        }
        HeadContent::Marks(record) => RecordKind::Marks(record.marks),
        HeadContent::Term(_) => RecordKind::Term,
        HeadContent::Snapshot(record) => RecordKind::Snapshot(record),
    };
    Ok(RecordHead { link, writer, digest, body_messages, kind })
}

/// Encodes marks, at most [`super::MARKS_MAX`]: a log refuses the message of more. It cuts long errors of dead blocks.
pub fn encode_marks(record: &MarksRecord) -> EncodedRecord {
    let MarksRecord { link, writer, made_at_ms, marks } = record;
    let mut out = start_head(MARKS, *link, *writer, *made_at_ms);
    out.list(marks, write_mark);
    finish_record(out)
}

/// Encodes the start of a leadership. It cuts a reason that is longer than 1,000 bytes.
pub fn encode_term(record: &TermRecord) -> EncodedRecord {
    let TermRecord { link, writer, made_at_ms, reason } = record;
    let mut out = start_head(TERM, *link, *writer, *made_at_ms);
    out.str(truncate(reason, TERM_REASON_BYTES_MAX));
    finish_record(out)
}

/// Encodes the name of a snapshot.
pub fn encode_snapshot(record: &SnapshotRecord) -> EncodedRecord {
    let SnapshotRecord {
        link,
        writer,
        made_at_ms,
        manifest_key,
        manifest_digest,
        block,
        block_digest,
    } = record;
    let mut out = start_head(SNAPSHOT, *link, *writer, *made_at_ms);
    out.str(manifest_key);
    out.key(manifest_digest);
    write_name(&mut out, *block);
    out.key(&block_digest.0);
    finish_record(out)
}

/// The part of a head that only a block has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockHead {
    pub(super) facts: BankFacts,
    pub(super) parent_number: u64,
    pub(super) digests: BlockDigests,
    pub(super) bodies: Vec<BodyEntry>,
}

impl BlockHead {
    /// Returns the unpacked bytes of a section.
    pub(super) fn section_bytes(&self, section: Section) -> usize {
        let bodies = self.bodies.iter().filter(|body| body.section == section);
        bodies.map(|body| body.unpacked_bytes as usize).sum()
    }
}

pub(super) fn write_block_head(
    link: RecordLink,
    writer: WriterId,
    made_at_ms: u64,
    head: &BlockHead,
) -> Bytes {
    let BlockHead { facts, parent_number, digests: BlockDigests { state, rest }, bodies } = head;
    let mut out = start_head(BLOCK, link, writer, made_at_ms);
    facts.write(&mut out);
    out.u64(*parent_number);
    out.key(state);
    out.key(rest);
    out.u16(bodies.len() as u16);
    bodies.iter().for_each(|body| body.write(&mut out));
    finish_head(out)
}

/// A decoded head.
pub(super) struct Head {
    pub(super) link: RecordLink,
    pub(super) writer: WriterId,
    pub(super) digest: RecordDigest,
    pub(super) made_at_ms: u64,
    pub(super) content: HeadContent,
}

/// A head's content by the kind of the record.
pub(super) enum HeadContent {
    Block(Box<BlockHead>),
    Marks(MarksRecord),
    Term(TermRecord),
    Snapshot(SnapshotRecord),
}

impl HeadContent {
    /// Returns the bodies of the record.
    pub(super) fn bodies(&self) -> &[BodyEntry] {
        match self {
            Self::Block(head) => &head.bodies,
            Self::Marks(_) | Self::Term(_) | Self::Snapshot(_) => &[],
        }
    }
}

impl Head {
    /// Reads a head message. Fails if it is damaged, or of a newer version.
    pub(super) fn read(message: &[u8]) -> Result<Self, WireError> {
        if message.len() > MESSAGE_BYTES_MAX {
            let what = "bytes of a head".to_owned();
            return Err(too_long(what, message.len(), MESSAGE_BYTES_MAX));
        }
        let body = check_frame(message)?;
        let mut from = ByteReader::new(body);
        let damaged = |err: DecodeError| WireError::damaged_value("a head", err.what);
        match from.u16("version").map_err(damaged)? {
            0 => return Err(damaged(DecodeError { what: "version" })),
            RECORD_VERSION => {}
            found => return Err(WireError::Version { found, known: RECORD_VERSION }),
        }
        let kind = from.u8("kind").map_err(damaged)?;
        let number = from.u64("number").map_err(damaged)?;
        let digest = RecordDigest::from_head(message);
        Self::read_content(kind, number, digest, from)
    }

    /// Reads what follows the number of a record.
    fn read_content(
        kind: u8,
        number: u64,
        digest: RecordDigest,
        mut from: ByteReader<'_>,
    ) -> Result<Self, WireError> {
        let damaged = |err: DecodeError| {
            WireError::damaged_value(format!("head of record {number}"), err.what)
        };
        let previous = RecordDigest(from.key("previous digest").map_err(damaged)?);
        let link = RecordLink { number, previous };
        let writer = read_writer(&mut from).map_err(damaged)?;
        let made_at_ms = from.u64("time").map_err(damaged)?;
        let content = match kind {
            BLOCK => {
                let head = read_block_head(&mut from).map_err(damaged)?;
                check_bodies(number, &head.bodies)?;
                HeadContent::Block(Box::new(head))
            }
            MARKS => {
                let marks = from.list("marks", read_mark).map_err(damaged)?;
                HeadContent::Marks(MarksRecord { link, writer, made_at_ms, marks })
            }
            TERM => {
                let reason = from.str("reason").map_err(damaged)?;
                HeadContent::Term(TermRecord { link, writer, made_at_ms, reason })
            }
            SNAPSHOT => HeadContent::Snapshot(SnapshotRecord {
                link,
                writer,
                made_at_ms,
                manifest_key: from.str("key of a manifest").map_err(damaged)?,
                manifest_digest: from.key("digest of a manifest").map_err(damaged)?,
                block: read_name(&mut from).map_err(damaged)?,
                block_digest: RecordDigest(from.key("digest of a block").map_err(damaged)?),
            }),
            _ => return Err(damaged(DecodeError { what: "kind" })),
        };
        from.end().map_err(damaged)?;
        Ok(Self { link, writer, digest, made_at_ms, content })
    }
}

fn start_head(kind: u8, link: RecordLink, writer: WriterId, made_at_ms: u64) -> ByteWriter {
    let RecordLink { number, previous } = link;
    let WriterId { term, ingester, level } = writer;
    let mut out = ByteWriter(MAGIC.to_vec());
    out.u16(RECORD_VERSION);
    out.u8(kind);
    out.u64(number);
    out.key(&previous.0);
    out.u64(term);
    out.0.extend(ingester);
    write_level(&mut out, level);
    out.u64(made_at_ms);
    out
}

fn finish_head(mut out: ByteWriter) -> Bytes {
    out.u32(crc32fast::hash(&out.0));
    Bytes::from(out.0)
}

fn finish_record(out: ByteWriter) -> EncodedRecord {
    EncodedRecord { head: finish_head(out), bodies: Vec::new() }
}

/// Checks what all versions have in common. Returns the bytes between the magic and the checksum.
fn check_frame(message: &[u8]) -> Result<&[u8], WireError> {
    let Some((content, checksum)) = message.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(WireError::damaged_value("a head", "checksum"));
    };
    let Some(body) = content.strip_prefix(MAGIC.as_slice()) else {
        return Err(WireError::damaged_value("a head", "magic"));
    };
    if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
        return Err(WireError::damaged_value(describe_damaged_head(body), "checksum"));
    }
    Ok(body)
}

/// Names a damaged head by the number that it seems to have.
fn describe_damaged_head(body: &[u8]) -> String {
    // After version and kind.
    match body.get(3..).map(|rest| ByteReader::new(rest).u64("number")) {
        Some(Ok(number)) => format!("head of record {number}, if its number is undamaged"),
        _ => "a head".to_owned(),
    }
}

fn read_writer(from: &mut ByteReader<'_>) -> Result<WriterId, DecodeError> {
    let term = from.u64("term")?;
    let low = from.u64("ingester")?.to_le_bytes();
    let high = from.u64("ingester")?.to_le_bytes();
    let ingester = std::array::from_fn(|at| if at < 8 { low[at] } else { high[at - 8] });
    Ok(WriterId { term, ingester, level: read_level(from)? })
}

fn read_block_head(from: &mut ByteReader<'_>) -> Result<BlockHead, DecodeError> {
    let facts = BankFacts::read(from)?;
    let parent_number = from.u64("number of the parent")?;
    let digests =
        BlockDigests { state: from.key("digest of the state")?, rest: from.key("digest")? };
    let count = from.u16("number of bodies")?;
    let bodies = (0..count).map(|_| BodyEntry::read(from)).collect::<Result<_, _>>()?;
    Ok(BlockHead { facts, parent_number, digests, bodies })
}

/// Fails if the bodies of a block are more or longer than any that are written, or are not in the order of sections.
fn check_bodies(number: u64, bodies: &[BodyEntry]) -> Result<(), WireError> {
    let what = || format!("record {number}");
    if bodies.len() >= RECORD_MESSAGES_MAX {
        return Err(too_long(what() + ": bodies", bodies.len(), RECORD_MESSAGES_MAX - 1));
    }
    for body in bodies {
        if body.bytes as usize > MESSAGE_BYTES_MAX {
            return Err(too_long(
                what() + ": bytes of a body",
                body.bytes as usize,
                MESSAGE_BYTES_MAX,
            ));
        }
        if body.unpacked_bytes as usize > BODY_UNPACKED_BYTES_MAX {
            let found = body.unpacked_bytes as usize;
            return Err(too_long(
                what() + ": unpacked bytes of a body",
                found,
                BODY_UNPACKED_BYTES_MAX,
            ));
        }
    }
    let unpacked: usize = bodies.iter().map(|body| body.unpacked_bytes as usize).sum();
    if unpacked > RECORD_UNPACKED_BYTES_MAX {
        return Err(too_long(what() + ": unpacked bytes", unpacked, RECORD_UNPACKED_BYTES_MAX));
    }
    let is_ordered = bodies.is_sorted_by_key(|body| body.section == Section::Rest);
    if is_ordered {
        Ok(())
    } else {
        Err(WireError::damaged_value(format!("head of record {number}"), "order of sections"))
    }
}

fn too_long(what: String, found: usize, limit: usize) -> WireError {
    WireError::TooLong { what, found: found as u64, limit: limit as u64 }
}
