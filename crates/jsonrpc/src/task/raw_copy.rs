//! Raw bytes as the result of a call, chunk by chunk, so that a long value is compressed and sent in time slices.
//!
//! Bounds: a chunk has [`RESULT_CHUNK_BYTES`].

use bytes::Bytes;
use cpu_pool::TimeSlice;
use response_cache::RESULT_CHUNK_BYTES;

use crate::error::RpcError;
use crate::method_output::{StreamState, StreamedResult};

/// Copies raw bytes into the output of a task.
pub(super) struct RawCopy(Bytes);

impl RawCopy {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl StreamedResult for RawCopy {
    fn write(&mut self, _: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        let chunk = self.0.split_to(self.0.len().min(RESULT_CHUNK_BYTES));
        out.extend_from_slice(&chunk);
        Ok(if self.0.is_empty() { StreamState::Done } else { StreamState::More })
    }
}
