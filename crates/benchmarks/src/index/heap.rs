//! Exact heap bytes: what the process has asked the allocator for, now and at most.

use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Bytes on the heap now.
pub(crate) fn now() -> usize {
    HEAP.current_usage()
}

/// The most bytes that were on the heap since the last call of [`forget_peak`].
pub(crate) fn peak() -> usize {
    HEAP.peak_usage()
}

/// Begins a new peak at what is on the heap now.
pub(crate) fn forget_peak() {
    HEAP.reset_peak_usage();
}
