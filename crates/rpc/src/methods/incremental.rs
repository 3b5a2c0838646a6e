//! Answers that are looked for in steps before any of them is there: pages, the largest of many.
//!
//! Bounds: what a search keeps, it bounds itself.

use pool::TimeSlice;

use super::{MethodOutput, MethodResult, OutputKind, PREFIX, StreamState, StreamedResult};
use crate::error::RpcError;

/// Records looked at in a step: some tens of microseconds.
pub(super) const VISITS: usize = 128;

/// What looks for an answer.
pub(super) trait IncrementalQuery: Send {
    /// Looks on for some tens of microseconds; the answer, once it is known.
    fn step(&mut self) -> Result<Option<MethodOutput>, RpcError>;

    /// How many records were looked at so far.
    fn records_visited(&self) -> u64;
}

/// The answer that is found.
pub(super) fn run_incremental(search: impl IncrementalQuery + 'static) -> MethodResult {
    Ok(MethodOutput::streamed(IncrementalResult { query: search, result: None }))
}

struct IncrementalResult<S> {
    query: S,
    result: Option<Box<dyn StreamedResult>>,
}

impl<S: IncrementalQuery> StreamedResult for IncrementalResult<S> {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        if let Some(found) = &mut self.result {
            return found.write(slice, out);
        }
        loop {
            match self.query.step()?.map(MethodOutput::into_kind) {
                None if slice.is_over() => return Ok(StreamState::More),
                None => {}
                Some(OutputKind::Full(bytes)) => {
                    out.extend_from_slice(&bytes[PREFIX.len()..]); // it begins with that
                    return Ok(StreamState::Done);
                }
                Some(OutputKind::Streamed(pieces)) => {
                    self.result = Some(pieces);
                    return Ok(StreamState::More);
                }
            }
        }
    }

    fn records_visited(&self) -> u64 {
        self.query.records_visited()
    }
}
