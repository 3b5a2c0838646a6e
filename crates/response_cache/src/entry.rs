//! A cached response: the encoded value, and the envelope that is written around it for each request.
//!
//! Invariant: the bytes that are sent are one gzip member, one zstd frame, or plain text.
//! Not here: encoding (`encoder`), the cache itself (`store`).

use bytes::Bytes;
use cache::Weight;
use http_server::ContentEncoding;

use crate::etag::Validator;
use crate::framing::{gzip_frame, zstd_raw_blocks};
use crate::result_context::ResultContext;

/// Magic number, frame header and window: the start of a zstd frame of unknown length.
pub(crate) const ZSTD_HEAD_BYTES: usize = 6;

/// Bytes of a chunk in addition to its content: a [`Bytes`] in the list, and the owner that it refers to.
const CHUNK_BYTES: u64 = 96;

/// Bytes of a value that are in its metadata: its first members.
pub const META_PREFIX_BYTES: usize = 512;

/// A response without envelope and slot.
pub struct CachedResponse {
    /// The context of the value, if it has one.
    pub(crate) context: Option<ResultContext>,
    /// The encoded value, in chunks.
    pub(crate) chunks: Vec<Bytes>,
    /// First bytes of the value, not encoded: a part of the first chunk if that is not encoded either.
    pub(crate) prefix: Bytes,
    /// Hash of the encoded value, its validator.
    pub(crate) etag: Validator,
    pub(crate) encoded_as: EncodedAs,
}

/// The encoding of a value, with the state that framing needs.
pub(crate) enum EncodedAs {
    Plain,
    /// The checksum of the plain bytes, and their number.
    Gzip(crc32fast::Hasher, u64),
    Zstd([u8; ZSTD_HEAD_BYTES]),
}

impl Weight for CachedResponse {
    fn bytes(&self) -> u64 {
        let own_prefix = match self.encoded_as {
            EncodedAs::Plain => 0,
            EncodedAs::Gzip(..) | EncodedAs::Zstd(_) => self.prefix.len() as u64,
        };
        own_prefix + CHUNK_BYTES * self.chunks.len() as u64 + self.content_bytes()
    }

    // The head of a zstd frame is not included. The memory budget counts it with the first chunk: six bytes more.
    fn content_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.len() as u64).sum()
    }
}

impl CachedResponse {
    /// Returns the encoding of the value.
    pub fn coding(&self) -> ContentEncoding {
        match self.encoded_as {
            EncodedAs::Plain => ContentEncoding::Plain,
            EncodedAs::Gzip(..) => ContentEncoding::Gzip,
            EncodedAs::Zstd(_) => ContentEncoding::Zstd,
        }
    }

    /// Returns the parts of the encoded value.
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// Returns the context of the value, with `slot` as its slot, if it has one.
    pub fn context_at(&self, slot: u64) -> Option<ResultContext> {
        self.context.map(|context| context.at(slot))
    }

    /// Frames the value between two byte strings, without compressing these.
    pub fn frame(&self, head: Vec<u8>, tail: Vec<u8>) -> Vec<Bytes> {
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

    /// Returns the value without a response around it.
    pub fn value_body(&self) -> Vec<Bytes> {
        self.frame(Vec::new(), Vec::new())
    }

    /// Returns the first bytes of the value, not encoded.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Returns the hash of the encoded value.
    pub fn etag(&self) -> Validator {
        self.etag
    }
}
