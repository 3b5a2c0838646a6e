//! From what a method answers to what a route does: headers, `ETag`, 304, the way to the next page.
//!
//! The slot of an answer's context goes into a header, so that the body, and with it the `ETag`, changes
//! only when the value does. An `ETag` is a hash of the bytes that are sent, so that each coding has its
//! own; it is made where the answer is made, before its first byte goes.
//! Bounds: [`ETAG_BUFFER_BYTES_MAX`] of an answer are held back to hash them, of an account [`ACCOUNT_BYTES_MAX`].
//! What is longer is streamed; its `ETag` is of what it is made from (`rpc`'s stamps), so that a client who
//! has it is told so before it is made. What the answer cache keeps is hashed once, however long.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode, Uri};
use ledger::{Commitment, Slot};
use rpc::error::RpcError;
use rpc::{
    ContentEncoding, MethodClient, MethodResponse, Node, ResponseBody, ResponseMeta,
    ResponseOptions,
};

use crate::content_negotiation::{Media, RAW};
use crate::error::ApiError;
use crate::link_header;
use crate::params::Params;
use crate::route::{MethodCall, ResponseKind, Route};
use crate::transform::{self, CURSOR};

/// What is held of an answer for its `ETag`.
pub(crate) const ETAG_BUFFER_BYTES_MAX: usize = 1024 * 1024;

/// What is held of an account, 10 MiB of data in base64 and what stands around it, and of a transaction,
/// which is less.
const ACCOUNT_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(crate) const SLOT: HeaderName = HeaderName::from_static("hydrant-slot");
pub(crate) const COMMITMENT: HeaderName = HeaderName::from_static("hydrant-commitment");

const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const VARY: HeaderValue = HeaderValue::from_static("accept, accept-encoding");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Who asks, and how.
pub(crate) struct RequestContext<'a> {
    pub(crate) node: &'a Arc<Node>,
    pub(crate) caller: MethodClient,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) media: Media,
    /// Whether it is GET or HEAD, and may be answered with 304.
    pub(crate) is_read: bool,
    /// What is held of an answer for its `ETag`.
    pub(crate) etag_buffer_bytes_max: usize,
}

impl RequestContext<'_> {
    pub(crate) async fn call(
        &self,
        plan: &MethodCall,
        want: ResponseOptions,
    ) -> Result<MethodResponse, ApiError> {
        let MethodCall::Single(method, params) = plan else {
            return Err(RpcError::internal().into());
        };
        Ok(self.caller.call(self.node, method, &params.to_string(), want).await?)
    }

    /// The slot of the state at a commitment.
    pub(crate) fn slot(&self, commitment: Commitment) -> Slot {
        self.node.reader.view(commitment).block().slot
    }

    fn content_encoding(&self) -> ContentEncoding {
        ContentEncoding::negotiate(self.headers)
    }
}

/// For which moment an answer is true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseContext {
    pub(crate) slot: Slot,
    pub(crate) commitment: Commitment,
    /// Whether it will be true forever.
    pub(crate) is_immutable: bool,
}

