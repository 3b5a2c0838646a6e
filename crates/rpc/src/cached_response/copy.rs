//! A cached response as part of a batch.
//!
//! Bounds: a chunk ends after the part of the response that fills [`RESULT_CHUNK_BYTES`].
//! Not here: a cached response to a single call, whose parts are sent without a copy
//! ([`CachedResponse::response_body`]).

use std::sync::Arc;

use cache::Entry;
use pool::TimeSlice;

use super::entry::CachedResponse;
use crate::content_encoding::ContentEncoding;
use crate::error::RpcError;
use crate::methods::{RESULT_CHUNK_BYTES, StreamState, StreamedResult};

/// Copies a cached response into a batch, part by part. The entry stays referenced, and is never copied as a
/// whole.
pub(crate) struct ResponseCopy {
    entry: Arc<Entry<CachedResponse>>,
    copied: usize,
}

impl ResponseCopy {
    /// Appends the start of the response, with `slot` in its context; `None` if the entry has no value, or it
    /// is compressed.
    pub(crate) fn start(
        entry: Arc<Entry<CachedResponse>>,
        slot: u64,
        out: &mut Vec<u8>,
    ) -> Option<Self> {
        let cached = entry.value.as_ref()?;
        if cached.coding() != ContentEncoding::Plain {
            return None;
        }
        cached.write_head(slot, out);
        Some(Self { entry, copied: 0 })
    }
}

impl StreamedResult for ResponseCopy {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        let cached = self.entry.value.as_ref().ok_or_else(RpcError::internal)?;
        while let Some(part) = cached.chunks.get(self.copied) {
            if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                return Ok(StreamState::More);
            }
            out.extend_from_slice(part);
            self.copied += 1;
        }
        cached.write_end(out);
        Ok(StreamState::Done)
    }
}
