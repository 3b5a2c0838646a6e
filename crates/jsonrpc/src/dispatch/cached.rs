//! A single call that is answered from the cache, or from another task that is computing the same response.
//!
//! Out: a cached response, or [`CacheMiss`] for the task that will compute it.
//! Bounds: it waits within the deadline of the call's class.
//! Not here: which responses may be cached, and how often a call waits ([`response_cache`]), calls of a batch
//! ([`super::batch`], and `task` once they run).

use std::future::poll_fn;

use cache::FillTicket;
use cpu_pool::Class as PoolClass;
use response_cache::{
    CacheFill, CacheHit, CacheableCall, CachedResponse, CallText, LookupContext, LookupOutcome,
    Scheduled, ValidatorBuilder,
};

use super::receive::with_deadline;
use super::response::{Answer, CallEnd};
use crate::api::{Api, Execution, MethodSpec, Server};
use crate::metrics::ExecutionPath;
use crate::params::Params;
use crate::planned_call::PlannedCall;
use crate::request_context::RequestContext;

/// The cached response for a text that was received before, if it is still valid.
pub(super) fn lookup_text<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    call: &PlannedCall<'_, A>,
) -> Option<CacheHit> {
    // These are answered without the cache, or nearly always.
    if matches!(call.method.execution, Execution::Inline | Execution::TryInline(_)) {
        return None;
    }
    if call.must_wait() || !context.may_use_cache() {
        return None;
    }
    let cache = &server.context.response_cache;
    let hit = cache.lookup_text(&server.api, call_text(context, call))?;
    hit.entry.value.as_ref()?;
    cache.record_text_hit();
    Some(hit)
}

fn call_text<'a, A: Api>(context: &RequestContext, call: &'a PlannedCall<'_, A>) -> CallText<'a> {
    let params = call.text.as_deref();
    CallText { method: call.method.name, params, coding: context.coding }
}

/// Cache key and dependencies of a call whose response may be cached, or needs a validator although it is long. The call
/// must not have to wait for something ([`Api::must_prepare`]).
pub(super) fn cacheable<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    method: &MethodSpec<A>,
    params: Params<'_>,
) -> Option<CacheableCall> {
    if !context.may_use_cache() {
        return None;
    }
    let dependencies = method.cache_dependencies?(&server.api, params)?;
    let needs_key = dependencies.is_cacheable || context.options.is_some();
    let text = CallText { method: method.name, params: params.text(), coding: context.coding };
    let key = needs_key.then(|| text.cache_key())??;
    Some(CacheableCall { key, dependencies })
}

/// The response from the cache, or from another task that computes it; otherwise how to run the call.
pub(super) async fn await_cached<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    call: &PlannedCall<'_, A>,
    class: PoolClass,
    cacheable: CacheableCall,
) -> Result<CallEnd, CacheMiss> {
    let text = call_text(context, call);
    let lookup = LookupContext { ledger: &server.api, text, client: context.client };
    let cache = &server.context.response_cache;
    let mut fill = CacheFill::for_call(cacheable);
    let polled = poll_fn(|cx| fill.poll(cache, &lookup, cx));
    let (cache, ticket) = match with_deadline(&server.context, context, class, polled).await {
        Err(late) => return Ok(CallEnd::refusal(ExecutionPath::Pool(class), late)),
        Ok(LookupOutcome::Hit(hit)) if hit.entry.value.is_some() => {
            return Ok(CallEnd::at(ExecutionPath::Cached, Answer::Cached(hit)));
        }
        Ok(LookupOutcome::Hit(_)) => ("bypass", None),
        Ok(LookupOutcome::Fill(ticket)) => ("none", Some(ticket)),
        Ok(LookupOutcome::Uncached(why)) => (why, None),
    };
    let has_waited = fill.has_waited();
    Err(CacheMiss { cache, call: Some(fill.into_call()), ticket, has_waited })
}

/// The way to run a call after a cache miss.
pub(super) struct CacheMiss {
    /// Outcome of the cache lookup, for the log.
    pub(super) cache: &'static str,
    /// The call, if its response is cacheable or has a validator.
    pub(super) call: Option<CacheableCall>,
    /// The right to fill the cache with the response.
    ticket: Option<FillTicket<CachedResponse>>,
    /// A part of its deadline was spent waiting for another task.
    pub(super) has_waited: bool,
}

impl CacheMiss {
    /// A call that was not looked up.
    pub(super) fn without_lookup(call: Option<CacheableCall>) -> Self {
        Self { cache: "none", call, ticket: None, has_waited: false }
    }

    /// The cache lookup to do when its task starts, if it has a ticket.
    pub(super) fn into_fill(self) -> Option<CacheFill<Scheduled>> {
        let (call, ticket) = self.call.zip(self.ticket)?;
        Some(CacheFill::for_task(call, Some(ticket)))
    }
}

/// Builds the validator of a response for an interface other than JSON-RPC.
pub(super) fn validator_builder<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    cacheable: Option<&CacheableCall>,
) -> Option<ValidatorBuilder> {
    cacheable
        .filter(|_| context.options.is_some())
        .map(|cacheable| ValidatorBuilder::new(&server.api, cacheable))
}
