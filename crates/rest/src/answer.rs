//! From what a method answers to what a route does: headers, `ETag`, 304, the way to the next page.
//!
//! The slot of an answer's context goes into a header, so that the body, and with it the `ETag`, changes
//! only when the value does. An `ETag` is a hash of the bytes that are sent, so that each coding has its
//! own; it is made where the answer is made, before its first byte goes.
//! Bounds: [`HOLD_BYTES_MAX`] of an answer are held back to hash them, of an account [`ACCOUNT_BYTES_MAX`].
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

use crate::accept::{Media, RAW};
use crate::error::Problem;
use crate::input::Args;
use crate::link;
use crate::route::{Answer, Plan, Route};
use crate::shape::{self, CURSOR};

/// What is held of an answer for its `ETag`.
pub(crate) const HOLD_BYTES_MAX: usize = 1024 * 1024;

/// What is held of an account, 10 MiB of data in base64 and what stands around it, and of a transaction,
/// which is less.
const ACCOUNT_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(crate) const SLOT: HeaderName = HeaderName::from_static("hydrant-slot");
pub(crate) const COMMITMENT: HeaderName = HeaderName::from_static("hydrant-commitment");

const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
const NEVER_CHANGES: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const VARY: HeaderValue = HeaderValue::from_static("accept, accept-encoding");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Who asks, and how.
pub(crate) struct Asked<'a> {
    pub(crate) node: &'a Arc<Node>,
    pub(crate) caller: MethodClient,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) media: Media,
    /// Whether it is GET or HEAD, and may be answered with 304.
    pub(crate) is_read: bool,
    /// What is held of an answer for its `ETag`.
    pub(crate) hold_bytes_max: usize,
}

impl Asked<'_> {
    pub(crate) async fn call(
        &self,
        plan: &Plan,
        want: ResponseOptions,
    ) -> Result<MethodResponse, Problem> {
        let Plan::Call(method, params) = plan else { return Err(RpcError::internal().into()) };
        Ok(self.caller.call(self.node, method, &params.to_string(), want).await?)
    }

    /// The slot of the state at a commitment.
    pub(crate) fn slot(&self, commitment: Commitment) -> Slot {
        self.node.reader.view(commitment).block().slot
    }

    fn coding(&self) -> ContentEncoding {
        ContentEncoding::negotiate(self.headers)
    }
}

/// For which moment an answer is true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) slot: Slot,
    pub(crate) commitment: Commitment,
    /// Whether it will be true forever.
    pub(crate) is_fixed: bool,
}

