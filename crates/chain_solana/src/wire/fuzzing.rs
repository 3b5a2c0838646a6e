//! Messages of a log that anyone may have written, without a log: for fuzzing and for golden files.
//!
//! A file of messages has for each one its kind (1: head, 0: body), its length in four bytes, and its bytes.

use bytes::Bytes;
use store::{ByteReader, ByteWriter, DecodeError};

use super::block_content::{read_accounts, read_rest};
use super::codec::append_account;
use super::head::{
    CHECKSUM_BYTES, TERM_REASON_BYTES_MAX, encode_marks, encode_snapshot, encode_term, read_head,
};
use super::marks::REVERT_ERROR_BYTES_MAX;
use super::reader::{ReadRecord, RecordReader};
use super::record::{EncodedRecord, Mark, Record, RecordDigest, WireAccount};
use crate::RevertReason;

/// A message of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whether it is the head of a record.
    pub is_head: bool,
    /// The bytes of the message.
    pub payload: Bytes,
}

/// Encodes the messages of a record as a file.
pub fn write_messages(record: &EncodedRecord) -> Vec<u8> {
    let EncodedRecord { head, bodies } = record;
    let mut out = ByteWriter::default();
    out.u8(1);
    out.bytes(head);
    for body in bodies {
        out.u8(0);
        out.bytes(body);
    }
    out.0
}

/// Reads the messages of a file, up to the first invalid one.
pub fn read_messages(file: &[u8]) -> Vec<Message> {
    let mut from = ByteReader::new(file);
    std::iter::from_fn(|| read_message(&mut from).ok()).collect()
}

/// Pushes the messages of a file into a reader. Returns the number of records that it accepts.
///
/// The checksums of heads are corrected first, and bodies are also decoded as whole sections, because an input that was
/// made from another one would not reach the decoders. Panics if a record or a section is encoded as other bytes than
/// were decoded.
pub fn check_messages(file: &[u8]) -> usize {
    let mut reader = RecordReader::new();
    let mut records = 0;
    for Message { is_head, payload } in read_messages(file) {
        let payload = if is_head { correct_checksum(&payload) } else { payload };
        if is_head {
            let _ = read_head(&payload);
        } else {
            check_sections(&payload);
        }
        match reader.push(is_head, payload) {
            Ok(Some(ReadRecord { record, digest })) => {
                check_record(&record, digest);
                records += 1;
            }
            Ok(None) => {}
            Err(_) => reader = RecordReader::new(),
        }
    }
    records
}

fn read_message(from: &mut ByteReader<'_>) -> Result<Message, DecodeError> {
    let is_head = from.bool("kind of a message")?;
    Ok(Message { is_head, payload: Bytes::copy_from_slice(from.bytes("message")?) })
}

fn correct_checksum(head: &Bytes) -> Bytes {
    let Some((content, _)) = head.split_last_chunk::<CHECKSUM_BYTES>() else {
        return head.clone();
    };
    [content, &crc32fast::hash(content).to_le_bytes()].concat().into()
}

fn check_sections(section: &[u8]) {
    let _ = read_rest(0, section);
    let Ok(accounts) = read_accounts(section) else { return };
    let mut out = ByteWriter::default();
    out.list(&accounts, |out, WireAccount { pubkey, account }| {
        out.key(pubkey.as_array());
        out.option(account.as_ref(), |out, account| append_account(account, out));
    });
    assert!(out.0 == section, "other accounts");
}

/// Checks that a record without bodies is encoded as it was read, unless the encoder cuts a text of it.
fn check_record(record: &Record, digest: RecordDigest) {
    let encoded = match record {
        Record::Block(_) => return,
        Record::Marks(record) if record.marks.iter().any(has_long_error) => return,
        Record::Marks(record) => encode_marks(record),
        Record::Term(record) if record.reason.len() > TERM_REASON_BYTES_MAX => return,
        Record::Term(record) => encode_term(record),
        Record::Snapshot(record) => encode_snapshot(record),
    };
    assert!(encoded.digest() == digest, "another record");
}

fn has_long_error(mark: &Mark) -> bool {
    let Mark::Reverted { reason: RevertReason::Dead { error }, .. } = mark else { return false };
    error.len() > REVERT_ERROR_BYTES_MAX
}
