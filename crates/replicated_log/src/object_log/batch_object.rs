//! The bytes of a batch as an object, and of the marker of a generation. Version 1, little-endian.
//!
//! ```text
//! batch     "HYLB" | version u16 | messages u16 | first u64 | created_at_ms u64 | append id [16]
//!           | crc u32 of the bytes before
//! message   kind u8: 0 head, 1 body | length u32 | crc u32 | payload
//! marker    "HYLE" | version u16 | instance [16] | crc u32 of the bytes before
//! ```
//! The checksum of a message covers its sequence, kind, length and payload, so swapped messages are noticed.
//! The append id is random: the bytes of two appends differ although their messages are equal.
//! Invariant: each damage is an error with the offset at which it was found. The magic, the version, and the position of
//! the checksum at the end of the first 44 or 26 bytes are the same in every version, so a newer object is not mistaken for a
//! damaged one.

use bytes::{BufMut, Bytes, BytesMut};
use crc32fast::Hasher;

use crate::message::{BATCH_MESSAGES_MAX, LogMessage, MESSAGE_BYTES_MAX, MessageKind};

/// Version that is written, and the newest that is read.
const VERSION: u16 = 1;

const BATCH_MAGIC: &[u8; 4] = b"HYLB";
const MARKER_MAGIC: &[u8; 4] = b"HYLE";

/// Length of the fields before the first message.
pub(super) const BATCH_HEADER_BYTES: usize = 44;

/// Length of the fields before the payload of a message.
const MESSAGE_HEADER_BYTES: usize = 9;

/// Length of a marker.
pub(super) const MARKER_BYTES: usize = 26;

/// Length of the largest batch.
pub(super) const BATCH_BYTES_MAX: usize =
    BATCH_HEADER_BYTES + BATCH_MESSAGES_MAX * (MESSAGE_HEADER_BYTES + MESSAGE_BYTES_MAX);

/// Why an object cannot be decoded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ObjectError {
    /// Its bytes are not those that were written.
    #[error("damaged at byte {offset}: {problem}")]
    Damaged { offset: usize, problem: String },
    /// Another version of the program wrote it.
    #[error("format version {found}, this program reads {VERSION}; upgrade readers before writers")]
    Version { found: u16 },
}

impl ObjectError {
    fn describe_damage(offset: usize, problem: impl Into<String>) -> Self {
        Self::Damaged { offset, problem: problem.into() }
    }
}

/// Facts about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchHeader {
    /// Sequence of the first message.
    pub(super) first: u64,
    /// Wall clock of the writer, in milliseconds since 1970. Only the age limit uses it.
    pub(super) created_at_ms: u64,
    /// Random number of the append.
    pub(super) append_id: [u8; 16],
}

/// Encodes a batch that `check_batch` has accepted.
pub(super) fn encode_batch(header: &BatchHeader, batch: &[LogMessage]) -> Bytes {
    let payload_bytes: usize = batch.iter().map(|message| message.payload.len()).sum();
    let mut bytes = BytesMut::with_capacity(
        BATCH_HEADER_BYTES + batch.len() * MESSAGE_HEADER_BYTES + payload_bytes,
    );
    bytes.put_slice(BATCH_MAGIC);
    bytes.put_u16_le(VERSION);
    bytes.put_u16_le(batch.len() as u16);
    bytes.put_u64_le(header.first);
    bytes.put_u64_le(header.created_at_ms);
    bytes.put_slice(&header.append_id);
    bytes.put_u32_le(crc32fast::hash(&bytes));
    for (sequence, message) in (header.first..).zip(batch) {
        let kind = encode_kind(message.kind);
        bytes.put_u8(kind);
        bytes.put_u32_le(message.payload.len() as u32);
        bytes.put_u32_le(hash_message(sequence, kind, &message.payload));
        bytes.put_slice(&message.payload);
    }
    bytes.freeze()
}

/// Decodes the fields before the first message.
pub(super) fn decode_header(bytes: &[u8]) -> Result<BatchHeader, ObjectError> {
    decode_header_and_count(bytes).map(|(header, _)| header)
}

