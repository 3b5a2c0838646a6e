//! Looks up a call in the response cache: whether it is cacheable, whether it has a valid entry, and otherwise which
//! task computes it.
//!
//! Invariant: a task that gets a [`ResponseBuilder`] computes the response for all waiters, and waits for
//! nothing until it is complete. So no call waits forever, although calls wait as tasks of the pool. A call
//! never waits for another client's task that has not started, because its own task may start earlier.
//! Not here: waiting (`cache_fill`), running calls (the server).

use std::sync::Arc;

use cache::{CacheReader, Entry, FillStart, FillTicket, Lookup, OnFilled, WaitGuard};
use clients::ClientId;
use http_server::{COMPRESS_BYTES_MIN, ContentEncoding};
use ledger::Slot;

use crate::builder::{NotCached, ResponseBuilder};
use crate::dependencies::{CacheableCall, CallText, ParsedCall};
use crate::entry::CachedResponse;
use crate::ledger_versions::LedgerVersions;
use crate::store::ResponseCache;

/// A cached response that is valid now.
pub struct CacheHit {
    /// The entry of the cache, with the value.
    pub entry: Arc<Entry<CachedResponse>>,
    /// Slot for its context: that of the current view.
    pub slot: Slot,
}

/// The call of a lookup, its client and its ledger.
#[derive(Clone, Copy)]
pub struct LookupContext<'a> {
    /// The ledger from which the result is read.
    pub ledger: &'a dyn LedgerVersions,
    /// The text that identifies the call.
    pub text: CallText<'a>,
    /// The client that sent the call.
    pub client: ClientId,
}

/// Outcome of a lookup. `F` is the right to fill the cache.
pub enum LookupOutcome<F> {
    /// The cache has a valid response.
    Hit(CacheHit),
    /// This call computes the response for the cache.
    Fill(F),
    /// The response is computed for this call only; the reason, for the log.
    Uncached(&'static str),
}

/// Outcome of a lookup by a call that may wait.
pub enum LookupStep<F> {
    /// The lookup has ended without a wait.
    Ready(LookupOutcome<F>),
    /// Another task is computing the response, and will notify.
    Wait(WaitGuard<CachedResponse>),
}

impl<F> LookupStep<F> {
    fn hit(entry: Arc<Entry<CachedResponse>>, slot: Slot) -> Self {
        Self::Ready(LookupOutcome::Hit(CacheHit { entry, slot }))
    }

    fn ready_uncached(why: &'static str) -> Self {
        Self::Ready(LookupOutcome::Uncached(why))
    }
}

/// Returns the maximum bytes of cached responses in a batch that are sent where the socket is polled. They are not
/// copied.
pub fn inline_batch_bytes_max(coding: ContentEncoding) -> u64 {
    match coding {
        // As much as may wait for a client of any other response.
        ContentEncoding::Plain => 1024 * 1024,
        // A longer response would be compressed, which is work for the pool.
        ContentEncoding::Gzip | ContentEncoding::Zstd => COMPRESS_BYTES_MIN as u64,
    }
}

impl ResponseCache {
    /// Returns the cached response to a text that was received before, if it is still valid. A caller that uses it
    /// must call [`Self::record_text_hit`].
    pub fn lookup_text(&self, ledger: &dyn LedgerVersions, text: CallText<'_>) -> Option<CacheHit> {
        let parsed = self.memo.get(&text.memo_key()?)?;
        let (version, slot) = ledger.version_and_slot(parsed.commitment);
        if parsed.min_context_slot.is_some_and(|min| slot < min)
            || !parsed.meets_precondition(ledger)
        {
            return None;
        }
        let changes = ledger.change_tracker();
        let changed_at = |number| changes.changed_at(parsed.commitment, number);
        let entry = self.cache.peek(&parsed.key, version, changed_at)?;
        Some(CacheHit { entry, slot })
    }

    /// Returns the cached response to a call, if it is valid. Nothing is counted.
    pub fn peek(&self, ledger: &dyn LedgerVersions, call: &CacheableCall) -> Option<CacheHit> {
        let (version, slot) = self.check_cacheable(ledger, call).ok()?;
        let changes = ledger.change_tracker();
        let changed_at = |number| changes.changed_at(call.dependencies.commitment, number);
        let entry = self.cache.peek(&call.key, version, changed_at)?;
        Some(CacheHit { entry, slot })
    }

    /// Counts a hit by request text: of an entry from [`Self::lookup_text`], or of a response that the caller stores
    /// itself.
    pub fn record_text_hit(&self) {
        self.cache.count_hit();
        self.count_memo_hit();
    }

