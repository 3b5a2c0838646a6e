//! A call that comes alone, answered from the cache if that has it, or soon will.
//!
//! Out: a whole answer; else what is known of it for who makes it now.
//! Bounds: it is waited for at most [`ATTEMPTS_MAX`] times, all within the deadline of the call's class.
//! Not here: what may come from the cache ([`crate::look`], [`crate::cached`]), calls of a batch ([`super::batch`],
//! and [`crate::job`] when their turn comes).

use cache::{FillTicket, OnFilled};
use pool::Class as PoolClass;
use tokio::sync::oneshot;

use super::receive::with_deadline;
use super::record::record_call;
use super::response::{JsonRpcResponse, refuse_call};
use crate::cache_lookup::{self, ATTEMPTS_MAX, CacheHit, LookupOutcome};
use crate::cached_response::CachedResponse;
use crate::dependencies::{self, CacheableCall};
use crate::envelope::Id;
use crate::etag::{Validator, ValidatorBuilder};
use crate::methods::{self, Class, Method, MethodRef};
use crate::metrics::{ExecutionPath, Outcome};
use crate::node::Node;
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::value_response::ResponseMeta;

/// The answer from the cache, to a text that came before and whose answer is still good.
pub(super) fn lookup_text(
    node: &Node,
    asker: RequestContext,
    (id, method, params): (&Id, MethodRef, Params<'_>),
) -> Option<JsonRpcResponse> {
    // Those are answered at once, or nearly always.
    if matches!(method.class, Class::Inline | Class::TryInline(_)) {
        return None;
    }
    if asker.options.is_some_and(|want| want.transform.is_some()) {
        return None;
    }
    let CacheHit { entry, slot } =
        cache_lookup::lookup_by_text(node, asker.coding, &method, params)?;
    let reply = JsonRpcResponse::from_cached(entry.value.as_ref()?, asker, slot, id);
    cache_lookup::record_text_hit(node);
    let subject = (method.label(), Some(params));
    record_call(node, &asker, subject, ExecutionPath::Cached, Outcome::Succeeded);
    Some(reply)
}

/// What a call reads that may come from the cache, or whose answer has a name though it is long.
pub(super) fn cacheable(
    node: &Node,
    asker: &RequestContext,
    method: &Method,
    params: Params<'_>,
) -> Option<CacheableCall> {
    if asker.options.is_some_and(|want| want.transform.is_some()) {
        return None;
    }
    let reads = methods::dependencies(method, node, params)?;
    let is_wanted = reads.is_cacheable || asker.options.is_some();
    let key = is_wanted.then(|| dependencies::cache_key(method, params, asker.coding))??;
    Some(CacheableCall { key, dependencies: reads })
}

/// The answer from the cache, or from whoever makes it for it; else what is to be done.
pub(super) async fn await_cached(
    node: &Node,
    asker: RequestContext,
    (id, method, params, class): (&Id, MethodRef, Params<'_>, PoolClass),
    asked: &CacheableCall,
) -> Result<JsonRpcResponse, CacheMiss> {
    let mut run = CacheMiss::uncached("bypass");
    let answer = |hit: &CacheHit| {
        let reply = JsonRpcResponse::from_cached(hit.entry.value.as_ref()?, asker, hit.slot, id);
        let subject = (method.label(), Some(params));
        record_call(node, &asker, subject, ExecutionPath::Cached, Outcome::Succeeded);
        Some(reply)
    };
    for _ in 0..ATTEMPTS_MAX {
        let (sender, told) = oneshot::channel();
        let tell = || -> OnFilled<CachedResponse> {
            Box::new(move |entry| {
                // Who waited may have gone.
                let _ = sender.send(entry);
            })
        };
        let call = (asker.coding, &*method, params);
        let _place = match cache_lookup::lookup(node, asked, call, asker.client, tell) {
            LookupOutcome::Hit(hit) => return answer(&hit).ok_or(run),
            LookupOutcome::Ticket(turn) => {
                return Err(CacheMiss { cache: "none", ticket: Some(turn), ..run });
            }
            LookupOutcome::Uncached(cache) => return Err(CacheMiss { cache, ..run }),
            LookupOutcome::Wait(place) => place,
        };
        run.has_waited = true;
        match with_deadline(node, &asker, class, told).await {
            Err(late) => return Ok(refuse_call(node, &asker, (id, method, params, class), late)),
            Ok(Ok(Some(entry))) => {
                if let Some(hit) = cache_lookup::revalidate(node, asked, entry) {
                    return answer(&hit).ok_or(run);
                }
            }
            Ok(_) => {}
        }
    }
    Err(run)
}

/// What is to be done with a call that was not answered from the cache.
pub(super) struct CacheMiss {
    /// What the log says of the cache.
    pub(super) cache: &'static str,
    /// It is for the cache as well.
    pub(super) ticket: Option<FillTicket<CachedResponse>>,
    /// Some of its time has gone.
    pub(super) has_waited: bool,
}

impl CacheMiss {
    pub(super) fn uncached(cache: &'static str) -> Self {
        Self { cache, ticket: None, has_waited: false }
    }
}

/// What names an answer for another door.
pub(super) fn validator_builder(
    node: &Node,
    asker: &RequestContext,
    asked: Option<&CacheableCall>,
) -> Option<ValidatorBuilder> {
    asked.filter(|_| asker.options.is_some()).map(|asked| ValidatorBuilder::new(node, asked))
}

/// What is told of a call's answer without making it, if `is_known` says of its name that whoever asks has
/// it. It was admitted already.
pub(crate) fn revalidate(
    node: &Node,
    asker: RequestContext,
    (method, params): (&str, &str),
    is_known: impl FnOnce(&Validator) -> bool,
) -> Option<ResponseMeta> {
    let (method, params) = (methods::find_method(method)?, Params::new(Some(params)));
    let asked = cacheable(node, &asker, &method, params)?;
    let (stamp, slot) = ValidatorBuilder::new(node, &asked).build(node)?;
    if asked.dependencies.min_context_slot.is_some_and(|min| slot < min) || !is_known(&stamp) {
        return None;
    }
    let subject = (method.label(), Some(params));
    record_call(node, &asker, subject, ExecutionPath::Cached, Outcome::Succeeded);
    Some(ResponseMeta { slot: Some(slot), etag: Some(stamp), ..ResponseMeta::default() })
}
