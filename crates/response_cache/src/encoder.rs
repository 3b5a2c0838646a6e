//! Turns a collected value into a cache entry: encodes it chunk by chunk.
//!
//! Bounds: [`RESULT_CHUNK_BYTES`] are encoded at a time.
//! Not here: framing (`framing`), when it is encoded (the server).

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use cache::Entry;
use flate2::{Compress, Compression, FlushCompress};
use http_server::{COMPRESS_BYTES_MIN, ContentEncoding};

use crate::RESULT_CHUNK_BYTES;
use crate::builder::ResponseBuilder;
use crate::entry::{CachedResponse, EncodedAs, META_PREFIX_BYTES, ZSTD_HEAD_BYTES};
use crate::etag::short_hash;
use crate::memory_budget::CollectedResponse;
use crate::result_context::ResultContext;

/// A complete response that is being encoded.
pub struct ResponseEncoder {
    builder: ResponseBuilder,
    context: Option<ResultContext>,
    prefix: Bytes,
    /// The part that is not encoded yet.
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
    /// Creates the encoder of a value in its context. `last` is the last part of the value.
    pub fn into_encoder(
        mut self,
        context: Option<ResultContext>,
        last: Vec<u8>,
    ) -> std::io::Result<ResponseEncoder> {
        let empty = self.collected.empty_like();
        let mut body = std::mem::replace(&mut self.collected, empty);
        body.push(last);
        let is_short = body.bytes() < COMPRESS_BYTES_MIN as u64;
        let first = body.first_chunk();
        let prefix = first.slice(..first.len().min(META_PREFIX_BYTES));
        let codec = match if is_short { ContentEncoding::Plain } else { self.coding } {
            ContentEncoding::Plain => Codec::Plain,
            ContentEncoding::Gzip => Codec::Gzip(
                Box::new(Compress::new(Compression::fast(), false)),
                crc32fast::Hasher::new(),
            ),
            ContentEncoding::Zstd => Codec::Zstd(zstd::stream::write::Encoder::new(Vec::new(), 1)?),
        };
        let prefix = match codec {
            // It is a part of the chunks.
            Codec::Plain => prefix,
            // A slice would retain the plain bytes.
            Codec::Gzip(..) | Codec::Zstd(_) => Bytes::copy_from_slice(&prefix),
        };
        let chunks = Vec::new();
        let hasher = blake3::Hasher::new();
        Ok(ResponseEncoder { builder: self, context, prefix, body, chunks, hasher, codec })
    }
}

impl ResponseEncoder {
    /// Encodes a chunk; returns whether there is more.
    pub fn encode_chunk(&mut self) -> std::io::Result<bool> {
        let chunk = self.body.pop(RESULT_CHUNK_BYTES).unwrap_or_default();
        let is_last = self.body.is_empty();
        let budget = self.body.budget();
        match &mut self.codec {
            Codec::Plain => self.chunks.push(chunk),
            Codec::Gzip(compress, crc) => {
                crc.update(&chunk);
                let flush = if is_last { FlushCompress::Sync } else { FlushCompress::None };
                let encoded = deflate(compress, &chunk, flush)?;
                self.chunks.push(budget.track(encoded));
            }
            Codec::Zstd(encoder) => {
                encoder.write_all(&chunk)?;
                if is_last {
                    encoder.flush()?;
                }
                self.chunks.push(budget.track(std::mem::take(encoder.get_mut())));
            }
        }
        if let Some(encoded) = self.chunks.last() {
            self.hasher.update(encoded);
        }
        Ok(!is_last)
    }

    /// Completes the entry, which notifies the waiters; returns it with the slot at which it was computed.
    pub fn finish(self) -> (Arc<Entry<CachedResponse>>, u64) {
        let Self { builder, context, prefix, mut chunks, hasher, codec, .. } = self;
        let encoded_as = match codec {
            Codec::Plain => EncodedAs::Plain,
            Codec::Gzip(compress, crc) => EncodedAs::Gzip(crc, compress.total_in()),
            Codec::Zstd(_) => {
                let mut frame_head = [0; ZSTD_HEAD_BYTES];
                if let Some(first) = chunks.iter_mut().find(|chunk| chunk.len() >= frame_head.len())
                {
                    frame_head.copy_from_slice(&first.split_to(ZSTD_HEAD_BYTES));
                }
                EncodedAs::Zstd(frame_head)
            }
        };
        chunks.retain(|chunk| !chunk.is_empty());
        chunks.shrink_to_fit();
        let etag = short_hash(&hasher);
        let value = Some(CachedResponse { context, chunks, prefix, etag, encoded_as });
        let slot = context.map_or(0, |context| context.slot());
        let ResponseBuilder { fill, valid_at, dependencies, .. } = builder;
        (fill.complete(Entry { value, valid_at, dependencies }), slot)
    }
}

fn deflate(
    compress: &mut Compress,
    mut input: &[u8],
    flush: FlushCompress,
) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(input.len() / 4 + 1024);
    loop {
        let before = compress.total_in();
        compress.compress_vec(input, &mut out, flush)?;
        input = &input[(compress.total_in() - before) as usize..];
        // If `out` has spare capacity, all input was consumed, and flushed if requested.
        if input.is_empty() && out.len() < out.capacity() {
            return Ok(out);
        }
        out.reserve(out.capacity().max(1024));
    }
}
