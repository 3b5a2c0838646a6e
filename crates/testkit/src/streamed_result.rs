//! Reads a streamed result as the CPU pool does, in as many parts as it has.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cpu_pool::{StoppedClock, TimeSlice};
use jsonrpc::{StreamState, StreamedResult};
use serde_json::Value;

/// A result that was read to its end.
pub struct ReadResult {
    /// The result as a value of JSON.
    pub value: Value,
    /// The number of parts in which it was written.
    pub parts: usize,
}

/// Reads a streamed result. Each time slice is over at once.
///
/// Panics if the result is an error, or is not JSON.
pub fn read_streamed_result(mut stream: impl StreamedResult) -> ReadResult {
    let cancelled = AtomicBool::new(false);
    let slice = TimeSlice::ending_at(&StoppedClock, Duration::ZERO, &cancelled);
    let mut out = Vec::new();
    let mut parts = 1;
    while stream.write(&slice, &mut out).expect("a result") == StreamState::More {
        parts += 1;
    }
    ReadResult { value: serde_json::from_slice(&out).expect("JSON"), parts }
}
