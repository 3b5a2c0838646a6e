//! Looking into the answer cache for a call: what may come from there, what is there, and who makes it else.
//!
//! Invariant: a task that gets [`FillOutcome::FillGuard`] makes the answer for all, and waits for nobody before it is made: so
//! nobody waits for ever, though calls wait as tasks of the pool. Nobody waits for another client's task that has
//! not begun, for his own turn may come earlier.
//! Not here: running calls, and waiting (`dispatch`, `job`).

use std::sync::Arc;

use cache::{Entry, FillStart, FillTicket, Lookup, OnFilled, WaitGuard};
use ledger::Slot;
use pool::ClientId;

use crate::cached_response::{CachedResponse, NotCached, ResponseBuilder};
use crate::content_encoding::{COMPRESS_BYTES_MIN, ContentEncoding};
use crate::dependencies::{self, CacheableCall, ParsedCall};
use crate::methods::{self, Method};
use crate::node::Node;
use crate::params::Params;

/// How often somebody who waited for an answer in vain asks again before he makes it himself.
pub(crate) const ATTEMPTS_MAX: usize = 3;

/// An answer that is kept and good.
pub(crate) struct CacheHit {
    pub(crate) entry: Arc<Entry<CachedResponse>>,
    /// What its context says now.
    pub(crate) slot: Slot,
}

