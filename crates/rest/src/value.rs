//! From the result of one method to the response of its route: headers, `ETag`, 304, the link to the next page.
//!
//! The slot of a result's context goes into a header, so that the body, and with it the `ETag`, changes
//! only when the value does. An `ETag` is a hash of the bytes that are sent, so that each coding has its
//! own. It is computed together with the response, before its first byte is sent.
//! Bounds: up to [`crate::Rest::with_etag_buffer`] bytes of a response, or as many as its route says
//! ([`ETagSource::Bytes`]), are buffered to hash them. A longer response is streamed. Its `ETag` is computed from its
//! dependencies (the validators of `response_cache`), so that a client that has it gets 304 before it is computed. A
//! response in the response cache is hashed once, at any length.

use bytes::Bytes;
use http_server::{ContentEncoding, NO_STORE, ResponseBody};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use jsonrpc::error::RpcError;
use jsonrpc::{Api, MethodResponse, ResponseMeta, ResponseOptions, Server};
use ledger::{Commitment, Slot};

use crate::content_negotiation::{Media, RAW};
use crate::error::ApiError;
use crate::etag::{etag, lists_etag};
use crate::headers::{CURSOR, JSON};
use crate::link_header::next_page_link;
use crate::params::Params;
use crate::request_context::{ETAG_BUFFER_BYTES_MAX, RequestContext};
use crate::response::{
    ResponseContext, not_modified, requested_commitment, with_content_type, with_etag,
    write_context_headers,
};
use crate::route::{AcceptedResponse, ETagSource, MethodCall, SlotSource, ValueResponse};

/// The slots at which a response may be true.
struct ResponseSlots {
    commitment: Commitment,
    /// The slot of the state when the request arrived.
    reached: Slot,
    /// The slot of the root at that time: a slot that is final then is still final when the method reads.
    root: Slot,
}

impl ResponseSlots {
    fn new<A: Api>(server: &Server<A>, commitment: Commitment) -> Self {
        let slot = |commitment| server.api.version_and_slot(commitment).1;
        let root = slot(Commitment::Finalized);
        Self { commitment, reached: slot(commitment), root }
    }

    /// The context of a value of the state.
    fn for_state(&self, meta: &ResponseMeta) -> ResponseContext {
        ResponseContext::for_state(meta.slot.unwrap_or(self.reached), self.commitment)
    }

    /// The context of a value that belongs to a slot.
    fn at(&self, slot: Slot) -> ResponseContext {
        ResponseContext::for_object(slot, self.commitment, || self.root)
    }

    fn context(&self, source: SlotSource, params: &Params, meta: &ResponseMeta) -> ResponseContext {
        match source {
            SlotSource::Context => self.for_state(meta),
            SlotSource::Param(name) => self.at(params.number(name).unwrap_or(self.reached)),
            SlotSource::Value(read) => {
                self.at(read(&meta.prefix).or(meta.slot).unwrap_or(self.reached))
            }
        }
    }
}

