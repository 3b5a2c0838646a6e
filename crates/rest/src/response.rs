//! From the result of a method to the response of a route: headers, `ETag`, 304, the link to the next page.
//!
//! The slot of a result's context goes into a header, so that the body, and with it the `ETag`, changes
//! only when the value does. An `ETag` is a hash of the bytes that are sent, so that each coding has its
//! own. It is computed together with the response, before its first byte is sent.
//! Bounds: up to [`ETAG_BUFFER_BYTES_MAX`] of a response, and [`ACCOUNT_BYTES_MAX`] of an account, are buffered to
//! hash them. A longer response is streamed. Its `ETag` is computed from its dependencies (the validators of `rpc_solana`),
//! so that a client that has it gets 304 before it is computed. A response in the response cache is hashed once, at any
//! length.

use std::sync::Arc;

use bytes::Bytes;
use chain_solana::is_rooted;
use http_server::{ContentEncoding, ResponseBody};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode, Uri};
use jsonrpc::error::RpcError;
use jsonrpc::{MethodClient, MethodResponse, ResponseMeta, ResponseOptions};
use ledger::{Commitment, Slot};
use rpc_solana::SolanaServer;

use crate::content_negotiation::{Media, RAW};
use crate::error::ApiError;
use crate::link_header;
use crate::params::Params;
use crate::route::{MethodCall, ResponseKind, Route};
use crate::transform::{self, CURSOR};

/// Bytes of a response that are buffered for its `ETag`.
pub(crate) const ETAG_BUFFER_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of an account that are buffered: 10 MiB of data in base64 and its envelope. A transaction is shorter.
const ACCOUNT_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(crate) const SLOT: HeaderName = HeaderName::from_static("hydrant-slot");
pub(crate) const COMMITMENT: HeaderName = HeaderName::from_static("hydrant-commitment");

const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const VARY: HeaderValue = HeaderValue::from_static("accept, accept-encoding");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request, its client and its node.
pub(crate) struct RequestContext<'a> {
    pub(crate) server: &'a Arc<SolanaServer>,
    pub(crate) caller: MethodClient,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) media: Media,
    /// Whether the method is GET or HEAD, so that the response may be 304.
    pub(crate) is_read: bool,
    /// Bytes of a response that are buffered for its `ETag`.
    pub(crate) etag_buffer_bytes_max: usize,
}

impl RequestContext<'_> {
    pub(crate) async fn call(
        &self,
        call: &MethodCall,
        options: ResponseOptions,
    ) -> Result<MethodResponse, ApiError> {
        let MethodCall::Single(method, params) = call else {
            return Err(RpcError::internal().into());
        };
        Ok(self.caller.call(self.server, method, &params.to_string(), options).await?)
    }

    /// The slot of the state at a commitment.
    pub(crate) fn slot(&self, commitment: Commitment) -> Slot {
        self.server.api.reader.view(commitment).block().slot
    }

    fn content_encoding(&self) -> ContentEncoding {
        ContentEncoding::negotiate(self.headers)
    }
}

/// The slot and commitment at which a response is true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseContext {
    pub(crate) slot: Slot,
    pub(crate) commitment: Commitment,
    /// Whether the response will never change.
    pub(crate) is_immutable: bool,
}