/// Answers a route of one method.
pub(crate) async fn respond(
    asked: &RequestContext<'_>,
    route: &Route,
    args: &Params,
    mut plan: MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let is_raw = asked.media == Media::Raw;
    if is_raw && let MethodCall::Single(_, params) = &mut plan {
        params[1]["encoding"] = "base64".into();
    }
    // Before the call: what is below the root now is below it when the method reads.
    let root = asked.slot(Commitment::Finalized);
    let commitment = requested_commitment(args);
    let reached = asked.slot(commitment);
    let at_slot = |slot| {
        let is_fixed = slot <= root || commitment == Commitment::Finalized;
        let commitment = if is_fixed { Commitment::Finalized } else { commitment };
        ResponseContext { slot, commitment, is_immutable: is_fixed }
    };
    let moment = |told: &ResponseMeta| match route.response {
        ResponseKind::Block => at_slot(args.number("slot").unwrap_or(reached)),
        ResponseKind::Transaction => at_slot(slot_of_transaction(&told.prefix).unwrap_or(reached)),
        _ => {
            let slot = told.slot.unwrap_or(reached);
            ResponseContext { slot, commitment, is_immutable: false }
        }
    };
    let want = response_options(asked, route, args);
    if let Some(told) = revalidate(asked, route, &plan, want) {
        let mut response = not_modified();
        response.headers_mut().extend(told.etag.map(|hash| (header::ETAG, etag(&hash))));
        write_context_headers(response.headers_mut(), moment(&told));
        return Ok(response);
    }
    let called = asked.call(&plan, want).await;
    // What the method did not find, was not there at the slot reached before it looked.
    let called = called.map_err(|problem| problem.at_slot(reached, commitment))?;
    if called.meta.prefix == b"null" {
        let what =
            if route.response == ResponseKind::Transaction { "transaction" } else { "account" };
        let slot = called.meta.slot.unwrap_or(reached);
        return Err(ApiError::not_found(what).at_slot(slot, commitment));
    }
    let (beginning, moment) = (&called.meta.prefix, moment(&called.meta));
    if route.response == ResponseKind::Submitted {
        return accepted_response(&called, moment);
    }
    let etag = called.meta.etag.map(|hash| etag(&hash));
    let next = link_header::next_page_link(asked.uri, args, beginning, &called.meta.extra_headers);
    let MethodResponse { meta: told, coding, body: content } = called;
    let media = if is_raw { HeaderValue::from_static(RAW) } else { JSON };
    let mut response = with_etag(asked, content, media, etag);
    let headers = response.headers_mut();
    write_context_headers(headers, moment);
    if response.status() != StatusCode::NOT_MODIFIED
        && let Some(coding) = coding.header()
    {
        response.headers_mut().insert(header::CONTENT_ENCODING, coding);
    }
    let headers = response.headers_mut();
    headers.extend(told.extra_headers.into_iter().filter(|(name, _)| *name != CURSOR));
    if let Some(next) = next {
        headers.insert(header::LINK, next);
    }
    Ok(response)
}

/// What is told of an answer that the client has, if that can be known without making it.
fn revalidate(
    asked: &RequestContext<'_>,
    route: &Route,
    plan: &MethodCall,
    want: ResponseOptions,
) -> Option<ResponseMeta> {
    let is_named = matches!(route.response, ResponseKind::State | ResponseKind::Block);
    let has_one = asked.is_read && asked.headers.contains_key(header::IF_NONE_MATCH);
    let MethodCall::Single(method, params) = plan else { return None };
    if !is_named || !has_one {
        return None;
    }
    // Whatever there is, is what `*` means: whether there is, only an answer says.
    let is_known = |hash: &[u8; 16]| lists_etag(asked.headers, etag(hash).as_bytes());
    asked.caller.revalidate(asked.node, method, &params.to_string(), want, is_known)
}

/// How a route wants what its method answers.
fn response_options(asked: &RequestContext<'_>, route: &Route, args: &Params) -> ResponseOptions {
    let shaper = match route.response {
        ResponseKind::Signatures => {
            Some(transform::signature_page(args.number("limit").unwrap_or(1_000) as usize))
        }
        _ if asked.media == Media::Raw => Some(transform::RAW_BYTES),
        _ => None,
    };
    let hold_bytes_max = match route.response {
        ResponseKind::Account | ResponseKind::Transaction | ResponseKind::Signatures => {
            ACCOUNT_BYTES_MAX
        }
        _ => asked.etag_buffer_bytes_max,
    };
    // What was sent is answered with an object of two members.
    let coding = if route.response == ResponseKind::Submitted {
        ContentEncoding::Plain
    } else {
        asked.content_encoding()
    };
    ResponseOptions { coding, etag_buffer_bytes_max: hold_bytes_max, transform: shaper }
}

/// The commitment of a request.
pub(crate) fn requested_commitment(args: &Params) -> Commitment {
    match args.text("commitment") {
        Some("processed") => Commitment::Processed,
        Some("confirmed") => Commitment::Confirmed,
        _ => Commitment::Finalized,
    }
}

