//! Looks a call up in the response cache: whether it is cacheable, whether there is a valid entry, and which
//! task computes it otherwise.
//!
//! Invariant: a task that gets a [`FillOutcome::Fill`] computes the response for all waiters, and waits for
//! nothing until it is complete. So no call waits for ever, although calls wait as tasks of the pool. A call
//! never waits for another client's task that has not started, because its own task may start earlier.
//! Not here: running calls, and waiting (`dispatch`, `task`).

use std::sync::Arc;

use cache::{CacheReader, Entry, FillStart, FillTicket, Lookup, OnFilled, WaitGuard};
use ledger::Slot;
use pool::ClientId;

use crate::cached_response::{CachedResponse, NotCached, ResponseBuilder};
use crate::content_encoding::{COMPRESS_BYTES_MIN, ContentEncoding};
use crate::dependencies::{self, CacheableCall, ParsedCall};
use crate::methods::{self, Method};
use crate::node::Node;
use crate::params::Params;

/// How often a call may wait for another task in vain before it computes the response itself.
pub(crate) const ATTEMPTS_MAX: usize = 3;

/// A valid cached response.
pub(crate) struct CacheHit {
    pub(crate) entry: Arc<Entry<CachedResponse>>,
    /// Slot for its context: that of the current view.
    pub(crate) slot: Slot,
}

