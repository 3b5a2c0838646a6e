//! An answer that is made for the cache and collected plain, until it is whole or given up.
//!
//! Bounds: as much as the cache keeps of one answer, and the share of what is collected ([`crate::held`]).
//! Invariant: whoever waits for it is told, whatever becomes of it.
//! Not here: coding what is whole ([`super::coder`]).

use cache::{Entry, FillGuard};
use pool::ClientId;

use super::entry::CachedResponse;
use super::store::ResponseCache;
use crate::content_encoding::ContentEncoding;
use crate::memory_budget::CollectedResponse;

/// An answer on its way into the cache.
pub(crate) struct ResponseBuilder {
    pub(super) fill: FillGuard<CachedResponse>,
    pub(super) valid_at: u64,
    pub(super) dependencies: Box<[u64]>,
    pub(super) coding: ContentEncoding,
    pub(super) collected: CollectedResponse,
}

/// Why an answer is not kept after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotCached {
    /// It is larger than one answer may be.
    TooLarge,
    /// Too many are being collected.
    OverBudget,
}

impl NotCached {
    /// As the log says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "too large",
            Self::OverBudget => "no room",
        }
    }
}

impl ResponseBuilder {
    pub(crate) fn new(
        answers: &ResponseCache,
        fill: FillGuard<CachedResponse>,
        valid_at: u64,
        dependencies: Box<[u64]>,
        (coding, client): (ContentEncoding, ClientId),
    ) -> Self {
        let collected = CollectedResponse::new(&answers.budget, client);
        Self { fill, valid_at, dependencies, coding, collected }
    }

    /// Whether there is room for what is collected and more. If all of it is held, the cache gives up some.
    pub(crate) fn has_budget(&self) -> bool {
        let (cache, room) = (self.fill.cache(), self.collected.budget());
        if room.is_full() {
            cache.evict_for(self.fill.bytes_max());
        }
        !room.is_full() && self.collected.bytes() < self.collected.limit(cache.bytes())
    }

    /// Takes the next part of the reply. If it is not to be kept after all, why, and all parts of it.
    pub(crate) fn collect(mut self, part: Vec<u8>) -> Result<Self, (NotCached, CollectedResponse)> {
        self.collected.push(part);
        if self.collected.bytes() > self.fill.bytes_max() {
            return Err((NotCached::TooLarge, self.abort(NotCached::TooLarge)));
        }
        if !self.has_budget() {
            return Err((NotCached::OverBudget, self.abort(NotCached::OverBudget)));
        }
        Ok(self)
    }

    /// How much of the reply was collected.
    pub(crate) fn bytes(&self) -> u64 {
        self.collected.bytes()
    }

    /// Whoever waits for it is told at once; that it is too large is told to all who ask next as well.
    fn abort(self, why: NotCached) -> CollectedResponse {
        let entry = Entry { value: None, valid_at: self.valid_at, dependencies: self.dependencies };
        match why {
            NotCached::TooLarge => drop(self.fill.complete(entry)),
            NotCached::OverBudget => self.fill.abort(entry),
        }
        self.collected
    }
}
