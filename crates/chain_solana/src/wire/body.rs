//! The bodies of a record: parts of its sections, compressed independently of each other.
//!
//! A body is cut by its unpacked bytes. The first one of a section is short enough to fit into a message whatever it
//! contains. The next ones are as long as the ratio of the one before suggests, and are cut again if they do not fit.
//! Bounds: of a writer one body and its compressed form, besides the bodies that are finished.
//! Not here: the content of the sections (`block_content`), and the list of bodies in a head (`head`).

use bytes::Bytes;
use ledger::Slot;
use store::{ByteReader, ByteWriter, DecodeError};
use zstd::bulk::{Compressor, Decompressor};

use super::error::{BodyFault, EncodeError};
use super::{
    BODY_UNPACKED_BYTES_MAX, MESSAGE_BYTES_MAX, RECORD_MESSAGES_MAX, RECORD_UNPACKED_BYTES_MAX,
};

/// Unpacked bytes that fit into a message even if they cannot be compressed: zstd adds a 256th and a few bytes.
pub(super) const SAFE_BYTES: usize = 244_736;
/// The level of the store. On a network of 1 Gbit/s, a higher level costs more time than it saves.
const ZSTD_LEVEL: i32 = 1;

/// A part of a record that has its own digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// The accounts.
    State,
    /// Everything that no bank hash covers.
    Rest,
}

impl Section {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Rest => "rest",
        }
    }
}

/// A body as a head describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyEntry {
    pub(super) section: Section,
    /// Bytes of the message.
    pub(super) bytes: u32,
    pub(super) unpacked_bytes: u32,
    /// CRC-32 of the message.
    pub(super) crc: u32,
}

impl BodyEntry {
    pub(super) fn write(&self, out: &mut ByteWriter) {
        let Self { section, bytes, unpacked_bytes, crc } = *self;
        out.u8(match section {
            Section::State => 0,
            Section::Rest => 1,
        });
        out.u32(bytes);
        out.u32(unpacked_bytes);
        out.u32(crc);
    }

    pub(super) fn read(from: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let section = match from.u8("section")? {
            0 => Section::State,
            1 => Section::Rest,
            _ => return Err(DecodeError { what: "section" }),
        };
        Ok(Self {
            section,
            bytes: from.u32("length of a body")?,
            unpacked_bytes: from.u32("unpacked length of a body")?,
            crc: from.u32("checksum of a body")?,
        })
    }

    /// Returns the unpacked bytes of a message that is this body. Allocates at most the announced bytes.
    pub(super) fn unpack(
        &self,
        message: &[u8],
        decompressor: &mut Decompressor<'_>,
    ) -> Result<Vec<u8>, BodyFault> {
        let expected = self.bytes;
        if message.len() != expected as usize {
            return Err(BodyFault::Length { found: message.len(), expected });
        }
        let expected = self.crc;
        let found = crc32fast::hash(message);
        if found != expected {
            return Err(BodyFault::Checksum { found, expected });
        }
        let expected = self.unpacked_bytes;
        let unpacked = decompressor.decompress(message, expected as usize);
        let unpacked = unpacked.ok().filter(|unpacked| unpacked.len() == expected as usize);
        unpacked.ok_or(BodyFault::Compression { expected })
    }
}

/// A body of a record.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) entry: BodyEntry,
    pub(super) message: Bytes,
}

/// Compresses the sections of one block.
pub(super) struct BodyWriter {
    slot: Slot,
    compressor: Compressor<'static>,
    bodies: Vec<Body>,
    unpacked_bytes: usize,
}

impl BodyWriter {
    pub(super) fn new(slot: Slot) -> Result<Self, EncodeError> {
        let compressor =
            Compressor::new(ZSTD_LEVEL).map_err(|err| compression_error(slot, &err))?;
        Ok(Self { slot, compressor, bodies: Vec::new(), unpacked_bytes: 0 })
    }

