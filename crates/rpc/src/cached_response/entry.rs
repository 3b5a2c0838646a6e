//! A cached response: the encoded value, and the envelope that is written around it for each request.
//!
//! Invariant: the bytes that are sent are one gzip member, one zstd frame, or plain text.
//! Not here: encoding ([`super::encoder`]), the cache itself ([`super::store`]).

use bytes::Bytes;
use cache::Weight;

use super::framing::{gzip_frame, zstd_raw_blocks};
use crate::content_encoding::ContentEncoding;
use crate::etag::Validator;
use crate::result_context::ResultContext;

/// Magic number, frame header and window: the start of a zstd frame of unknown length.
pub(super) const ZSTD_HEAD_BYTES: usize = 6;

/// Bytes of a value that are in its metadata: its first members.
pub(crate) const META_PREFIX_BYTES: usize = 512;

/// A response without envelope and slot.
pub(crate) struct CachedResponse {
    /// The context of the value, if it has one.
    pub(super) context: Option<ResultContext>,
    /// The encoded value.
    pub(super) chunks: Vec<Bytes>,
    /// First bytes of the value, not encoded.
    pub(super) prefix: Vec<u8>,
    /// Hash of the encoded value.
    pub(super) etag: Validator,
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

    /// The context of the value, with `slot` as its slot, if it has one.
    pub(crate) fn context_at(&self, slot: u64) -> Option<ResultContext> {
        self.context.map(|context| context.at(slot))
    }

    /// The value between two byte strings, which are framed without compression.
    pub(crate) fn framed(&self, head: Vec<u8>, tail: Vec<u8>) -> Vec<Bytes> {
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

    /// The value alone.
    pub(crate) fn value_body(&self) -> Vec<Bytes> {
        self.framed(Vec::new(), Vec::new())
    }

    /// The first bytes of the value, not encoded.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Hash of the encoded value.
    pub(crate) fn etag(&self) -> Validator {
        self.etag
    }
}
