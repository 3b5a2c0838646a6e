//! Values that are computed in steps before the first byte is written: pages, largest accounts.
//!
//! Bounds: each query bounds its own memory.

use cpu_pool::TimeSlice;
use response_cache::ResultContext;

use crate::error::RpcError;
use crate::method_output::{MethodOutput, MethodResult, OutputBody, StreamState, StreamedResult};

/// Records read in a step: some tens of microseconds.
pub const VISITS: usize = 128;

/// A query that computes a value in steps.
pub trait IncrementalQuery: Send {
    /// Continues for some tens of microseconds. Returns the value once it is known.
    fn step(&mut self) -> Result<Option<OutputBody>, RpcError>;

    /// Number of records read so far.
    fn records_visited(&self) -> u64;
}

/// The value of `query`, in its context if it has one.
pub fn run_incremental(
    context: Option<ResultContext>,
    query: impl IncrementalQuery + 'static,
) -> MethodResult {
    Ok(MethodOutput::streamed(context, IncrementalValue { query, value: None }))
}

struct IncrementalValue<Q> {
    query: Q,
    value: Option<Box<dyn StreamedResult>>,
}

impl<Q: IncrementalQuery> StreamedResult for IncrementalValue<Q> {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        if let Some(stream) = &mut self.value {
            return stream.write(slice, out);
        }
        loop {
            match self.query.step()? {
                None if slice.is_over() => return Ok(StreamState::More),
                None => {}
                Some(OutputBody::Full(value)) => {
                    out.extend_from_slice(value.as_bytes());
                    return Ok(StreamState::Done);
                }
                Some(OutputBody::Streamed(stream)) => {
                    self.value = Some(stream);
                    return Ok(StreamState::More);
                }
            }
        }
    }

    fn records_visited(&self) -> u64 {
        self.query.records_visited()
    }
}