    /// Starts a section. Its digest continues `hasher` with the bytes of the section.
    pub(super) fn start_section(
        &mut self,
        section: Section,
        hasher: blake3::Hasher,
    ) -> SectionWriter<'_> {
        let out = ByteWriter::default();
        SectionWriter { section, hasher, out, next_bytes: SAFE_BYTES, writer: self }
    }

    pub(super) fn into_bodies(self) -> Vec<Body> {
        self.bodies
    }

    fn compress(&mut self, unpacked: &[u8]) -> Result<Vec<u8>, EncodeError> {
        self.compressor.compress(unpacked).map_err(|err| compression_error(self.slot, &err))
    }

    /// Counts a body of `unpacked_bytes`. Fails if the record is full.
    fn count(&mut self, unpacked_bytes: usize) -> Result<(), EncodeError> {
        let slot = self.slot;
        self.unpacked_bytes += unpacked_bytes;
        if self.unpacked_bytes > RECORD_UNPACKED_BYTES_MAX {
            return Err(EncodeError::TooLong { slot, limit: RECORD_UNPACKED_BYTES_MAX });
        }
        // The head is a message too.
        if self.bodies.len() + 2 > RECORD_MESSAGES_MAX {
            return Err(EncodeError::TooManyMessages { slot, limit: RECORD_MESSAGES_MAX });
        }
        Ok(())
    }
}

/// Cuts a section into bodies while it is written.
pub(super) struct SectionWriter<'a> {
    section: Section,
    hasher: blake3::Hasher,
    /// The bytes that are in no body yet.
    pub(super) out: ByteWriter,
    /// Unpacked bytes of the next body.
    next_bytes: usize,
    writer: &'a mut BodyWriter,
}

impl SectionWriter<'_> {
    /// Makes bodies of the bytes so far, except of a rest that is shorter than a body may be.
    pub(super) fn flush(&mut self) -> Result<(), EncodeError> {
        self.cut_bodies(BODY_UNPACKED_BYTES_MAX)
    }

    /// Makes bodies of all bytes. Returns the digest of the section.
    pub(super) fn finish(mut self) -> Result<[u8; 32], EncodeError> {
        self.cut_bodies(1)?;
        Ok(*self.hasher.finalize().as_bytes())
    }

    /// Makes bodies while at least `pending_min` bytes are in none.
    fn cut_bodies(&mut self, pending_min: usize) -> Result<(), EncodeError> {
        let mut written = std::mem::take(&mut self.out.0);
        let mut in_bodies = 0;
        while written.len() - in_bodies >= pending_min {
            let bytes = self.cut_body(&written[in_bodies..])?;
            in_bodies += bytes;
        }
        self.hasher.update(&written[..in_bodies]);
        written.drain(..in_bodies);
        self.out.0 = written;
        Ok(())
    }

    /// Makes a body of the first bytes. Returns their number.
    fn cut_body(&mut self, pending: &[u8]) -> Result<usize, EncodeError> {
        let mut bytes = pending.len().min(self.next_bytes);
        let mut message = self.writer.compress(&pending[..bytes])?;
        if message.len() > MESSAGE_BYTES_MAX {
            bytes = pending.len().min(SAFE_BYTES);
            message = self.writer.compress(&pending[..bytes])?;
        }
        self.writer.count(bytes)?;
        // A margin of an eighth, as ratios vary.
        let next_bytes = bytes * (MESSAGE_BYTES_MAX / 8 * 7) / message.len().max(1);
        self.next_bytes = next_bytes.clamp(SAFE_BYTES, BODY_UNPACKED_BYTES_MAX);
        let entry = BodyEntry {
            section: self.section,
            bytes: message.len() as u32,
            unpacked_bytes: bytes as u32,
            crc: crc32fast::hash(&message),
        };
        self.writer.bodies.push(Body { entry, message: Bytes::copy_from_slice(&message) });
        Ok(bytes)
    }
}

fn compression_error(slot: Slot, err: &std::io::Error) -> EncodeError {
    EncodeError::Compression { slot, cause: err.to_string() }
}