/// What came of looking for an answer.
pub(crate) enum LookupOutcome {
    /// It is there.
    Hit(CacheHit),
    /// It is to be made by a task of one's own, unless somebody is ahead of it.
    Ticket(FillTicket<CachedResponse>),
    /// Somebody makes it, and tells.
    Wait(WaitGuard<CachedResponse>),
    /// It is to be made for whoever asks alone; what the log says of that.
    Uncached(&'static str),
}

/// What came of looking for an answer to make it.
pub(crate) enum FillOutcome {
    /// It is there.
    Hit(CacheHit),
    /// It is to be made here, and kept: from here on all wait for it.
    Fill(ResponseBuilder),
    /// Somebody makes it, and tells.
    Wait(WaitGuard<CachedResponse>),
    /// It is to be made for whoever asks alone; what the log says of that.
    Uncached(&'static str),
}

/// What a call reads, if its answer is worth keeping.
pub(crate) fn cacheable_call(
    node: &Node,
    coding: ContentEncoding,
    method: &Method,
    params: Params<'_>,
) -> Option<CacheableCall> {
    let reads = methods::dependencies(method, node, params).filter(|reads| reads.is_cacheable)?;
    Some(CacheableCall {
        key: dependencies::cache_key(method, params, coding)?,
        dependencies: reads,
    })
}

/// The answer to a text that came before, if it is still good. Whoever uses it says so ([`count_memo_hit`]).
pub(crate) fn lookup_by_text(
    node: &Node,
    coding: ContentEncoding,
    method: &Method,
    params: Params<'_>,
) -> Option<CacheHit> {
    let text = dependencies::memo_key(method, params, coding)?;
    let meaning = node.response_cache.memo.get(&text)?;
    let view = node.reader.view(meaning.commitment);
    let slot = view.block().slot;
    if meaning.min_context_slot.is_some_and(|min| slot < min) || !meaning.meets_precondition(node) {
        return None;
    }
    let changes = node.reader.change_tracker();
    let changed_at = |number| changes.changed_at(meaning.commitment, number);
    let entry = node.response_cache.cache.peek(&meaning.key, view.version(), changed_at)?;
    Some(CacheHit { entry, slot })
}

/// What [`memo`] gave is used.
pub(crate) fn record_text_hit(node: &Node) {
    node.response_cache.cache.count_hit();
    node.response_cache.count_memo_hit();
}

/// So many bytes of a batch's kept answers go out where the socket is polled. They are not copied.
pub(crate) fn inline_batch_bytes_max(coding: ContentEncoding) -> u64 {
    match coding {
        // As much as may wait for a client of any other answer.
        ContentEncoding::Plain => 1024 * 1024,
        // What is longer is to be compressed, which is for the pool.
        ContentEncoding::Gzip | ContentEncoding::Zstd => COMPRESS_BYTES_MIN as u64,
    }
}

/// Looks for the answer to a call of a client. `tell` is for who waits, if somebody is to make it.
pub(crate) fn lookup(
    node: &Node,
    asked: &CacheableCall,
    (coding, method, params): (ContentEncoding, &Method, Params<'_>),
    client: ClientId,
    tell: impl FnOnce() -> OnFilled<CachedResponse>,
) -> LookupOutcome {
    let (moment, slot) = match check_cacheable(node, asked) {
        Ok(now) => now,
        Err(why) => return LookupOutcome::Uncached(why),
    };
    let changes = node.reader.change_tracker();
    let changed_at = |number| changes.changed_at(asked.dependencies.commitment, number);
    match node.response_cache.cache.lookup(&asked.key, (client.0, moment), changed_at, tell) {
        Lookup::Hit(entry) => {
            remember_text(node, asked, (coding, method, params));
            LookupOutcome::Hit(CacheHit { entry, slot })
        }
        Lookup::Ticket(turn) => LookupOutcome::Ticket(turn),
        Lookup::Wait(waiting) => LookupOutcome::Wait(waiting),
        Lookup::Bypass => LookupOutcome::Uncached("bypass"),
    }
}

/// The same for a task that makes it at once if nobody does: because its `turn` has come, if it had to wait for
/// that. Without something to tell it does not wait.
pub(crate) fn lookup_or_fill(
    node: &Node,
    (asked, turn): (&CacheableCall, Option<FillTicket<CachedResponse>>),
    (coding, method, params): (ContentEncoding, &Method, Params<'_>),
    client: ClientId,
    tell: impl FnOnce() -> Option<OnFilled<CachedResponse>>,
) -> FillOutcome {
    let (moment, slot) = match check_cacheable(node, asked) {
        Ok(now) => now,
        Err(why) => return FillOutcome::Uncached(why),
    };
    let changes = node.reader.change_tracker();
    let changed_at = |number| changes.changed_at(asked.dependencies.commitment, number);
    match node.response_cache.cache.start_fill(&asked.key, turn, moment, changed_at, tell) {
        FillStart::Hit(entry) => {
            remember_text(node, asked, (coding, method, params));
            FillOutcome::Hit(CacheHit { entry, slot })
        }
        FillStart::Fill(fill) => {
            let read = asked.dependencies.watch(changes);
            let (made_at, _) = version_and_slot(node, asked);
            let keeping =
                ResponseBuilder::new(&node.response_cache, fill, made_at, read, (coding, client));
            match keeping.has_budget() {
                true => FillOutcome::Fill(keeping),
                // Whoever came to wait meanwhile asks again.
                false => FillOutcome::Uncached(NotCached::OverBudget.name()),
            }
        }
        FillStart::Wait(waiting) => FillOutcome::Wait(waiting),
        FillStart::Bypass => FillOutcome::Uncached("bypass"),
    }
}

/// The moment at which a call is looked for, and its slot; or why it is not.
fn check_cacheable(node: &Node, asked: &CacheableCall) -> Result<(u64, Slot), &'static str> {
    if asked.dependencies.bytes_min > node.response_cache.cache.entry_bytes_max() {
        return Err(NotCached::TooLarge.name());
    }
    let (moment, slot) = version_and_slot(node, asked);
    match asked.dependencies.min_context_slot.is_some_and(|min| slot < min) {
        true => Err("none"),
        false => Ok((moment, slot)),
    }
}

/// What the text of a call means whose answer is kept.
fn remember_text(
    node: &Node,
    asked: &CacheableCall,
    (coding, method, params): (ContentEncoding, &Method, Params<'_>),
) {
    if let Some(text) = dependencies::memo_key(method, params, coding) {
        node.response_cache.memo.insert(&text, ParsedCall::from_call(asked));
    }
}

/// What somebody told who made the answer, if it is what would be made now.
pub(crate) fn revalidate(
    node: &Node,
    asked: &CacheableCall,
    entry: Arc<Entry<CachedResponse>>,
) -> Option<CacheHit> {
    let (moment, slot) = version_and_slot(node, asked);
    let changes = node.reader.change_tracker();
    let changed_at = |number| changes.changed_at(asked.dependencies.commitment, number);
    entry.is_valid_at(moment, changed_at).then_some(CacheHit { entry, slot })
}

/// Not the view itself: whoever waits is to keep no state alive.
fn version_and_slot(node: &Node, asked: &CacheableCall) -> (u64, Slot) {
    let view = node.reader.view(asked.dependencies.commitment);
    (view.version(), view.block().slot)
}
