//! Results that are computed in steps before the first byte is written: pages, largest accounts.
//!
//! Bounds: each query bounds its own memory.

use pool::TimeSlice;

use super::{MethodOutput, MethodResult, OutputKind, PREFIX, StreamState, StreamedResult};
use crate::error::RpcError;

/// Records read in a step: some tens of microseconds.
pub(super) const VISITS: usize = 128;

/// A query that computes a result in steps.
pub(super) trait IncrementalQuery: Send {
    /// Continues for some tens of microseconds. Returns the result once it is known.
    fn step(&mut self) -> Result<Option<MethodOutput>, RpcError>;

    /// Number of records read so far.
    fn records_visited(&self) -> u64;
}

/// The result of `query`.
pub(super) fn run_incremental(query: impl IncrementalQuery + 'static) -> MethodResult {
    Ok(MethodOutput::streamed(IncrementalResult { query, result: None }))
}

struct IncrementalResult<Q> {
    query: Q,
    result: Option<Box<dyn StreamedResult>>,
}

impl<Q: IncrementalQuery> StreamedResult for IncrementalResult<Q> {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        if let Some(stream) = &mut self.result {
            return stream.write(slice, out);
        }
        loop {
            match self.query.step()?.map(MethodOutput::into_kind) {
                None if slice.is_over() => return Ok(StreamState::More),
                None => {}
                Some(OutputKind::Full(bytes)) => {
                    out.extend_from_slice(&bytes[PREFIX.len()..]); // the bytes start with it
                    return Ok(StreamState::Done);
                }
                Some(OutputKind::Streamed(stream)) => {
                    self.result = Some(stream);
                    return Ok(StreamState::More);
                }
            }
        }
    }

    fn records_visited(&self) -> u64 {
        self.query.records_visited()
    }
}
