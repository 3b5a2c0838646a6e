//! The answer cache with all that belongs to it, as a node has it.
//!
//! Bounds: the cache's bytes, a quarter more for what is collected or still sent, and [`MEMO_ENTRIES_MAX`] texts.
//! Not here: finding something in it ([`crate::look`]).

use std::sync::atomic::{AtomicU64, Ordering};

use cache::{Cache, Config, RequestMemo};

use super::entry::CachedResponse;
use crate::dependencies::ParsedCall;
use crate::etag::ProcessKey;
use crate::memory_budget::MemoryBudget;

/// The answer cache, and what names answers that it does not keep.
pub struct ResponseCache {
    pub(crate) cache: Cache<CachedResponse>,
    /// What answers may hold.
    pub(crate) budget: MemoryBudget,
    /// Of this start of the process alone.
    pub(crate) process_key: ProcessKey,
    /// What requests mean whose answers are kept, by their texts.
    pub(crate) memo: RequestMemo<ParsedCall>,
    memo_hits: AtomicU64,
}

/// Texts of requests that are known: 4 MB, and as much for what is known of them.
const MEMO_ENTRIES_MAX: usize = 8_192;

impl ResponseCache {
    /// A cache of so many bytes; 0 keeps nothing. One answer may have a sixteenth of it.
    pub fn new(bytes_max: u64) -> Self {
        let entry_bytes_max = bytes_max / 16;
        let cache = Cache::new(Config { bytes_max, entry_bytes_max, waiters_max: 4_096 });
        let (memo, memo_hits) = (RequestMemo::new(MEMO_ENTRIES_MAX), AtomicU64::new(0));
        let budget = MemoryBudget::new(bytes_max);
        Self { cache, budget, process_key: ProcessKey::new(), memo, memo_hits }
    }

    /// Bytes of answers that are collected, kept, or kept no more and not sent yet: at most the cache's and a
    /// quarter more.
    pub fn used_bytes(&self) -> u64 {
        self.budget.used_bytes()
    }

    /// What the cache has done and holds.
    pub fn counters(&self) -> cache::Counters {
        self.cache.counters()
    }

    /// Of the hits, those whose parameters were not even read, because the same text came before.
    pub fn memo_hits(&self) -> u64 {
        self.memo_hits.load(Ordering::Relaxed)
    }

    pub(crate) fn count_memo_hit(&self) {
        self.memo_hits.fetch_add(1, Ordering::Relaxed);
    }
}
