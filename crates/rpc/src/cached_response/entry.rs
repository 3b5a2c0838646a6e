//! A cached response: the encoded value, and the envelope that is written around it for each request.
//!
//! Invariant: the bytes that are sent are one gzip member, one zstd frame, or plain text.
//! Not here: encoding ([`super::encoder`]), the cache itself ([`super::store`]).

use bytes::Bytes;
use cache::Weight;

use super::framing::{gzip_frame, zstd_raw_blocks};
use crate::content_encoding::ContentEncoding;
use crate::envelope::Id;
use crate::methods::close_response;
use crate::value_response::ResponseMeta;

/// Magic number, frame header and window: the start of a zstd frame of unknown length.
pub(super) const ZSTD_HEAD_BYTES: usize = 6;

/// A response without slot and id.
pub(crate) struct CachedResponse {
    /// Bytes up to the slot, or to the result if it has no slot.
    pub(super) head: Vec<u8>,
    pub(super) has_slot: bool,
    /// Bytes from the slot to the value.
    pub(super) middle: Vec<u8>,
    /// The encoded value.
    pub(super) chunks: Vec<Bytes>,
    /// First bytes of the value, not encoded.
    pub(super) prefix: Vec<u8>,
    /// Hash of the encoded value.
    pub(super) etag: [u8; 16],
    pub(super) encoded_as: EncodedAs,
}

/// The encoding, with what framing needs.
pub(super) enum EncodedAs {
    Plain,
    /// The checksum of the plain bytes, and their count.
    Gzip(crc32fast::Hasher, u64),
    Zstd([u8; ZSTD_HEAD_BYTES]),
}

impl Weight for CachedResponse {
    fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.len() as u64).sum()
    }
}

impl CachedResponse {
    pub(crate) fn coding(&self) -> ContentEncoding {
        match self.encoded_as {
            EncodedAs::Plain => ContentEncoding::Plain,
            EncodedAs::Gzip(..) => ContentEncoding::Gzip,
            EncodedAs::Zstd(_) => ContentEncoding::Zstd,
        }
    }

    /// The response to request `id`, with `slot` in its context.
    pub(crate) fn response_body(&self, slot: u64, id: &Id) -> Vec<Bytes> {
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        self.write_head(slot, &mut head);
        self.write_end(&mut tail);
        close_response(&mut tail, id);
        tail.push(b'\n');
        self.frame(head, tail)
    }

    /// The same as part of a batch, if it is plain.
    pub(crate) fn batch_response_body(&self, slot: u64, id: &Id) -> Vec<Bytes> {
        let mut response = self.response_body(slot, id);
        if let Some(tail) = response.last_mut() {
            tail.truncate(tail.len() - 1); // the newline, which is never a part of its own
        }
        response
    }

    /// Appends what precedes the value.
    pub(super) fn write_head(&self, slot: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        if self.has_slot {
            out.extend_from_slice(slot.to_string().as_bytes());
        }
        out.extend_from_slice(&self.middle);
    }

    /// Appends what follows the value within the result.
    pub(super) fn write_end(&self, out: &mut Vec<u8>) {
        if self.has_slot {
            out.push(b'}');
        }
    }

    /// The value alone.
    pub(crate) fn value_body(&self) -> Vec<Bytes> {
        self.frame(Vec::new(), Vec::new())
    }

    /// Metadata of the value, with `slot` as its slot.
    pub(crate) fn meta(&self, slot: u64) -> ResponseMeta {
        ResponseMeta {
            slot: self.has_slot.then_some(slot),
            prefix: self.prefix.clone(),
            etag: Some(self.etag),
            ..ResponseMeta::default()
        }
    }

    /// The value between two byte strings, which are framed without compression.
    fn frame(&self, head: Vec<u8>, tail: Vec<u8>) -> Vec<Bytes> {
        let (head, tail) = match &self.encoded_as {
            EncodedAs::Plain => (head, tail),
            EncodedAs::Gzip(crc, bytes) => gzip_frame((crc, *bytes), &head, &tail),
            EncodedAs::Zstd(frame_head) => {
                let head = [&frame_head[..], &zstd_raw_blocks(&head, false)].concat();
                (head, zstd_raw_blocks(&tail, true))
            }
        };
        let mut response = Vec::with_capacity(self.chunks.len() + 2);
        response.push(head.into());
        response.extend(self.chunks.iter().cloned());
        response.push(tail.into());
        response.retain(|part| !part.is_empty());
        response
    }
}