/// Responds to a route of one method.
pub(crate) async fn respond(
    context: &RequestContext<'_>,
    route: &Route,
    params: &Params,
    call: MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let is_raw = context.media == Media::Raw;
    // Before the call: a slot that is below the root now is still below it when the method reads.
    let root = context.slot(Commitment::Finalized);
    let commitment = requested_commitment(params);
    let reached = context.slot(commitment);
    let at_slot = |slot| {
        let is_immutable = is_rooted(slot, root) || commitment == Commitment::Finalized;
        let commitment = if is_immutable { Commitment::Finalized } else { commitment };
        ResponseContext { slot, commitment, is_immutable }
    };
    let response_context = |meta: &ResponseMeta| match route.response {
        ResponseKind::Block => at_slot(params.number("slot").unwrap_or(reached)),
        ResponseKind::Transaction => {
            at_slot(slot_of_transaction(&meta.prefix).or(meta.slot).unwrap_or(reached))
        }
        _ => {
            let slot = meta.slot.unwrap_or(reached);
            ResponseContext { slot, commitment, is_immutable: false }
        }
    };
    let options = response_options(context, route, params);
    if let Some(meta) = revalidate(context, route, &call, options) {
        let mut response = not_modified();
        response.headers_mut().extend(meta.etag.map(|hash| (header::ETAG, etag(&hash))));
        write_context_headers(response.headers_mut(), response_context(&meta));
        return Ok(response);
    }
    let result = context.call(&call, options).await;
    // An object that the method did not find did not exist at the slot reached before the call.
    let result = result.map_err(|err| err.at_slot(reached, commitment))?;
    if result.meta.prefix == b"null" {
        let what =
            if route.response == ResponseKind::Transaction { "transaction" } else { "account" };
        let slot = result.meta.slot.unwrap_or(reached);
        return Err(ApiError::not_found(what).at_slot(slot, commitment));
    }
    let response_context = response_context(&result.meta);
    if route.response == ResponseKind::Submitted {
        return accepted_response(&result, response_context);
    }
    let MethodResponse { meta, coding, body } = result;
    if is_raw != meta.raw_fields.is_some() {
        return Err(RpcError::internal().into());
    }
    let etag = meta.etag.map(|hash| etag(&hash));
    let next = link_header::next_page_link(context.uri, params, &meta.prefix, &meta.extra_headers);
    let media = if is_raw { HeaderValue::from_static(RAW) } else { JSON };
    let mut response = with_etag(context, body, media, etag);
    let headers = response.headers_mut();
    write_context_headers(headers, response_context);
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

/// The metadata of the response if the client has it already and that is known without computing it.
fn revalidate(
    context: &RequestContext<'_>,
    route: &Route,
    call: &MethodCall,
    options: ResponseOptions,
) -> Option<ResponseMeta> {
    let has_validator = matches!(route.response, ResponseKind::State | ResponseKind::Block);
    let is_conditional = context.is_read && context.headers.contains_key(header::IF_NONE_MATCH);
    let MethodCall::Single(method, params) = call else { return None };
    if !has_validator || !is_conditional {
        return None;
    }
    // `*` matches any existing object. Only the response shows whether it exists, so `*` is not checked here.
    let is_known = |hash: &[u8; 16]| lists_etag(context.headers, etag(hash).as_bytes());
    context.caller.revalidate(context.server, method, &params.to_string(), options, is_known)
}

/// The options of the method's response for a route.
fn response_options(
    context: &RequestContext<'_>,
    route: &Route,
    params: &Params,
) -> ResponseOptions {
    let transform = match route.response {
        ResponseKind::Signatures => {
            Some(transform::signature_page(params.number("limit").unwrap_or(1_000) as usize))
        }
        _ => None,
    };
    let etag_buffer_bytes_max = match route.response {
        ResponseKind::Account | ResponseKind::Transaction | ResponseKind::Signatures => {
            ACCOUNT_BYTES_MAX
        }
        _ => context.etag_buffer_bytes_max,
    };
    // The result of a submitted transaction is a signature, which is read here.
    let coding = if route.response == ResponseKind::Submitted {
        ContentEncoding::Plain
    } else {
        context.content_encoding()
    };
    let wants_raw = context.media == Media::Raw;
    ResponseOptions { coding, etag_buffer_bytes_max, wants_raw, transform }
}

/// The commitment of a request.
pub(crate) fn requested_commitment(params: &Params) -> Commitment {
    match params.text("commitment") {
        Some("processed") => Commitment::Processed,
        Some("confirmed") => Commitment::Confirmed,
        _ => Commitment::Finalized,
    }
}

/// The slot of a transaction: its first member, `{"slot":5,…`.
fn slot_of_transaction(json: &[u8]) -> Option<Slot> {
    let rest = json.strip_prefix(br#"{"slot":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}

/// The response to a transaction that was queued.
fn accepted_response(
    result: &MethodResponse,
    context: ResponseContext,
) -> Result<Response<ResponseBody>, ApiError> {
    // The whole result is in the prefix: a signature in base58, in quotes.
    let signature: String =
        serde_json::from_slice(&result.meta.prefix).map_err(|_| RpcError::internal())?;
    let body = serde_json::json!({ "signature": signature }).to_string();
    let mut response = with_content_type(Bytes::from(body).into(), JSON);
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    write_context_headers(headers, context);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/transactions/{signature}")) {
        headers.insert(header::LOCATION, location);
    }
    Ok(response)
}

/// A response whose body is complete and short. It is not compressed.
pub(crate) fn json_response(
    context: &RequestContext<'_>,
    body: Vec<u8>,
    response_context: ResponseContext,
) -> Response<ResponseBody> {
    let etag = etag(&blake3::hash(&body).as_bytes()[..16]);
    let mut response = with_etag(context, Bytes::from(body).into(), JSON, Some(etag));
    write_context_headers(response.headers_mut(), response_context);
    response
}

/// A response, or 304 if the client has it.
fn with_etag(
    context: &RequestContext<'_>,
    body: ResponseBody,
    media: HeaderValue,
    etag: Option<HeaderValue>,
) -> Response<ResponseBody> {
    let is_match = context.is_read
        && etag.as_ref().is_some_and(|etag| matches_if_none_match(context.headers, etag));
    let mut response = if is_match { not_modified() } else { with_content_type(body, media) };
    if let Some(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

fn with_content_type(body: ResponseBody, media: HeaderValue) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

fn not_modified() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

fn write_context_headers(headers: &mut HeaderMap, context: ResponseContext) {
    headers.insert(SLOT, context.slot.into());
    headers.insert(COMMITMENT, HeaderValue::from_static(commitment_name(context.commitment)));
    let cache = if context.is_immutable { IMMUTABLE } else { REVALIDATE };
    headers.insert(header::CACHE_CONTROL, cache);
    headers.insert(header::VARY, VARY);
}

/// The name of a commitment in the API.
pub(crate) fn commitment_name(commitment: Commitment) -> &'static str {
    match commitment {
        Commitment::Processed => "processed",
        Commitment::Confirmed => "confirmed",
        Commitment::Finalized => "finalized",
    }
}

/// A strong `ETag` of the first half of a hash.
fn etag(hash: &[u8]) -> HeaderValue {
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("\"{digits}\""))
        .unwrap_or_else(|_| unreachable!("hexadecimal in quotes"))
}

/// Whether `If-None-Match` matches the `ETag`, `*` included.
fn matches_if_none_match(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    if_none_match(headers).any(|tag| tag == "*") || lists_etag(headers, etag.as_bytes())
}

/// Whether `If-None-Match` lists the `ETag`.
fn lists_etag(headers: &HeaderMap, etag: &[u8]) -> bool {
    if_none_match(headers).any(|tag| tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == etag)
}

/// The values of `If-None-Match`.
fn if_none_match(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    values.filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(',')).map(str::trim)
}

/// A response that is computed once, in every coding.
#[derive(Debug)]
pub(crate) struct StaticResponse {
    media: &'static str,
    representations: Vec<(ContentEncoding, Bytes, HeaderValue)>,
}

impl StaticResponse {
    pub(crate) fn new(media: &'static str, body: &[u8]) -> Self {
        let codings =
            [ContentEncoding::Plain, ContentEncoding::Gzip, ContentEncoding::Zstd].into_iter();
        let representations = codings.filter_map(|coding| {
            let bytes = http_server::encode_all(coding, body).ok()?;
            let etag = etag(&blake3::hash(&bytes).as_bytes()[..16]);
            Some((coding, bytes.into(), etag))
        });
        Self { media, representations: representations.collect() }
    }

    pub(crate) fn respond(&self, headers: &HeaderMap) -> Response<ResponseBody> {
        let preferred = ContentEncoding::negotiate(headers);
        let found = self.representations.iter().find(|(coding, ..)| *coding == preferred);
        let Some((coding, body, etag)) = found.or_else(|| self.representations.first()) else {
            return ApiError::from(RpcError::internal()).into_response();
        };
        let mut response = if matches_if_none_match(headers, etag) {
            not_modified()
        } else {
            let mut response =
                with_content_type(body.clone().into(), HeaderValue::from_static(self.media));
            if let Some(coding) = coding.header() {
                response.headers_mut().insert(header::CONTENT_ENCODING, coding);
            }
            response
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, etag.clone());
        headers.insert(header::CACHE_CONTROL, REVALIDATE);
        headers.insert(header::VARY, VARY);
        response
    }
}