/// Decodes a batch. `first` is the sequence of its first message according to its key. The payloads share its memory.
pub(super) fn decode_batch(bytes: &Bytes, first: u64) -> Result<Vec<LogMessage>, ObjectError> {
    let (header, count) = decode_header_and_count(bytes)?;
    if header.first != first {
        let problem = format!("begins at message {}, its name says {first}", header.first);
        return Err(ObjectError::describe_damage(8, problem));
    }
    if count == 0 || usize::from(count) > BATCH_MESSAGES_MAX {
        let problem = format!("{count} messages, the limit is {BATCH_MESSAGES_MAX}");
        return Err(ObjectError::describe_damage(6, problem));
    }
    let mut offset = BATCH_HEADER_BYTES;
    let mut messages = Vec::with_capacity(usize::from(count));
    for sequence in (first..).take(usize::from(count)) {
        let message = decode_message(bytes, offset, sequence)?;
        offset += MESSAGE_HEADER_BYTES + message.payload.len();
        messages.push(message);
    }
    if offset != bytes.len() {
        let problem = format!("{} bytes follow the last message", bytes.len() - offset);
        return Err(ObjectError::describe_damage(offset, problem));
    }
    Ok(messages)
}

/// Encodes the marker of a generation.
pub(super) fn encode_marker(instance: [u8; 16]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(MARKER_BYTES);
    bytes.put_slice(MARKER_MAGIC);
    bytes.put_u16_le(VERSION);
    bytes.put_slice(&instance);
    bytes.put_u32_le(crc32fast::hash(&bytes));
    bytes.freeze()
}

/// Decodes the marker of a generation. Returns its instance.
pub(super) fn decode_marker(bytes: &[u8]) -> Result<[u8; 16], ObjectError> {
    check_head(bytes, MARKER_MAGIC, MARKER_BYTES)?;
    if bytes.len() > MARKER_BYTES {
        return Err(ObjectError::describe_damage(MARKER_BYTES, "it is too long"));
    }
    read_array(bytes, 6)
}

fn decode_header_and_count(bytes: &[u8]) -> Result<(BatchHeader, u16), ObjectError> {
    check_head(bytes, BATCH_MAGIC, BATCH_HEADER_BYTES)?;
    let header = BatchHeader {
        first: u64::from_le_bytes(read_array(bytes, 8)?),
        created_at_ms: u64::from_le_bytes(read_array(bytes, 16)?),
        append_id: read_array(bytes, 24)?,
    };
    Ok((header, u16::from_le_bytes(read_array(bytes, 6)?)))
}

/// Checks magic, checksum and version of the first `length` bytes.
fn check_head(bytes: &[u8], magic: &[u8; 4], length: usize) -> Result<(), ObjectError> {
    let found: [u8; 4] = read_array(bytes, 0)?;
    if found != *magic {
        return Err(ObjectError::describe_damage(0, "it is not an object of a log"));
    }
    let crc_offset = length - 4;
    let expected = u32::from_le_bytes(read_array(bytes, crc_offset)?);
    check_crc(crc_offset, expected, crc32fast::hash(&bytes[..crc_offset]))?;
    // After the checksum: a flipped bit of the version is damage.
    let found = u16::from_le_bytes(read_array(bytes, 4)?);
    if found == VERSION { Ok(()) } else { Err(ObjectError::Version { found }) }
}

fn decode_message(bytes: &Bytes, offset: usize, sequence: u64) -> Result<LogMessage, ObjectError> {
    let [kind]: [u8; 1] = read_array(bytes, offset)?;
    let length = u32::from_le_bytes(read_array(bytes, offset + 1)?) as usize;
    let expected = u32::from_le_bytes(read_array(bytes, offset + 5)?);
    if length > MESSAGE_BYTES_MAX {
        let problem = format!("message of {length} bytes, the limit is {MESSAGE_BYTES_MAX}");
        return Err(ObjectError::describe_damage(offset + 1, problem));
    }
    let begin = offset + MESSAGE_HEADER_BYTES;
    if bytes.len() < begin + length {
        return Err(describe_end(bytes));
    }
    let payload = bytes.slice(begin..begin + length);
    check_crc(offset + 5, expected, hash_message(sequence, kind, &payload))?;
    let kind = match kind {
        0 => MessageKind::Head,
        1 => MessageKind::Body,
        _ => return Err(ObjectError::describe_damage(offset, format!("message of kind {kind}"))),
    };
    Ok(LogMessage { kind, payload })
}

const fn encode_kind(kind: MessageKind) -> u8 {
    match kind {
        MessageKind::Head => 0,
        MessageKind::Body => 1,
    }
}

fn hash_message(sequence: u64, kind: u8, payload: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&sequence.to_le_bytes());
    hasher.update(&[kind]);
    hasher.update(&(payload.len() as u32).to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

fn check_crc(offset: usize, expected: u32, found: u32) -> Result<(), ObjectError> {
    if expected == found {
        return Ok(());
    }
    Err(ObjectError::describe_damage(
        offset,
        format!("checksum {found:08x}, expected {expected:08x}"),
    ))
}

fn read_array<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], ObjectError> {
    let array = bytes.get(offset..offset + N).and_then(|slice| slice.try_into().ok());
    array.ok_or_else(|| describe_end(bytes))
}

