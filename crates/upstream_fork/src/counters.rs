//! Counts of a fork: calls of the upstream, and what became of requests.

use std::sync::atomic::{AtomicU64, Ordering};

/// How a call of the upstream ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallEnd {
    Answered,
    Limited,
    Broken,
    Late,
    TooLong,
    Refused,
}

/// The names of [`CallEnd`], in its order.
pub(crate) const CALL_ENDS: [&str; 6] = ["ok", "limited", "broken", "late", "too_long", "refused"];

/// Counts since the start.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) calls: [AtomicU64; CALL_ENDS.len()],
    pub(crate) cache_hits: AtomicU64,
    pub(crate) cache_left_out: AtomicU64,
    pub(crate) failed_requests: AtomicU64,
    pub(crate) dropped_transactions: AtomicU64,
}

impl Counters {
    pub(crate) fn count_call(&self, end: CallEnd) {
        self.calls[end as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_cache_hits(&self, hits: usize) {
        self.cache_hits.fetch_add(hits as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_left_out(&self, records: usize) {
        self.cache_left_out.fetch_add(records as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_failed_request(&self) {
        self.failed_requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_dropped_transaction(&self) {
        self.dropped_transactions.fetch_add(1, Ordering::Relaxed);
    }
}
