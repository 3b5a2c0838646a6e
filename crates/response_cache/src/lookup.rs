//! Looks a call up in the response cache: whether it is cacheable, whether there is a valid entry, and which
//! task computes it otherwise.
//!
//! Invariant: a task that gets a [`FillOutcome::Fill`] computes the response for all waiters, and waits for
//! nothing until it is complete. So no call waits for ever, although calls wait as tasks of the pool. A call
//! never waits for another client's task that has not started, because its own task may start earlier.
//! Not here: running calls, and waiting (`dispatch`, `task`).

use std::sync::Arc;

use cache::{CacheReader, Entry, FillStart, FillTicket, Lookup, OnFilled, WaitGuard};
use http_server::{COMPRESS_BYTES_MIN, ContentEncoding};
use ledger::Slot;
use pool::ClientId;

use crate::builder::{NotCached, ResponseBuilder};
use crate::dependencies::{CacheableCall, CallText, ParsedCall};
use crate::entry::CachedResponse;
use crate::ledger_versions::LedgerVersions;
use crate::store::ResponseCache;

/// How often a call may wait for another task in vain before it computes the response itself.
pub const ATTEMPTS_MAX: usize = 3;

/// A valid cached response.
pub struct CacheHit {
    /// The entry.
    pub entry: Arc<Entry<CachedResponse>>,
    /// Slot for its context: that of the current view.
    pub slot: Slot,
}

/// Outcome of a lookup.
pub enum LookupOutcome {
    /// The cache has it.
    Hit(CacheHit),
    /// The call is to be run as its own task, which may fill the cache when it starts.
    Ticket(FillTicket<CachedResponse>),
    /// Another task is computing it, and will notify.
    Wait(WaitGuard<CachedResponse>),
    /// The response is computed for this call only; the reason, for the log.
    Uncached(&'static str),
}

/// Outcome of a lookup by a task that can fill the cache.
pub enum FillOutcome {
    /// The cache has it.
    Hit(CacheHit),
    /// This task computes it for the cache; other calls wait for it from now on.
    Fill(ResponseBuilder),
    /// Another task is computing it, and will notify.
    Wait(WaitGuard<CachedResponse>),
    /// The response is computed for this call only; the reason, for the log.
    Uncached(&'static str),
}

/// Bytes of cached responses in a batch that are sent where the socket is polled. They are not copied.
pub fn inline_batch_bytes_max(coding: ContentEncoding) -> u64 {
    match coding {
        // As much as may wait for a client of any other response.
        ContentEncoding::Plain => 1024 * 1024,
        // A longer response would be compressed, which is work for the pool.
        ContentEncoding::Gzip | ContentEncoding::Zstd => COMPRESS_BYTES_MIN as u64,
    }
}

impl ResponseCache {
    /// The cached response to a text that was received before, if it is still valid. A caller that uses it must
    /// call [`Self::record_text_hit`].
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

    /// Counts a hit of [`Self::lookup_text`] that is used.
    pub fn record_text_hit(&self) {
        self.cache.count_hit();
        self.count_memo_hit();
    }

    /// Looks up the response to a call of a client. `on_filled` makes the callback for a call that waits for
    /// another task.
    pub fn lookup(
        &self,
        ledger: &dyn LedgerVersions,
        call: &CacheableCall,
        text: CallText<'_>,
        client: ClientId,
        on_filled: impl FnOnce() -> OnFilled<CachedResponse>,
    ) -> LookupOutcome {
        let (version, slot) = match self.check_cacheable(ledger, call) {
            Ok(now) => now,
            Err(why) => return LookupOutcome::Uncached(why),
        };
        let changes = ledger.change_tracker();
        let changed_at = |number| changes.changed_at(call.dependencies.commitment, number);
        let reader = CacheReader { client: client.0, version };
        match self.cache.lookup(&call.key, reader, changed_at, on_filled) {
            Lookup::Hit(entry) => {
                self.remember_text(call, text);
                LookupOutcome::Hit(CacheHit { entry, slot })
            }
            Lookup::Ticket(ticket) => LookupOutcome::Ticket(ticket),
            Lookup::Wait(guard) => LookupOutcome::Wait(guard),
            Lookup::Bypass => LookupOutcome::Uncached("bypass"),
        }
    }

    /// The same for a task that computes the response at once unless another task does. `ticket` is its right to
    /// fill, if it waited in the run queue. Without a callback from `on_filled` it does not wait.
    pub fn lookup_or_fill(
        &self,
        ledger: &dyn LedgerVersions,
        (call, ticket): (&CacheableCall, Option<FillTicket<CachedResponse>>),
        text: CallText<'_>,
        client: ClientId,
        on_filled: impl FnOnce() -> Option<OnFilled<CachedResponse>>,
    ) -> FillOutcome {
        let (version, slot) = match self.check_cacheable(ledger, call) {
            Ok(now) => now,
            Err(why) => return FillOutcome::Uncached(why),
        };
        let changes = ledger.change_tracker();
        let commitment = call.dependencies.commitment;
        let changed_at = |number| changes.changed_at(commitment, number);
        match self.cache.start_fill(&call.key, ticket, version, changed_at, on_filled) {
            FillStart::Hit(entry) => {
                self.remember_text(call, text);
                FillOutcome::Hit(CacheHit { entry, slot })
            }
            FillStart::Fill(fill) => {
                let watched = call.dependencies.watch(changes);
                let (valid_at, _) = ledger.version_and_slot(commitment);
                let builder =
                    ResponseBuilder::new(self, fill, valid_at, watched, (text.coding, client));
                match builder.has_budget() {
                    true => FillOutcome::Fill(builder),
                    // Calls that started to wait meanwhile look it up again.
                    false => FillOutcome::Uncached(NotCached::OverBudget.name()),
                }
            }
            FillStart::Wait(guard) => FillOutcome::Wait(guard),
            FillStart::Bypass => FillOutcome::Uncached("bypass"),
        }
    }

    /// The entry that another task completed, if it is still valid.
    pub fn revalidate(
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

    /// The version of the view and its slot at which a call is looked up; or why it is not.
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
