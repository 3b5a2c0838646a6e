//! A response that is computed for the cache, and collected unencoded until it is complete or abandoned.
//!
//! Bounds: the largest entry of the cache, and the limits on collected bytes (`memory_budget`).
//! Invariant: waiters are notified, whether the response is completed or abandoned.
//! Not here: encoding the collected response (`encoder`).

use cache::{Entry, FillGuard};
use clients::ClientId;
use http_server::ContentEncoding;

use crate::entry::CachedResponse;
use crate::memory_budget::CollectedResponse;
use crate::store::ResponseCache;

/// A response that is being collected for the cache.
pub struct ResponseBuilder {
    pub(crate) fill: FillGuard<CachedResponse>,
    pub(crate) valid_at: u64,
    pub(crate) dependencies: Box<[u64]>,
    pub(crate) coding: ContentEncoding,
    pub(crate) collected: CollectedResponse,
}

/// Why a response is not cached after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCached {
    /// The response is larger than a cache entry may be.
    TooLarge,
    /// The memory budget is used up.
    OverBudget,
}

impl NotCached {
    /// Returns the name of the reason in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "too large",
            Self::OverBudget => "no room",
        }
    }
}

impl ResponseBuilder {
    pub(crate) fn new(
        cache: &ResponseCache,
        fill: FillGuard<CachedResponse>,
        valid_at: u64,
        dependencies: Box<[u64]>,
        (coding, client): (ContentEncoding, ClientId),
    ) -> Self {
        let collected = CollectedResponse::new(&cache.budget, client);
        Self { fill, valid_at, dependencies, coding, collected }
    }

    /// Returns whether the budget allows to collect more. If the budget is used up, the cache evicts entries first.
    pub fn has_budget(&self) -> bool {
        let cache = self.fill.cache();
        let budget = self.collected.budget();
        if budget.is_full() {
            cache.evict_for(self.fill.bytes_max());
        }
        !budget.is_full() && self.collected.bytes() < self.collected.limit(cache.content_bytes())
    }

    /// Appends the next part of the response. Returns `Err` if the response cannot be cached after all: the reason, and
    /// all parts of it.
    pub fn collect(mut self, part: Vec<u8>) -> Result<Self, (NotCached, CollectedResponse)> {
        self.collected.push(part);
        if self.collected.bytes() > self.fill.bytes_max() {
            return Err((NotCached::TooLarge, self.abort(NotCached::TooLarge)));
        }
        if !self.has_budget() {
            return Err((NotCached::OverBudget, self.abort(NotCached::OverBudget)));
        }
        Ok(self)
    }

    /// Returns the number of collected bytes.
    pub fn bytes(&self) -> u64 {
        self.collected.bytes()
    }

    /// Notifies the waiters. The cache remembers that a response is too large, for later requests.
    fn abort(self, why: NotCached) -> CollectedResponse {
        let entry = Entry { value: None, valid_at: self.valid_at, dependencies: self.dependencies };
        match why {
            NotCached::TooLarge => drop(self.fill.complete(entry)),
            NotCached::OverBudget => self.fill.abort(entry),
        }
        self.collected
    }
}
