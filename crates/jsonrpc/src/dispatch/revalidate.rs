//! Whether the earlier result of a call is still current, without computing it: for conditional and repeated requests.
//!
//! Not here: the limits of the client, which are charged by `method_client`.

use cache::TEXT_BYTES_MAX;
use response_cache::{CacheHit, Validator, ValidatorBuilder, WatchedResult};

use super::cached::cacheable;
use crate::api::{Api, Server};
use crate::metrics::MethodLabel;
use crate::request_context::RequestContext;
use crate::value_response::ResponseMeta;

/// Metadata of a call's response without computing it, if `is_known` says that the client has the response with
/// this hash or validator: that of the cached response, or of a response that is too long to be hashed.
pub(crate) fn revalidate<A: Api>(
    server: &Server<A>,
    context: RequestContext,
    method: &str,
    params: &str,
    is_known: impl Fn(&Validator) -> bool,
) -> Option<ResponseMeta> {
    let method = server.find_method(method)?;
    if server.context.health.withholds_state() {
        return None;
    }
    let params = context.params(Some(params));
    if server.api.must_prepare(method.name, params) {
        return None;
    }
    let call = cacheable(server, &context, &method, params)?;
    let cache = &server.context.response_cache;
    let dependencies = &call.dependencies;
    let cached = dependencies.is_cacheable.then(|| cache.peek(&server.api, &call)).flatten();
    let cached = cached.and_then(|CacheHit { entry, slot }| {
        let value = entry.value.as_ref().filter(|value| is_known(&value.etag()))?;
        Some(ResponseMeta::from_cached(value, slot))
    });
    if cached.is_some() {
        return cached;
    }
    let (validator, slot) =
        ValidatorBuilder::new(&server.api, &call).build(cache.process_key(), &server.api)?;
    let is_reached = dependencies.min_context_slot.is_none_or(|min| slot >= min);
    (is_reached && is_known(&validator)).then(|| ResponseMeta {
        slot: Some(slot),
        etag: Some(validator),
        ..ResponseMeta::default()
    })
}

/// A call whose result was sent, with the dependencies of this result.
pub struct WatchedCall {
    pub(crate) method: &'static str,
    /// The label of the method in metrics.
    pub(crate) label: MethodLabel,
    /// The result by its dependencies.
    pub(crate) result: WatchedResult,
    /// The text of its parameters, if calls may have to wait for something first ([`Api::has_preparations`]).
    pub(crate) params: Option<Box<str>>,
}

impl WatchedCall {
    /// Returns the bytes of the call and of the dependencies of its result.
    pub fn bytes(&self) -> u64 {
        let params = self.params.as_deref().map_or(0, str::len);
        (size_of::<Self>() - size_of::<WatchedResult>() + params) as u64 + self.result.bytes()
    }

    /// Whether the result is the one that a new call would have.
    pub(crate) fn is_current<A: Api>(&self, server: &Server<A>, context: &RequestContext) -> bool {
        let must_prepare =
            |text: &str| server.api.must_prepare(self.method, context.params(Some(text)));
        self.result.is_current(&server.api) && !self.params.as_deref().is_some_and(must_prepare)
    }
}

/// Starts to watch the dependencies of a call's result, up to `records_max` records or else the block. `None` if they are
/// not known, or the parameters are too long to be stored for a later check whether the call must wait.
pub(crate) fn watch_call<A: Api>(
    server: &Server<A>,
    context: &RequestContext,
    method: &str,
    params: &str,
    records_max: usize,
) -> Option<WatchedCall> {
    let method = server.find_method(method)?;
    if server.context.health.withholds_state() {
        return None;
    }
    let has_preparations = server.api.has_preparations();
    if has_preparations && params.len() > TEXT_BYTES_MAX {
        return None;
    }
    let call_params = context.params(Some(params));
    if server.api.must_prepare(method.name, call_params) {
        return None;
    }
    let find = method.revalidation_dependencies.or(method.cache_dependencies)?;
    let dependencies = find(&server.api, call_params)?.limit_records(records_max);
    let result = WatchedResult::start(&server.api, &dependencies)?;
    let params = has_preparations.then(|| Box::from(params));
    Some(WatchedCall { method: method.name, label: method.label(), result, params })
}