    /// Looks up the response to a call without a task. The ticket allows its own task to fill the cache when it starts.
    /// `on_filled` creates the callback of a call that waits for another task.
    pub(crate) fn lookup(
        &self,
        (call, context): (&CacheableCall, &LookupContext<'_>),
        on_filled: impl FnOnce() -> OnFilled<CachedResponse>,
    ) -> LookupStep<FillTicket<CachedResponse>> {
        let (version, slot) = match self.check_cacheable(context.ledger, call) {
            Ok(now) => now,
            Err(why) => return LookupStep::ready_uncached(why),
        };
        let changes = context.ledger.change_tracker();
        let changed_at = |number| changes.changed_at(call.dependencies.commitment, number);
        let reader = CacheReader { client: context.client.0, version };
        match self.cache.lookup(&call.key, reader, changed_at, on_filled) {
            Lookup::Hit(entry) => {
                self.remember_text(call, context.text);
                LookupStep::hit(entry, slot)
            }
            Lookup::Ticket(ticket) => LookupStep::Ready(LookupOutcome::Fill(ticket)),
            Lookup::Wait(guard) => LookupStep::Wait(guard),
            Lookup::Bypass => LookupStep::ready_uncached("bypass"),
        }
    }

    /// Looks up a call with a task that can compute the response now. If no other task computes it, this one does,
    /// and later calls wait for it. `ticket` is its right to fill, if it waited in the run queue. Without a callback
    /// from `on_filled` it does not wait.
    pub(crate) fn lookup_or_fill(
        &self,
        (call, context): (&CacheableCall, &LookupContext<'_>),
        ticket: Option<FillTicket<CachedResponse>>,
        on_filled: impl FnOnce() -> Option<OnFilled<CachedResponse>>,
    ) -> LookupStep<ResponseBuilder> {
        let LookupContext { ledger, text, client } = *context;
        let (version, slot) = match self.check_cacheable(ledger, call) {
            Ok(now) => now,
            Err(why) => return LookupStep::ready_uncached(why),
        };
        let changes = ledger.change_tracker();
        let commitment = call.dependencies.commitment;
        let changed_at = |number| changes.changed_at(commitment, number);
        match self.cache.start_fill(&call.key, ticket, version, changed_at, on_filled) {
            FillStart::Hit(entry) => {
                self.remember_text(call, text);
                LookupStep::hit(entry, slot)
            }
            FillStart::Fill(fill) => {
                let watched = call.dependencies.watch(changes);
                let (valid_at, _) = ledger.version_and_slot(commitment);
                let builder =
                    ResponseBuilder::new(self, fill, valid_at, watched, (text.coding, client));
                match builder.has_budget() {
                    true => LookupStep::Ready(LookupOutcome::Fill(builder)),
                    // Calls that started to wait meanwhile look it up again.
                    false => LookupStep::ready_uncached(NotCached::OverBudget.name()),
                }
            }
            FillStart::Wait(guard) => LookupStep::Wait(guard),
            FillStart::Bypass => LookupStep::ready_uncached("bypass"),
        }
    }

    /// Returns the entry that another task completed, if it is still valid.
    pub(crate) fn revalidate(
        &self,
        ledger: &dyn LedgerVersions,
        call: &CacheableCall,
        entry: Arc<Entry<CachedResponse>>,
    ) -> Option<CacheHit> {
        let commitment = call.dependencies.commitment;
        let (version, slot) = ledger.version_and_slot(commitment);
        let changes = ledger.change_tracker();
        let changed_at = |number| changes.changed_at(commitment, number);
        entry.is_valid_at(version, changed_at).then_some(CacheHit { entry, slot })
    }

    /// Returns the version of the view and its slot at which a call is looked up; or why it is not.
    fn check_cacheable(
        &self,
        ledger: &dyn LedgerVersions,
        call: &CacheableCall,
    ) -> Result<(u64, Slot), &'static str> {
        if call.dependencies.bytes_min > self.cache.entry_bytes_max() {
            return Err(NotCached::TooLarge.name());
        }
        let (version, slot) = ledger.version_and_slot(call.dependencies.commitment);
        match call.dependencies.min_context_slot.is_some_and(|min| slot < min) {
            true => Err("none"),
            false => Ok((version, slot)),
        }
    }

    /// Stores the parsed form of a cached call by its text.
    fn remember_text(&self, call: &CacheableCall, text: CallText<'_>) {
        if let Some(text) = text.memo_key() {
            self.memo.insert(&text, ParsedCall::from_call(call));
        }
    }
}
