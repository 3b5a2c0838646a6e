//! The footer of an object: where each block is, and the digest of the object before.
//!
//! | bytes  | value                                                                     |
//! |--------|---------------------------------------------------------------------------|
//! | 4, 2   | magic `HYSA`, version                                                     |
//! | n      | each block: one zstd frame                                                |
//! | m      | the footer, and BLAKE3 of it                                              |
//! | 4, 2, 4 | length of footer and digest, version, magic `HYSF`                       |

use ledger::Slot;
use store::{ByteReader, ByteWriter, DecodeError};

use super::error::ArchiveError;
use super::object::ArchiveObject;
use crate::final_digest::{append_digest, strip_digest};

/// The version of objects.
pub(super) const VERSION: u16 = 1;
pub(super) const MAGIC: &[u8; 4] = b"HYSA";
const END_MAGIC: &[u8; 4] = b"HYSF";

/// Bytes after a footer.
pub(super) const END_BYTES: usize = 10;
/// Bytes of a footer. One of a hundred blocks has 7 KB. A longer one is refused before it is read.
const FOOTER_BYTES_MAX: usize = 16 << 20;

/// The footer of an object: its range of slots, and its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFooter {
    /// The cluster.
    pub cluster: String,
    /// The epoch of the chain.
    pub epoch: u64,
    /// The first slot.
    pub first: Slot,
    /// The last slot.
    pub last: Slot,
    /// The blocks, in the order of their slots. All other slots were skipped.
    pub blocks: Vec<ArchivedBlock>,
    /// The digest of the object before; `None` for the first of an archive.
    pub previous: Option<[u8; 32]>,
}

/// A block in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedBlock {
    /// The slot.
    pub slot: Slot,
    /// The slot of its parent.
    pub parent_slot: Slot,
    /// Position in the object.
    pub offset: u64,
    /// Length in the object.
    pub bytes: u32,
    /// Length before compression.
    pub unpacked_bytes: u32,
    /// BLAKE3 of the uncompressed bytes.
    pub digest: [u8; 32],
}

impl ArchiveFooter {
    /// Returns the digest of the object: over its range, its blocks and the object before. The compressed bytes, which
    /// depend on the release of zstd, are not part of it.
    pub fn digest(&self) -> [u8; 32] {
        let mut out = ByteWriter::default();
        out.str(&self.cluster);
        out.u64(self.epoch);
        out.u64(self.first);
        out.u64(self.last);
        out.list(&self.blocks, |out, block| {
            out.u64(block.slot);
            out.key(&block.digest);
        });
        out.option(self.previous.as_ref(), ByteWriter::key);
        *blake3::hash(&out.0).as_bytes()
    }

    /// Whether another object has the same blocks, whatever the object before it is.
    pub(super) fn has_blocks_of(&self, other: &Self) -> bool {
        let blocks = |footer: &Self| {
            let blocks = footer.blocks.iter();
            blocks.map(|block| (block.slot, block.digest)).collect::<Vec<_>>()
        };
        blocks(self) == blocks(other)
    }

    /// Returns a block.
    pub fn block(&self, slot: Slot) -> Option<&ArchivedBlock> {
        let at = self.blocks.binary_search_by_key(&slot, |block| block.slot).ok()?;
        self.blocks.get(at)
    }

    /// Encodes the footer with its end.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter::default();
        out.str(&self.cluster);
        out.u64(self.epoch);
        out.u64(self.first);
        out.u64(self.last);
        out.list(&self.blocks, |out, block| {
            out.u64(block.slot);
            out.u64(block.parent_slot);
            out.u64(block.offset);
            out.u32(block.bytes);
            out.u32(block.unpacked_bytes);
            out.key(&block.digest);
        });
        out.option(self.previous.as_ref(), ByteWriter::key);
        append_digest(&mut out.0);
        out.u32(out.0.len() as u32);
        out.u16(VERSION);
        out.0.extend(END_MAGIC);
        out.0
    }

    /// Reads the length of footer and end from the last [`END_BYTES`] of an object.
    pub(super) fn read_length(end: &[u8], object: &ArchiveObject) -> Result<usize, ArchiveError> {
        let key = &object.key;
        let damaged = |what| ArchiveError::Damaged { key: key.clone(), what };
        let end = end.strip_suffix(END_MAGIC).ok_or_else(|| damaged("end"))?;
        let mut from = ByteReader::new(end);
        let length = from.u32("end").map_err(ArchiveError::decode_error(key))?;
        let found = from.u16("end").map_err(ArchiveError::decode_error(key))?;
        from.end().map_err(ArchiveError::decode_error(key))?;
        if found != VERSION {
            return Err(ArchiveError::Version { key: key.clone(), found, known: VERSION });
        }
        let length = length as usize + END_BYTES;
        let is_valid = length <= FOOTER_BYTES_MAX && length as u64 <= object.bytes;
        if is_valid { Ok(length) } else { Err(damaged("length of the footer")) }
    }

    /// Decodes a footer with its end, and checks that it is of this object.
    pub(super) fn from_bytes(bytes: &[u8], object: &ArchiveObject) -> Result<Self, ArchiveError> {
        let key = &object.key;
        let damaged = |what| ArchiveError::Damaged { key: key.clone(), what };
        let (before, _) = bytes.split_last_chunk::<END_BYTES>().ok_or_else(|| damaged("footer"))?;
        let body = strip_digest(before).ok_or_else(|| damaged("digest of the footer"))?;
        let footer = Self::read(body).map_err(ArchiveError::decode_error(key))?;
        let of_footer = (footer.cluster.as_str(), footer.epoch, footer.first, footer.last);
        if of_footer != (object.cluster.as_str(), object.epoch, object.first, object.last) {
            return Err(damaged("the footer is of another object"));
        }
        let blocks = object.bytes.saturating_sub(bytes.len() as u64);
        let is_inside = |block: &ArchivedBlock| {
            let end = block.offset.checked_add(block.bytes.into());
            object.slots().contains(&block.slot)
                && block.parent_slot <= block.slot
                && end.is_some_and(|end| end <= blocks)
        };
        let is_sorted = footer.blocks.is_sorted_by(|block, next| block.slot < next.slot);
        if !is_sorted || !footer.blocks.iter().all(is_inside) {
            return Err(damaged("positions of blocks"));
        }
        Ok(footer)
    }

    fn read(body: &[u8]) -> Result<Self, DecodeError> {
        let mut from = ByteReader::new(body);
        let footer = Self {
            cluster: from.str("cluster")?,
            epoch: from.u64("epoch")?,
            first: from.u64("first slot")?,
            last: from.u64("last slot")?,
            blocks: from.list("blocks", |from| {
                Ok(ArchivedBlock {
                    slot: from.u64("slot")?,
                    parent_slot: from.u64("slot of the parent")?,
                    offset: from.u64("position of a block")?,
                    bytes: from.u32("length of a block")?,
                    unpacked_bytes: from.u32("length of a block")?,
                    digest: from.key("digest of a block")?,
                })
            })?,
            previous: from.option("digest of the object before", |from| {
                from.key("digest of the object before")
            })?,
        };
        from.end().map(|()| footer)
    }
}
