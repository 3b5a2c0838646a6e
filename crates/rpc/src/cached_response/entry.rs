//! One answer as it is kept: the value, and what is written around it for who asks.
//!
//! Invariant: what goes out is one member of gzip, one frame of zstd, or plain text.
//! Not here: how it is coded ([`super::coder`]), which are kept ([`super::store`]).

use bytes::Bytes;
use cache::Weight;

use super::framing::{gzip_frame, zstd_raw_blocks};
use crate::content_encoding::ContentEncoding;
use crate::envelope::Id;
use crate::methods::close_response;
use crate::value_response::ResponseMeta;

/// Magic, frame header, window: what a zstd frame of unknown length begins with.
pub(super) const ZSTD_HEAD_BYTES: usize = 6;

/// An answer without slot and id.
pub(crate) struct CachedResponse {
    /// Up to the slot, or to the result if it has none.
    pub(super) head: Vec<u8>,
    pub(super) has_slot: bool,
    /// From the slot to the value.
    pub(super) middle: Vec<u8>,
    /// The value.
    pub(super) chunks: Vec<Bytes>,
    /// Its first bytes, as they are.
    pub(super) prefix: Vec<u8>,
    /// Of its bytes, as they are coded.
    pub(super) etag: [u8; 16],
    pub(super) encoded_as: EncodedAs,
}

/// What is needed to put something around it.
pub(super) enum EncodedAs {
    Plain,
    /// The checksum of the plain bytes, and how many they are.
    Gzip(crc32fast::Hasher, u64),
    Zstd([u8; ZSTD_HEAD_BYTES]),
}

impl Weight for CachedResponse {
    fn bytes(&self) -> u64 {
        self.chunks.iter().map(|piece| piece.len() as u64).sum()
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

    /// The reply to request `id`, true at `slot`.
    pub(crate) fn response_body(&self, slot: u64, id: &Id) -> Vec<Bytes> {
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        self.write_head(slot, &mut head);
        self.write_end(&mut tail);
        close_response(&mut tail, id);
        tail.push(b'\n');
        self.frame(head, tail)
    }

    /// The same as one of several in a batch, if it is plain.
    pub(crate) fn batch_response_body(&self, slot: u64, id: &Id) -> Vec<Bytes> {
        let mut reply = self.response_body(slot, id);
        if let Some(tail) = reply.last_mut() {
            tail.truncate(tail.len() - 1); // the newline, which is never alone
        }
        reply
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

    /// What is told of the value, true at `slot`.
    pub(crate) fn meta(&self, slot: u64) -> ResponseMeta {
        ResponseMeta {
            slot: self.has_slot.then_some(slot),
            prefix: self.prefix.clone(),
            etag: Some(self.etag),
            ..ResponseMeta::default()
        }
    }

    /// The value between two things that are not coded.
    fn frame(&self, head: Vec<u8>, tail: Vec<u8>) -> Vec<Bytes> {
        let (head, tail) = match &self.encoded_as {
            EncodedAs::Plain => (head, tail),
            EncodedAs::Gzip(crc, bytes) => gzip_frame((crc, *bytes), &head, &tail),
            EncodedAs::Zstd(begin) => {
                let head = [&begin[..], &zstd_raw_blocks(&head, false)].concat();
                (head, zstd_raw_blocks(&tail, true))
            }
        };
        let mut reply = Vec::with_capacity(self.chunks.len() + 2);
        reply.push(head.into());
        reply.extend(self.chunks.iter().cloned());
        reply.push(tail.into());
        reply.retain(|part| !part.is_empty());
        reply
    }
}