/// `{"slot":5,…`: the first member of a transaction.
fn slot_of_transaction(json: &[u8]) -> Option<Slot> {
    let rest = json.strip_prefix(br#"{"slot":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}

/// The answer to a transaction that was queued.
fn accepted_response(
    called: &MethodResponse,
    moment: ResponseContext,
) -> Result<Response<ResponseBody>, ApiError> {
    // A signature in base58, in quotes: all of it is the beginning.
    let signature: String =
        serde_json::from_slice(&called.meta.prefix).map_err(|_| RpcError::internal())?;
    let body = serde_json::json!({ "signature": signature }).to_string();
    let mut response = with_content_type(Bytes::from(body).into(), JSON);
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    write_context_headers(headers, moment);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/transactions/{signature}")) {
        headers.insert(header::LOCATION, location);
    }
    Ok(response)
}

/// An answer that is all there, and short: as it is.
pub(crate) fn json_response(
    asked: &RequestContext<'_>,
    body: Vec<u8>,
    moment: ResponseContext,
) -> Response<ResponseBody> {
    let mut half = [0; 16];
    half.copy_from_slice(&blake3::hash(&body).as_bytes()[..16]);
    let mut response = with_etag(asked, Bytes::from(body).into(), JSON, Some(etag(&half)));
    write_context_headers(response.headers_mut(), moment);
    response
}

/// A response, or 304 if the client has it.
fn with_etag(
    asked: &RequestContext<'_>,
    content: ResponseBody,
    media: HeaderValue,
    etag: Option<HeaderValue>,
) -> Response<ResponseBody> {
    let is_had = asked.is_read
        && etag.as_ref().is_some_and(|etag| matches_if_none_match(asked.headers, etag));
    let mut response = if is_had { not_modified() } else { with_content_type(content, media) };
    if let Some(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

fn with_content_type(content: ResponseBody, media: HeaderValue) -> Response<ResponseBody> {
    let mut response = Response::new(content);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

fn not_modified() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

fn write_context_headers(headers: &mut HeaderMap, moment: ResponseContext) {
    headers.insert(SLOT, moment.slot.into());
    headers.insert(COMMITMENT, HeaderValue::from_static(commitment_name(moment.commitment)));
    let cache = if moment.is_immutable { IMMUTABLE } else { REVALIDATE };
    headers.insert(header::CACHE_CONTROL, cache);
    headers.insert(header::VARY, VARY);
}

/// A commitment as clients write it.
pub(crate) fn commitment_name(commitment: Commitment) -> &'static str {
    match commitment {
        Commitment::Processed => "processed",
        Commitment::Confirmed => "confirmed",
        Commitment::Finalized => "finalized",
    }
}

/// A strong `ETag` of half a hash.
fn etag(half: &[u8]) -> HeaderValue {
    let digits: String = half.iter().map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("\"{digits}\""))
        .unwrap_or_else(|_| unreachable!("hexadecimal in quotes"))
}

/// Whether the client has that already.
fn matches_if_none_match(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    if_none_match(headers).any(|tag| tag == "*") || lists_etag(headers, etag.as_bytes())
}

/// Whether the client names that `ETag`.
fn lists_etag(headers: &HeaderMap, etag: &[u8]) -> bool {
    if_none_match(headers).any(|tag| tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == etag)
}

/// What the client has.
fn if_none_match(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let given = headers.get_all(header::IF_NONE_MATCH).iter();
    given.filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(',')).map(str::trim)
}

/// An answer that is made once, in every coding.
#[derive(Debug)]
pub(crate) struct StaticResponse {
    media: &'static str,
    representations: Vec<(ContentEncoding, Bytes, HeaderValue)>,
}

impl StaticResponse {
    pub(crate) fn new(media: &'static str, body: &[u8]) -> Self {
        let codings =
            [ContentEncoding::Plain, ContentEncoding::Gzip, ContentEncoding::Zstd].into_iter();
        let coded = codings.filter_map(|coding| {
            let bytes = rpc::encode_all(coding, body).ok()?;
            let etag = etag(&blake3::hash(&bytes).as_bytes()[..16]);
            Some((coding, bytes.into(), etag))
        });
        Self { media, representations: coded.collect() }
    }

    pub(crate) fn respond(&self, headers: &HeaderMap) -> Response<ResponseBody> {
        let asked = ContentEncoding::negotiate(headers);
        let wanted = self.representations.iter().find(|(coding, ..)| *coding == asked);
        let Some((coding, body, etag)) = wanted.or_else(|| self.representations.first()) else {
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