fn describe_end(bytes: &[u8]) -> ObjectError {
    ObjectError::describe_damage(bytes.len(), "it ends here")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: BatchHeader =
        BatchHeader { first: 41, created_at_ms: 1_700_000_000_000, append_id: [7; 16] };

    fn sample_batch() -> Vec<LogMessage> {
        vec![
            LogMessage::head(Bytes::from_static(b"head")),
            LogMessage::body(Bytes::new()),
            LogMessage::body(Bytes::from_static(b"a longer body")),
        ]
    }

    #[test]
    fn a_batch_is_the_same_after_a_round_trip() {
        let bytes = encode_batch(&HEADER, &sample_batch());
        assert_eq!(decode_batch(&bytes, 41), Ok(sample_batch()));
        assert_eq!(decode_header(&bytes[..BATCH_HEADER_BYTES]), Ok(HEADER));
    }

    #[test]
    fn each_flipped_bit_is_an_error() {
        let bytes = encode_batch(&HEADER, &sample_batch());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            decode_batch(&damaged.into(), 41).expect_err("a bit is flipped");
        }
    }

    #[test]
    fn each_cut_and_each_added_byte_is_an_error() {
        let bytes = encode_batch(&HEADER, &sample_batch());
        for length in 0..bytes.len() {
            decode_batch(&bytes.slice(..length), 41).expect_err("it is cut");
        }
        let longer: Bytes = [&bytes[..], b"x"].concat().into();
        let damage = decode_batch(&longer, 41).expect_err("a byte follows");
        let expected = format!("damaged at byte {}: 1 bytes follow the last message", bytes.len());
        assert_eq!(damage.to_string(), expected);
    }

    #[test]
    fn a_batch_of_another_name_or_version_is_refused() {
        let bytes = encode_batch(&HEADER, &sample_batch());
        let damage = decode_batch(&bytes, 42).expect_err("it begins at 41");
        assert_eq!(damage.to_string(), "damaged at byte 8: begins at message 41, its name says 42");
        let newer = seal_as_newer(&bytes, BATCH_HEADER_BYTES);
        let error = decode_batch(&newer, 41).expect_err("it is newer");
        assert_eq!(error, ObjectError::Version { found: 2 });
        assert!(error.to_string().contains("upgrade readers before writers"), "{error}");
        let marker = seal_as_newer(&encode_marker([9; 16]), MARKER_BYTES);
        assert_eq!(decode_marker(&marker), Err(ObjectError::Version { found: 2 }));
    }

    #[test]
    fn a_flipped_bit_of_the_version_is_damage() {
        let mut bytes = encode_batch(&HEADER, &sample_batch()).to_vec();
        bytes[4] ^= 2;
        let error = decode_batch(&bytes.into(), 41).expect_err("a bit is flipped");
        assert!(matches!(error, ObjectError::Damaged { .. }), "{error}");
    }

    /// Returns an object as version 2 would write it: the same head, with its checksum.
    fn seal_as_newer(bytes: &Bytes, head_bytes: usize) -> Bytes {
        let mut newer = bytes.to_vec();
        newer[4] = 2;
        let crc_offset = head_bytes - 4;
        let crc = crc32fast::hash(&newer[..crc_offset]);
        newer[crc_offset..head_bytes].copy_from_slice(&crc.to_le_bytes());
        newer.into()
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let batch = [LogMessage::head(Bytes::from_static(b"abc"))];
        let bytes = encode_batch(&HEADER, &batch);
        let hash = crc32fast::hash(&bytes);
        assert_eq!(bytes.len(), BATCH_HEADER_BYTES + MESSAGE_HEADER_BYTES + 3);
        assert_eq!(&bytes[..8], b"HYLB\x01\x00\x01\x00");
        assert_eq!(hash, GOLDEN_HASH, "{hash:08x}");
    }

    /// CRC-32 of the sample of version 1.
    const GOLDEN_HASH: u32 = 0xa76a_af3b;

    #[test]
    fn a_marker_is_the_same_after_a_round_trip_and_not_after_damage() {
        let bytes = encode_marker([9; 16]);
        assert_eq!(decode_marker(&bytes), Ok([9; 16]));
        for index in 0..MARKER_BYTES {
            let mut damaged = bytes.to_vec();
            damaged[index] ^= 0x10;
            decode_marker(&damaged).expect_err("a bit is flipped");
            decode_marker(&bytes[..index]).expect_err("it is cut");
        }
    }
}
