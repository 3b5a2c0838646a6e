//! From a reply that was collected whole to what is kept of it: parted from slot and end, and coded piece by piece.
//!
//! Bounds: [`RESULT_CHUNK_BYTES`] are coded at a time.
//! Not here: what is put around it again ([`super::around`]), who codes and when ([`crate::job`]).

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use cache::Entry;
use flate2::{Compress, Compression, FlushCompress};

use super::builder::ResponseBuilder;
use super::entry::{CachedResponse, EncodedAs, ZSTD_HEAD_BYTES};
use crate::content_encoding::{COMPRESS_BYTES_MIN, ContentEncoding};
use crate::memory_budget::CollectedResponse;
use crate::methods::{PREFIX, RESULT_CHUNK_BYTES};
use crate::value_response::{self, META_PREFIX_BYTES};

/// What precedes the slot within a result that has a context.
const CONTEXT: &[u8] = br#"{"context":{"slot":"#;

/// A whole answer that is being coded.
pub(crate) struct ResponseEncoder {
    builder: ResponseBuilder,
    head: Vec<u8>,
    slot: Option<u64>,
    middle: Vec<u8>,
    prefix: Vec<u8>,
    /// What is not coded yet.
    body: CollectedResponse,
    chunks: Vec<Bytes>,
    hasher: blake3::Hasher,
    codec: Codec,
}

enum Codec {
    Plain,
    Gzip(Box<Compress>, crc32fast::Hasher),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl ResponseBuilder {
    /// Begins to code a reply up to the end of its result, of which these are the last bytes.
    pub(crate) fn into_encoder(mut self, mut last: Vec<u8>) -> std::io::Result<ResponseEncoder> {
        let bytes = self.collected.bytes() + last.len() as u64;
        let begins =
            if self.collected.is_empty() { &last[..] } else { self.collected.first_chunk() };
        let result = begins.get(PREFIX.len()..).unwrap_or_default();
        let (slot, context_len) = value_response::parse_context(result);
        // The context begins with its slot: what a context is, is said in one place.
        let slot = slot.filter(|_| result.starts_with(CONTEXT));
        let head_len = PREFIX.len() + slot.map_or(0, |_| CONTEXT.len());
        let slot_len = slot.map_or(0, |slot| slot.to_string().len());
        let value_at = PREFIX.len() + slot.map_or(0, |_| context_len);
        let head = begins[..head_len].to_vec();
        let middle = begins[head_len + slot_len..value_at].to_vec();
        if slot.is_some() {
            last.pop(); // the brace around context and value
        }
        let is_short = bytes < COMPRESS_BYTES_MIN as u64;
        let none = self.collected.empty_like();
        let mut body = std::mem::replace(&mut self.collected, none);
        body.push(last);
        body.drop_prefix(value_at);
        let beginning = body.first_chunk();
        let beginning = beginning[..beginning.len().min(META_PREFIX_BYTES)].to_vec();
        let by = match if is_short { ContentEncoding::Plain } else { self.coding } {
            ContentEncoding::Plain => Codec::Plain,
            ContentEncoding::Gzip => Codec::Gzip(
                Box::new(Compress::new(Compression::fast(), false)),
                crc32fast::Hasher::new(),
            ),
            ContentEncoding::Zstd => Codec::Zstd(zstd::stream::write::Encoder::new(Vec::new(), 1)?),
        };
        let (pieces, hasher) = (Vec::new(), blake3::Hasher::new());
        Ok(ResponseEncoder {
            builder: self,
            head,
            slot,
            middle,
            prefix: beginning,
            body,
            chunks: pieces,
            hasher,
            codec: by,
        })
    }
}

impl ResponseEncoder {
    /// Codes a piece; whether there is more.
    pub(crate) fn encode_chunk(&mut self) -> std::io::Result<bool> {
        let piece = self.body.pop(RESULT_CHUNK_BYTES).unwrap_or_default();
        let is_last = self.body.is_empty();
        let room = self.body.budget();
        match &mut self.codec {
            Codec::Plain => self.chunks.push(piece),
            Codec::Gzip(compress, crc) => {
                crc.update(&piece);
                let flush = if is_last { FlushCompress::Sync } else { FlushCompress::None };
                let coded = deflate(compress, &piece, flush)?;
                self.chunks.push(room.track(coded));
            }
            Codec::Zstd(encoder) => {
                encoder.write_all(&piece)?;
                if is_last {
                    encoder.flush()?;
                }
                self.chunks.push(room.track(std::mem::take(encoder.get_mut())));
            }
        }
        if let Some(coded) = self.chunks.last() {
            self.hasher.update(coded);
        }
        Ok(!is_last)
    }

    /// The answer, which is given to whoever waits; with the slot that it was made at.
    pub(crate) fn finish(self) -> (Arc<Entry<CachedResponse>>, u64) {
        let Self {
            builder: keeping,
            head,
            slot,
            middle,
            prefix: beginning,
            chunks: mut pieces,
            hasher,
            codec: by,
            ..
        } = self;
        let coded = match by {
            Codec::Plain => EncodedAs::Plain,
            Codec::Gzip(compress, crc) => EncodedAs::Gzip(crc, compress.total_in()),
            Codec::Zstd(_) => {
                let mut begin = [0; ZSTD_HEAD_BYTES];
                if let Some(first) = pieces.iter_mut().find(|piece| piece.len() >= begin.len()) {
                    begin.copy_from_slice(&first.split_to(ZSTD_HEAD_BYTES));
                }
                EncodedAs::Zstd(begin)
            }
        };
        pieces.retain(|piece| !piece.is_empty());
        let (has_slot, hash) = (slot.is_some(), value_response::short_hash(&hasher));
        let answer = Some(CachedResponse {
            head,
            has_slot,
            middle,
            chunks: pieces,
            prefix: beginning,
            etag: hash,
            encoded_as: coded,
        });
        let ResponseBuilder { fill, valid_at: made_at, dependencies: read, .. } = keeping;
        (
            fill.complete(Entry { value: answer, valid_at: made_at, dependencies: read }),
            slot.unwrap_or_default(),
        )
    }
}

fn deflate(
    compress: &mut Compress,
    mut from: &[u8],
    flush: FlushCompress,
) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(from.len() / 4 + 1024);
    loop {
        let before = compress.total_in();
        compress.compress_vec(from, &mut out, flush)?;
        from = &from[(compress.total_in() - before) as usize..];
        // With room left in `out` everything was taken, and flushed if that was asked.
        if from.is_empty() && out.len() < out.capacity() {
            return Ok(out);
        }
        out.reserve(out.capacity().max(1024));
    }
}
