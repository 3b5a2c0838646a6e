//! Exact heap bytes that the process has requested from the allocator: now, and the peak.

use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Bytes on the heap now.
pub(crate) fn now() -> usize {
    HEAP.current_usage()
}

/// The peak of heap bytes since the last call of [`forget_peak`].
pub(crate) fn peak() -> usize {
    HEAP.peak_usage()
}

/// Starts a new peak at the current heap bytes.
pub(crate) fn forget_peak() {
    HEAP.reset_peak_usage();
}
