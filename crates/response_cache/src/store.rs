//! The response cache of a node, with its budget and counters.
//!
//! Bounds: the bytes of the cache, a quarter more for responses that are being collected or sent, and
//! [`MEMO_BYTES_MAX`] for texts.
//! Not here: lookup (`lookup`).

use std::sync::atomic::{AtomicU64, Ordering};

use cache::{Cache, Config, RequestMemo, TEXT_BYTES_MAX};
use clients::ClientId;

use crate::dependencies::ParsedCall;
use crate::entry::CachedResponse;
use crate::etag::ProcessKey;
use crate::memory_budget::{CollectedResponse, MemoryBudget};

/// The response cache, and the key for validators of responses that it does not store.
pub struct ResponseCache {
    pub(crate) cache: Cache<CachedResponse>,
    /// Memory budget of all responses.
    pub(crate) budget: MemoryBudget,
    /// Random key of this process, for validators.
    pub(crate) process_key: ProcessKey,
    /// Parsed calls with cached responses, by their texts.
    pub(crate) memo: RequestMemo<ParsedCall>,
    memo_hits: AtomicU64,
}

/// Bytes of request texts and parsed calls in the memo: about 7,000 of the longest texts, or 30,000 short ones.
const MEMO_BYTES_MAX: u64 = 8 * 1024 * 1024;

impl ResponseCache {
    /// Creates a cache of `bytes_max` bytes; with 0 nothing is cached. An entry may have a sixteenth of it.
    pub fn new(bytes_max: u64) -> Self {
        let entry_bytes_max = bytes_max / 16;
        let cache = Cache::new(Config { bytes_max, entry_bytes_max, waiters_max: 4_096 });
        let memo = RequestMemo::new(MEMO_BYTES_MAX, TEXT_BYTES_MAX);
        let memo_hits = AtomicU64::new(0);
        let budget = MemoryBudget::new(bytes_max);
        Self { cache, budget, process_key: ProcessKey::new(), memo, memo_hits }
    }

    /// Returns the maximum bytes of cached responses.
    pub fn bytes_max(&self) -> u64 {
        self.cache.bytes_max()
    }

    /// Returns the bytes of responses that are being collected, are cached, or were evicted and are not sent yet: at
    /// most a quarter more than the cache's limit.
    pub fn used_bytes(&self) -> u64 {
        self.budget.used_bytes()
    }

    /// Creates an empty response to a client. Its bytes are counted although it is not cached.
    pub fn collect(&self, client: ClientId) -> CollectedResponse {
        CollectedResponse::new(&self.budget, client)
    }

    /// Returns the random key of this process, for validators.
    pub fn process_key(&self) -> &ProcessKey {
        &self.process_key
    }

    /// Returns the counters of the cache.
    pub fn counters(&self) -> cache::Counters {
        self.cache.counters()
    }

    /// Returns the number of hits without parsing, because the same text was received before.
    pub fn memo_hits(&self) -> u64 {
        self.memo_hits.load(Ordering::Relaxed)
    }

    pub(crate) fn count_memo_hit(&self) {
        self.memo_hits.fetch_add(1, Ordering::Relaxed);
    }
}
