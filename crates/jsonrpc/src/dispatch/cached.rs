//! A single call that is answered from the cache, or from another task that is computing the same response.
//!
//! Out: a whole response, or [`CacheMiss`] for the task that will compute it.
//! Bounds: it waits within the deadline of the call's class.
//! Not here: which responses may be cached, and how often a call waits ([`response_cache`]), calls of a batch
//! ([`super::batch`], and `task` once they run).

use std::future::poll_fn;

use cache::FillTicket;
use pool::Class as PoolClass;
use response_cache::{
    CacheFill, CacheHit, CacheableCall, CachedResponse, CallText, LookupContext, LookupOutcome,
    Scheduled, Validator, ValidatorBuilder,
};

use super::receive::with_deadline;
use super::record::record_call;
use super::response::{JsonRpcResponse, refuse_call};
use crate::api::{Api, Execution, MethodRef, MethodSpec, Server};
use crate::envelope::Id;
use crate::metrics::{ExecutionPath, Outcome};
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::value_response::ResponseMeta;

/// The cached response for a text that was received before, if it is still valid.
pub(super) fn lookup_text<A: Api>(
    server: &Server<A>,
    context: RequestContext,
    (id, method, params): (&Id, MethodRef<A>, Params<'_>),
) -> Option<JsonRpcResponse> {
    // These are answered without the cache, or nearly always.
    if matches!(method.execution, Execution::Inline | Execution::TryInline(_)) {
        return None;
    }
    if !context.may_use_cache() {
        return None;
    }
    let text = CallText { method: method.name, params: params.text(), coding: context.coding };
    let cache = &server.context.response_cache;
    let CacheHit { entry, slot } = cache.lookup_text(&server.api, text)?;
    let response = JsonRpcResponse::from_cached(entry.value.as_ref()?, context, slot, id);
    cache.record_text_hit();
    let label = (method.label(), Some(params));
    record_call(&server.context, &context, label, ExecutionPath::Cached, Outcome::Succeeded);
    Some(response)
}

/// Cache key and dependencies of a call whose response may be cached, or needs a validator although it is long.
pub(super) fn cacheable<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    method: &MethodSpec<A>,
    params: Params<'_>,
) -> Option<CacheableCall> {
    if !context.may_use_cache() || server.api.must_prepare(method.name, params) {
        return None;
    }
    let dependencies = method.dependencies?(&server.api, params)?;
    let needs_key = dependencies.is_cacheable || context.options.is_some();
    let text = CallText { method: method.name, params: params.text(), coding: context.coding };
    let key = needs_key.then(|| text.cache_key())??;
    Some(CacheableCall { key, dependencies })
}

/// The response from the cache, or from another task that computes it; otherwise how to run the call.
pub(super) async fn await_cached<A: Api>(
    server: &Server<A>,
    context: RequestContext,
    (id, method, params, class): (&Id, MethodRef<A>, Params<'_>, PoolClass),
    call: CacheableCall,
) -> Result<JsonRpcResponse, CacheMiss> {
    let text = CallText { method: method.name, params: params.text(), coding: context.coding };
    let lookup = LookupContext { ledger: &server.api, text, client: context.client };
    let cache = &server.context.response_cache;
    let mut fill = CacheFill::unscheduled(call);
    let polled = poll_fn(|cx| fill.poll(cache, &lookup, cx));
    let label = method.label();
    let (cache, ticket) = match with_deadline(&server.context, &context, class, polled).await {
        Err(late) => {
            let call = (id, label, params, class);
            return Ok(refuse_call(&server.context, &context, call, late));
        }
        Ok(LookupOutcome::Hit(CacheHit { entry, slot })) => match &entry.value {
            Some(value) => {
                let response = JsonRpcResponse::from_cached(value, context, slot, id);
                let (label, path) = ((label, Some(params)), ExecutionPath::Cached);
                record_call(&server.context, &context, label, path, Outcome::Succeeded);
                return Ok(response);
            }
            None => ("bypass", None),
        },
        Ok(LookupOutcome::Fill(ticket)) => ("none", Some(ticket)),
        Ok(LookupOutcome::Uncached(why)) => (why, None),
    };
    let has_waited = fill.has_waited();
    Err(CacheMiss { cache, call: Some(fill.into_call()), ticket, has_waited })
}

/// How to run a call that the cache did not answer.
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
        Some(CacheFill::scheduled(call, Some(ticket)))
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

/// Metadata of a call's response without computing it, if `is_known` says that the client has a response with
/// this validator. The request was admitted already.
pub(crate) fn revalidate<A: Api>(
    server: &Server<A>,
    context: RequestContext,
    (method, params): (&str, &str),
    is_known: impl FnOnce(&Validator) -> bool,
) -> Option<ResponseMeta> {
    let (method, params) = (server.find_method(method)?, Params::new(Some(params)));
    let cacheable = cacheable(server, &context, &method, params)?;
    let (validator, slot) = ValidatorBuilder::new(&server.api, &cacheable)
        .build(server.context.response_cache.process_key(), &server.api)?;
    if cacheable.dependencies.min_context_slot.is_some_and(|min| slot < min)
        || !is_known(&validator)
    {
        return None;
    }
    let label = (method.label(), Some(params));
    record_call(&server.context, &context, label, ExecutionPath::Cached, Outcome::Succeeded);
    Some(ResponseMeta { slot: Some(slot), etag: Some(validator), ..ResponseMeta::default() })
}