/// Answers a route of one method.
pub(crate) async fn answer(
    asked: &Asked<'_>,
    route: &Route,
    args: &Args,
    mut plan: Plan,
) -> Result<Response<ResponseBody>, Problem> {
    let is_raw = asked.media == Media::Raw;
    if is_raw && let Plan::Call(_, params) = &mut plan {
        params[1]["encoding"] = "base64".into();
    }
    // Before the call: what is below the root now is below it when the method reads.
    let root = asked.slot(Commitment::Finalized);
    let commitment = level(args);
    let reached = asked.slot(commitment);
    let at_slot = |slot| {
        let is_fixed = slot <= root || commitment == Commitment::Finalized;
        let commitment = if is_fixed { Commitment::Finalized } else { commitment };
        Moment { slot, commitment, is_fixed }
    };
    let moment = |told: &ResponseMeta| match route.answer {
        Answer::Block => at_slot(args.number("slot").unwrap_or(reached)),
        Answer::Transaction => at_slot(slot_of_transaction(&told.prefix).unwrap_or(reached)),
        _ => {
            let slot = told.slot.unwrap_or(reached);
            Moment { slot, commitment, is_fixed: false }
        }
    };
    let want = want(asked, route, args);
    if let Some(told) = unchanged(asked, route, &plan, want) {
        let mut response = not_modified();
        response.headers_mut().extend(told.etag.map(|hash| (header::ETAG, etag(&hash))));
        write_moment(response.headers_mut(), moment(&told));
        return Ok(response);
    }
    let called = asked.call(&plan, want).await;
    // What the method did not find, was not there at the slot reached before it looked.
    let called = called.map_err(|problem| problem.at(reached, commitment))?;
    if called.meta.prefix == b"null" {
        let what = if route.answer == Answer::Transaction { "transaction" } else { "account" };
        let slot = called.meta.slot.unwrap_or(reached);
        return Err(Problem::not_found(what).at(slot, commitment));
    }
    let (beginning, moment) = (&called.meta.prefix, moment(&called.meta));
    if route.answer == Answer::Sent {
        return sent(&called, moment);
    }
    let etag = called.meta.etag.map(|hash| etag(&hash));
    let next = link::next(asked.uri, args, beginning, &called.meta.extra_headers);
    let MethodResponse { meta: told, coding, body: content } = called;
    let media = if is_raw { HeaderValue::from_static(RAW) } else { JSON };
    let mut response = tagged(asked, content, media, etag);
    let headers = response.headers_mut();
    write_moment(headers, moment);
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
fn unchanged(
    asked: &Asked<'_>,
    route: &Route,
    plan: &Plan,
    want: ResponseOptions,
) -> Option<ResponseMeta> {
    let is_named = matches!(route.answer, Answer::State | Answer::Block);
    let has_one = asked.is_read && asked.headers.contains_key(header::IF_NONE_MATCH);
    let Plan::Call(method, params) = plan else { return None };
    if !is_named || !has_one {
        return None;
    }
    // Whatever there is, is what `*` means: whether there is, only an answer says.
    let is_known = |hash: &[u8; 16]| names(asked.headers, etag(hash).as_bytes());
    asked.caller.revalidate(asked.node, method, &params.to_string(), want, is_known)
}

/// How a route wants what its method answers.
fn want(asked: &Asked<'_>, route: &Route, args: &Args) -> ResponseOptions {
    let shaper = match route.answer {
        Answer::Signatures => {
            Some(shape::signatures(args.number("limit").unwrap_or(1_000) as usize))
        }
        _ if asked.media == Media::Raw => Some(shape::DATA),
        _ => None,
    };
    let hold_bytes_max = match route.answer {
        Answer::Account | Answer::Transaction | Answer::Signatures => ACCOUNT_BYTES_MAX,
        _ => asked.hold_bytes_max,
    };
    // What was sent is answered with an object of two members.
    let coding = if route.answer == Answer::Sent { ContentEncoding::Plain } else { asked.coding() };
    ResponseOptions { coding, etag_buffer_bytes_max: hold_bytes_max, transform: shaper }
}

/// The commitment of a request.
pub(crate) fn level(args: &Args) -> Commitment {
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
fn sent(called: &MethodResponse, moment: Moment) -> Result<Response<ResponseBody>, Problem> {
    // A signature in base58, in quotes: all of it is the beginning.
    let signature: String =
        serde_json::from_slice(&called.meta.prefix).map_err(|_| RpcError::internal())?;
    let body = serde_json::json!({ "signature": signature }).to_string();
    let mut response = typed(Bytes::from(body).into(), JSON);
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    write_moment(headers, moment);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/transactions/{signature}")) {
        headers.insert(header::LOCATION, location);
    }
    Ok(response)
}

/// An answer that is all there, and short: as it is.
pub(crate) fn whole(asked: &Asked<'_>, body: Vec<u8>, moment: Moment) -> Response<ResponseBody> {
    let mut half = [0; 16];
    half.copy_from_slice(&blake3::hash(&body).as_bytes()[..16]);
    let mut response = tagged(asked, Bytes::from(body).into(), JSON, Some(etag(&half)));
    write_moment(response.headers_mut(), moment);
    response
}

/// A response, or 304 if the client has it.
fn tagged(
    asked: &Asked<'_>,
    content: ResponseBody,
    media: HeaderValue,
    etag: Option<HeaderValue>,
) -> Response<ResponseBody> {
    let is_had = asked.is_read && etag.as_ref().is_some_and(|etag| is_known(asked.headers, etag));
    let mut response = if is_had { not_modified() } else { typed(content, media) };
    if let Some(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

fn typed(content: ResponseBody, media: HeaderValue) -> Response<ResponseBody> {
    let mut response = Response::new(content);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

fn not_modified() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

fn write_moment(headers: &mut HeaderMap, moment: Moment) {
    headers.insert(SLOT, moment.slot.into());
    headers.insert(COMMITMENT, HeaderValue::from_static(name(moment.commitment)));
    let cache = if moment.is_fixed { NEVER_CHANGES } else { REVALIDATE };
    headers.insert(header::CACHE_CONTROL, cache);
    headers.insert(header::VARY, VARY);
}

/// A commitment as clients write it.
pub(crate) fn name(commitment: Commitment) -> &'static str {
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
fn is_known(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    given(headers).any(|tag| tag == "*") || names(headers, etag.as_bytes())
}

/// Whether the client names that `ETag`.
fn names(headers: &HeaderMap, etag: &[u8]) -> bool {
    given(headers).any(|tag| tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == etag)
}

/// What the client has.
fn given(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let given = headers.get_all(header::IF_NONE_MATCH).iter();
    given.filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(',')).map(str::trim)
}

/// An answer that is made once, in every coding.
#[derive(Debug)]
pub(crate) struct Fixed {
    media: &'static str,
    coded: Vec<(ContentEncoding, Bytes, HeaderValue)>,
}

impl Fixed {
    pub(crate) fn new(media: &'static str, body: &[u8]) -> Self {
        let codings =
            [ContentEncoding::Plain, ContentEncoding::Gzip, ContentEncoding::Zstd].into_iter();
        let coded = codings.filter_map(|coding| {
            let bytes = rpc::encode_all(coding, body).ok()?;
            let etag = etag(&blake3::hash(&bytes).as_bytes()[..16]);
            Some((coding, bytes.into(), etag))
        });
        Self { media, coded: coded.collect() }
    }

    pub(crate) fn respond(&self, headers: &HeaderMap) -> Response<ResponseBody> {
        let asked = ContentEncoding::negotiate(headers);
        let wanted = self.coded.iter().find(|(coding, ..)| *coding == asked);
        let Some((coding, body, etag)) = wanted.or_else(|| self.coded.first()) else {
            return Problem::from(RpcError::internal()).into_response();
        };
        let mut response = if is_known(headers, etag) {
            not_modified()
        } else {
            let mut response = typed(body.clone().into(), HeaderValue::from_static(self.media));
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
