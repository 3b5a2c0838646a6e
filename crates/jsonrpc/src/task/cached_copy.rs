//! A cached response as part of a batch.
//!
//! Bounds: a chunk ends after the part of the response that fills [`RESULT_CHUNK_BYTES`].
//! Not here: a cached response to a single call, whose parts are sent without a copy
//! ([`CachedResponse::frame`]).

use std::sync::Arc;

use cache::Entry;
use cpu_pool::TimeSlice;
use http_server::ContentEncoding;
use response_cache::{CachedResponse, RESULT_CHUNK_BYTES, ResultContext};

use crate::error::RpcError;
use crate::method_output::{StreamState, StreamedResult};

/// Copies a cached response into a batch, part by part. The entry stays referenced, and is never copied as a
/// whole.
pub(crate) struct ResponseCopy {
    entry: Arc<Entry<CachedResponse>>,
    copied: usize,
}

impl ResponseCopy {
    /// The value of an entry; `None` if the entry has no value, or it is compressed.
    pub(crate) fn new(entry: Arc<Entry<CachedResponse>>) -> Option<Self> {
        let is_plain = entry.value.as_ref()?.coding() == ContentEncoding::Plain;
        is_plain.then_some(Self { entry, copied: 0 })
    }

    /// The context of the value, with `slot` as its slot.
    pub(crate) fn context_at(&self, slot: u64) -> Option<ResultContext> {
        self.entry.value.as_ref()?.context_at(slot)
    }
}

impl StreamedResult for ResponseCopy {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        let cached = self.entry.value.as_ref().ok_or_else(RpcError::internal)?;
        while let Some(part) = cached.chunks().get(self.copied) {
            if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                return Ok(StreamState::More);
            }
            out.extend_from_slice(part);
            self.copied += 1;
        }
        Ok(StreamState::Done)
    }
}