/// Responds to a route of a value. For an API that responds itself, too ([`crate::RestApi::respond`]).
pub async fn respond_value<A: Api>(
    context: &RequestContext<'_, A>,
    value: &ValueResponse,
    params: &Params,
    call: MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let commitment = value.commitment.unwrap_or_else(|| requested_commitment(params));
    let slots = ResponseSlots::new(context.server, commitment);
    let options = response_options(context, value, params);
    if let Some(meta) = revalidate(context, &call, options)? {
        let mut response = not_modified();
        response.headers_mut().extend(meta.etag.map(|hash| (header::ETAG, etag(&hash))));
        let response_context = slots.context(value.slot, params, &meta);
        write_context_headers(response.headers_mut(), response_context);
        return Ok(response);
    }
    let MethodResponse { meta, coding, body } =
        call_method(context, &slots, &call, options).await?;
    if meta.prefix == b"null" {
        let slot = meta.slot.unwrap_or(slots.reached);
        return Err(ApiError::not_found(value.object).at_slot(slot, slots.commitment));
    }
    if options.wants_raw != meta.raw_fields.is_some() {
        return Err(RpcError::internal().into());
    }
    let response_context = slots.context(value.slot, params, &meta);
    let etag = meta.etag.map(|hash| etag(&hash));
    let next = next_page_link(context.uri, params, &meta.prefix, &meta.extra_headers);
    let media = if options.wants_raw { HeaderValue::from_static(RAW) } else { JSON };
    let mut response = with_etag(context, body, media, etag);
    write_context_headers(response.headers_mut(), response_context);
    if response.status() != StatusCode::NOT_MODIFIED
        && let Some(coding) = coding.header()
    {
        response.headers_mut().insert(header::CONTENT_ENCODING, coding);
    }
    let headers = response.headers_mut();
    for (name, text) in meta.raw_fields.iter().flatten() {
        let name = HeaderName::from_bytes(format!("hydrant-{name}").as_bytes());
        headers.extend(name.ok().zip(HeaderValue::from_str(text).ok()));
    }
    headers.extend(meta.extra_headers.into_iter().filter(|(name, _)| *name != CURSOR));
    if let Some(next) = next {
        headers.insert(header::LINK, next);
    }
    Ok(response)
}

/// Responds to a submission that was accepted, with 202.
pub(crate) async fn respond_accepted<A: Api>(
    context: &RequestContext<'_, A>,
    accepted: &AcceptedResponse,
    params: &Params,
    call: MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let slots = ResponseSlots::new(context.server, requested_commitment(params));
    // The whole result is in the prefix: a string, which is read here.
    let options = ResponseOptions {
        coding: ContentEncoding::Plain,
        etag_buffer_bytes_max: ETAG_BUFFER_BYTES_MAX,
        ..ResponseOptions::default()
    };
    let MethodResponse { meta, .. } = call_method(context, &slots, &call, options).await?;
    let AcceptedResponse { member, location, .. } = accepted;
    let id: String = serde_json::from_slice(&meta.prefix).map_err(|_| RpcError::internal())?;
    let body = serde_json::json!({ *member: id }).to_string();
    let mut response = with_content_type(Bytes::from(body).into(), JSON);
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    write_context_headers(headers, slots.for_state(&meta));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    if let Ok(location) = HeaderValue::from_str(&format!("{location}{id}")) {
        headers.insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Calls the method. An object that it did not find did not exist at the slot reached before the call.
async fn call_method<A: Api>(
    context: &RequestContext<'_, A>,
    slots: &ResponseSlots,
    call: &MethodCall,
    options: ResponseOptions,
) -> Result<MethodResponse, ApiError> {
    let result = context.call(call, options).await;
    result.map_err(|err| err.at_slot(slots.reached, slots.commitment))
}

/// The metadata of the response if the client has it already and that is known without computing it.
fn revalidate<A: Api>(
    context: &RequestContext<'_, A>,
    call: &MethodCall,
    options: ResponseOptions,
) -> Result<Option<ResponseMeta>, RpcError> {
    let is_conditional = context.is_read && context.headers.contains_key(header::IF_NONE_MATCH);
    let MethodCall::Single(method, params) = call else { return Ok(None) };
    if !is_conditional {
        return Ok(None);
    }
    // `*` matches any existing object. Only the response shows whether it exists, so `*` is not checked here.
    let is_known = |hash: &[u8; 16]| lists_etag(context.headers, etag(hash).as_bytes());
    context.caller.revalidate(context.server, method, &params.to_string(), options, is_known)
}

/// The options of the method's response for a route.
fn response_options<A: Api>(
    context: &RequestContext<'_, A>,
    value: &ValueResponse,
    params: &Params,
) -> ResponseOptions {
    let etag_buffer_bytes_max = match value.etag {
        ETagSource::Bytes(bytes_max) => bytes_max,
        ETagSource::BytesOrDependencies => context.etag_buffer_bytes_max,
    };
    ResponseOptions {
        coding: context.content_encoding(),
        etag_buffer_bytes_max,
        wants_raw: context.media == Media::Raw,
        transform: value.transform.map(|transform| transform(params)),
    }
}