/// Outcome of a lookup.
pub(crate) enum LookupOutcome {
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
pub(crate) enum FillOutcome {
    /// The cache has it.
    Hit(CacheHit),
    /// This task computes it for the cache; other calls wait for it from now on.
    Fill(ResponseBuilder),
    /// Another task is computing it, and will notify.
    Wait(WaitGuard<CachedResponse>),
    /// The response is computed for this call only; the reason, for the log.
    Uncached(&'static str),
}

/// Cache key and dependencies of a call, if its response is cacheable.
pub(crate) fn cacheable_call(
    node: &Node,
    coding: ContentEncoding,
    method: &Method,
    params: Params<'_>,
) -> Option<CacheableCall> {
    let dependencies = methods::dependencies(method, node, params)
        .filter(|dependencies| dependencies.is_cacheable)?;
    Some(CacheableCall { key: dependencies::cache_key(method, params, coding)?, dependencies })
}

/// The cached response to a text that was received before, if it is still valid. A caller that uses it must
/// call [`record_text_hit`].
pub(crate) fn lookup_by_text(
    node: &Node,
    coding: ContentEncoding,
    method: &Method,
    params: Params<'_>,
) -> Option<CacheHit> {
    let text = dependencies::memo_key(method, params, coding)?;
    let parsed = node.response_cache.memo.get(&text)?;
    let view = node.reader.view(parsed.commitment);
    let slot = view.block().slot;
    if parsed.min_context_slot.is_some_and(|min| slot < min) || !parsed.meets_precondition(node) {
        return None;
    }
    let changes = node.reader.change_tracker();
    let changed_at = |number| changes.changed_at(parsed.commitment, number);
    let entry = node.response_cache.cache.peek(&parsed.key, view.version(), changed_at)?;
    Some(CacheHit { entry, slot })
}

/// Counts a hit of [`lookup_by_text`] that is used.
pub(crate) fn record_text_hit(node: &Node) {
    node.response_cache.cache.count_hit();
    node.response_cache.count_memo_hit();
}

/// Bytes of cached responses in a batch that are sent where the socket is polled. They are not copied.
pub(crate) fn inline_batch_bytes_max(coding: ContentEncoding) -> u64 {
    match coding {
        // As much as may wait for a client of any other response.
        ContentEncoding::Plain => 1024 * 1024,
        // A longer response would be compressed, which is work for the pool.
        ContentEncoding::Gzip | ContentEncoding::Zstd => COMPRESS_BYTES_MIN as u64,
    }
}

/// Looks up the response to a call of a client. `on_filled` makes the callback for a call that waits for
/// another task.
pub(crate) fn lookup(
    node: &Node,
    call: &CacheableCall,
    (coding, method, params): (ContentEncoding, &Method, Params<'_>),
    client: ClientId,
    on_filled: impl FnOnce() -> OnFilled<CachedResponse>,
) -> LookupOutcome {
    let (version, slot) = match check_cacheable(node, call) {
        Ok(now) => now,
        Err(why) => return LookupOutcome::Uncached(why),
    };
    let changes = node.reader.change_tracker();
    let changed_at = |number| changes.changed_at(call.dependencies.commitment, number);
    let reader = CacheReader { client: client.0, version };
    match node.response_cache.cache.lookup(&call.key, reader, changed_at, on_filled) {
        Lookup::Hit(entry) => {
            remember_text(node, call, (coding, method, params));
            LookupOutcome::Hit(CacheHit { entry, slot })
        }
        Lookup::Ticket(ticket) => LookupOutcome::Ticket(ticket),
        Lookup::Wait(guard) => LookupOutcome::Wait(guard),
        Lookup::Bypass => LookupOutcome::Uncached("bypass"),
    }
}

/// The same for a task that computes the response at once unless another task does. `ticket` is its right to
/// fill, if it waited in the run queue. Without a callback from `on_filled` it does not wait.
pub(crate) fn lookup_or_fill(
    node: &Node,
    (call, ticket): (&CacheableCall, Option<FillTicket<CachedResponse>>),
    (coding, method, params): (ContentEncoding, &Method, Params<'_>),
    client: ClientId,
    on_filled: impl FnOnce() -> Option<OnFilled<CachedResponse>>,
) -> FillOutcome {
    let (version, slot) = match check_cacheable(node, call) {
        Ok(now) => now,
        Err(why) => return FillOutcome::Uncached(why),
    };
    let changes = node.reader.change_tracker();
    let changed_at = |number| changes.changed_at(call.dependencies.commitment, number);
    match node.response_cache.cache.start_fill(&call.key, ticket, version, changed_at, on_filled) {
        FillStart::Hit(entry) => {
            remember_text(node, call, (coding, method, params));
            FillOutcome::Hit(CacheHit { entry, slot })
        }
        FillStart::Fill(fill) => {
            let watched = call.dependencies.watch(changes);
            let (valid_at, _) = version_and_slot(node, call);
            let builder = ResponseBuilder::new(
                &node.response_cache,
                fill,
                valid_at,
                watched,
                (coding, client),
            );
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

/// The version of the view and its slot at which a call is looked up; or why it is not.
fn check_cacheable(node: &Node, call: &CacheableCall) -> Result<(u64, Slot), &'static str> {
    if call.dependencies.bytes_min > node.response_cache.cache.entry_bytes_max() {
        return Err(NotCached::TooLarge.name());
    }
    let (version, slot) = version_and_slot(node, call);
    match call.dependencies.min_context_slot.is_some_and(|min| slot < min) {
        true => Err("none"),
        false => Ok((version, slot)),
    }
}

/// Stores the parsed form of a cached call by its text.
fn remember_text(
    node: &Node,
    call: &CacheableCall,
    (coding, method, params): (ContentEncoding, &Method, Params<'_>),
) {
    if let Some(text) = dependencies::memo_key(method, params, coding) {
        node.response_cache.memo.insert(&text, ParsedCall::from_call(call));
    }
}

/// The entry that another task completed, if it is still valid.
pub(crate) fn revalidate(
    node: &Node,
    call: &CacheableCall,
    entry: Arc<Entry<CachedResponse>>,
) -> Option<CacheHit> {
    let (version, slot) = version_and_slot(node, call);
    let changes = node.reader.change_tracker();
    let changed_at = |number| changes.changed_at(call.dependencies.commitment, number);
    entry.is_valid_at(version, changed_at).then_some(CacheHit { entry, slot })
}

/// Not the view itself, because a waiting call must not keep a state alive.
fn version_and_slot(node: &Node, call: &CacheableCall) -> (u64, Slot) {
    let view = node.reader.view(call.dependencies.commitment);
    (view.version(), view.block().slot)
}
