//! A kept answer as one of a batch.
//!
//! Bounds: a piece ends with the part of the answer that fills [`RESULT_CHUNK_BYTES`].
//! Not here: a kept answer alone, whose parts are sent as they are ([`Covered::reply`]).

use std::sync::Arc;

use cache::Entry;
use pool::TimeSlice;

use super::entry::CachedResponse;
use crate::content_encoding::ContentEncoding;
use crate::error::RpcError;
use crate::methods::{RESULT_CHUNK_BYTES, StreamState, StreamedResult};

/// A kept answer on its way into a batch, part by part: it is held, and never copied as a whole.
pub(crate) struct ResponseCopy {
    entry: Arc<Entry<CachedResponse>>,
    copied: usize,
}

impl ResponseCopy {
    /// Appends the beginning of the reply, true at `slot`; `None` if there is no answer, or it is compressed.
    pub(crate) fn start(
        entry: Arc<Entry<CachedResponse>>,
        slot: u64,
        out: &mut Vec<u8>,
    ) -> Option<Self> {
        let kept = entry.value.as_ref()?;
        if kept.coding() != ContentEncoding::Plain {
            return None;
        }
        kept.write_head(slot, out);
        Some(Self { entry, copied: 0 })
    }
}

impl StreamedResult for ResponseCopy {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        let kept = self.entry.value.as_ref().ok_or_else(RpcError::internal)?;
        while let Some(part) = kept.chunks.get(self.copied) {
            if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                return Ok(StreamState::More);
            }
            out.extend_from_slice(part);
            self.copied += 1;
        }
        kept.write_end(out);
        Ok(StreamState::Done)
    }
}
