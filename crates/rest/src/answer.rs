//! From what a method answers to what a route does: headers, `ETag`, 304, bytes as they are.
//!
//! The slot of an answer's context goes into a header, so that the body, and with it the `ETag`, changes
//! only when the value does.
//! Bounds: [`WHOLE_BYTES_MAX`] of an answer are held to hash them; a longer one has no `ETag` and is streamed.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use ledger::{Commitment, Slot};
use rpc::error::RpcError;
use rpc::{Caller, Content, Node, Parts, ResultParts};
use serde::Deserialize;

use crate::error::Problem;
use crate::input::Args;
use crate::raw;
use crate::route::{Answer, Plan, Route};

/// What is held of an answer for its `ETag`: 1 MiB, which takes 0.3 ms to hash, piece by piece.
pub(crate) const WHOLE_BYTES_MAX: usize = 1024 * 1024;

/// What is held of a list of signatures, whose last one is to be known: 1,000 with memos are less.
const SIGNATURES_BYTES_MAX: usize = 4 * 1024 * 1024;

pub(crate) const SLOT: HeaderName = HeaderName::from_static("hydrant-slot");
pub(crate) const COMMITMENT: HeaderName = HeaderName::from_static("hydrant-commitment");

const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
const NEVER_CHANGES: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(crate) const RAW: &str = "application/octet-stream";

/// Who asks, and how.
pub(crate) struct Asked<'a> {
    pub(crate) node: &'a Arc<Node>,
    pub(crate) caller: Caller,
    pub(crate) headers: &'a HeaderMap,
    /// Whether it is GET or HEAD, and may be answered with 304.
    pub(crate) is_read: bool,
}

impl Asked<'_> {
    pub(crate) async fn call(&self, plan: &Plan) -> Result<ResultParts, Problem> {
        let Plan::Call(method, params) = plan else { return Err(RpcError::internal().into()) };
        Ok(self.caller.call(self.node, method, &params.to_string()).await?)
    }

    /// The slot of the state at a commitment.
    pub(crate) fn slot(&self, commitment: Commitment) -> Slot {
        self.node.reader.view(commitment).block().slot
    }

    fn wants_raw(&self) -> bool {
        let accept = self.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        accept.is_some_and(|accept| {
            let first = accept.split(',').next().unwrap_or_default();
            first.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case(RAW))
        })
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
) -> Result<Response<Content>, Problem> {
    let wants_raw = route.answer.has_raw() && asked.wants_raw();
    if wants_raw && let Plan::Call(_, params) = &mut plan {
        params[1]["encoding"] = "base64".into();
    }
    // Before the call: what is below the root now is below it when the method reads.
    let root = asked.slot(Commitment::Finalized);
    let commitment = level(args);
    let reached = asked.slot(commitment);
    let mut parts = asked.call(&plan).await?;
    let mut moment = Moment { slot: reached, commitment, is_fixed: false };
    let at_slot = |slot| {
        let is_fixed = slot <= root || commitment == Commitment::Finalized;
        let commitment = if is_fixed { Commitment::Finalized } else { commitment };
        Moment { slot, commitment, is_fixed }
    };
    match route.answer {
        Answer::State(_) | Answer::Account => moment.slot = strip_context(&mut parts)?,
        Answer::Block => moment = at_slot(args.number("slot").unwrap_or(reached)),
        Answer::Transaction => {
            if let Some(slot) = slot_of_transaction(parts.beginning()) {
                moment = at_slot(slot);
            }
        }
        Answer::Signatures | Answer::Sent | Answer::Several | Answer::Status => {}
    }
    if parts.is_whole() && parts.beginning() == b"null" {
        return Err(Problem::not_found(match route.answer {
            Answer::Transaction => "transaction",
            Answer::State(Some(what)) => what,
            _ => "account",
        }));
    }
    match route.answer {
        Answer::Sent => sent(asked, parts, moment).await,
        Answer::Signatures => {
            let limit = args.number("limit").unwrap_or(1_000) as usize;
            signatures(asked, parts, limit, moment).await
        }
        _ if wants_raw => {
            let raw = raw::read(parts).await?;
            let mut response = whole(asked, raw.bytes, moment, HeaderValue::from_static(RAW));
            for (name, value) in raw.headers {
                response.headers_mut().insert(name, value);
            }
            Ok(response)
        }
        _ => json(asked, parts, moment).await,
    }
}

/// The commitment of a request.
pub(crate) fn level(args: &Args) -> Commitment {
    match args.text("commitment") {
        Some("processed") => Commitment::Processed,
        Some("confirmed") => Commitment::Confirmed,
        _ => Commitment::Finalized,
    }
}

/// Takes the context away from `{"context":…,"value":…}`; the slot in it.
pub(crate) fn strip_context(parts: &mut ResultParts) -> Result<Slot, Problem> {
    #[derive(Deserialize)]
    struct Context {
        slot: Slot,
    }
    const HEAD: &[u8] = br#"{"context":"#;
    const NEXT: &[u8] = br#","value":"#;
    let read = || {
        let rest = parts.beginning().strip_prefix(HEAD)?;
        let mut contexts = serde_json::Deserializer::from_slice(rest).into_iter::<Context>();
        let slot = contexts.next()?.ok()?.slot;
        let at = contexts.byte_offset();
        rest.get(at..)?.starts_with(NEXT).then_some((slot, HEAD.len() + at + NEXT.len()))
    };
    let (slot, bytes) = read().ok_or_else(RpcError::internal)?;
    parts.trim(bytes, 1);
    Ok(slot)
}

/// `{"slot":5,…`: the first member of a transaction.
fn slot_of_transaction(json: &[u8]) -> Option<Slot> {
    let rest = json.strip_prefix(br#"{"slot":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}

/// Pieces that were taken, and whether they are all.
pub(crate) struct Held {
    pub(crate) pieces: VecDeque<Bytes>,
    pub(crate) is_all: bool,
}

impl Held {
    /// Takes pieces until there are no more, or they are `bytes_max` long.
    pub(crate) async fn take(parts: &mut ResultParts, bytes_max: usize) -> Result<Self, Problem> {
        let (mut pieces, mut bytes) = (VecDeque::new(), 0);
        while bytes <= bytes_max {
            let Some(piece) = parts.next().await else {
                return Ok(Self { pieces, is_all: true });
            };
            let piece = piece.map_err(|_| {
                RpcError::new(rpc::error::OVERLOADED, "too busy: its deadline was over")
                    .with_data(serde_json::json!({ "limit": "deadline_ms" }))
            })?;
            bytes += piece.len();
            pieces.push_back(piece);
        }
        Ok(Self { pieces, is_all: false })
    }

    pub(crate) fn join(mut self) -> Bytes {
        match self.pieces.len() {
            1 => self.pieces.pop_front().unwrap_or_default(),
            _ => Vec::from(self.pieces).concat().into(),
        }
    }
}

async fn json(
    asked: &Asked<'_>,
    mut parts: ResultParts,
    moment: Moment,
) -> Result<Response<Content>, Problem> {
    let held = Held::take(&mut parts, WHOLE_BYTES_MAX).await?;
    if held.is_all {
        return Ok(whole(asked, held.join(), moment, JSON));
    }
    let body = Box::new(Rest { held: held.pieces, parts });
    let content = Content::of_parts(Arc::clone(asked.node), asked.caller, body);
    Ok(respond(content, moment, JSON))
}

/// What was held, and what comes after it.
struct Rest {
    held: VecDeque<Bytes>,
    parts: ResultParts,
}

impl Parts for Rest {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self.held.pop_front() {
            Some(piece) => Poll::Ready(Some(Ok(piece))),
            None => self.parts.poll_next(cx),
        }
    }
}

async fn sent(
    asked: &Asked<'_>,
    mut parts: ResultParts,
    moment: Moment,
) -> Result<Response<Content>, Problem> {
    let signature = Held::take(&mut parts, WHOLE_BYTES_MAX).await?.join();
    let name = String::from_utf8_lossy(&signature).trim_matches('"').to_owned();
    let body = [br#"{"signature":"#, &signature[..], b"}"].concat();
    asked.caller.charge(asked.node, body.len());
    let mut response = respond(Bytes::from(body).into(), moment, JSON);
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A signature in base58 is a header's value.
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/transactions/{name}")) {
        headers.insert(header::LOCATION, location);
    }
    Ok(response)
}

/// A list of signatures as a page: the last one is where the next page begins.
async fn signatures(
    asked: &Asked<'_>,
    mut parts: ResultParts,
    limit: usize,
    moment: Moment,
) -> Result<Response<Content>, Problem> {
    #[derive(Deserialize)]
    struct Entry<'a> {
        signature: &'a str,
    }
    let held = Held::take(&mut parts, SIGNATURES_BYTES_MAX).await?;
    if !held.is_all {
        let message = "the page is too long; ask for fewer with limit";
        return Err(RpcError::invalid_request(message).into());
    }
    let list = held.join();
    let entries: Vec<Entry<'_>> =
        serde_json::from_slice(&list).map_err(|_| RpcError::internal())?;
    let next = entries.last().filter(|_| entries.len() >= limit).map(|last| last.signature);
    let next = serde_json::to_vec(&next).map_err(|_| RpcError::internal())?;
    let body =
        [br#"{"transactions":"#, &list[..], br#","paginationKey":"#, &next[..], b"}"].concat();
    Ok(whole(asked, body.into(), moment, JSON))
}

/// A response with an `ETag`, or 304 if the client has it.
pub(crate) fn whole(
    asked: &Asked<'_>,
    body: Bytes,
    moment: Moment,
    media: HeaderValue,
) -> Response<Content> {
    let etag = etag(&body);
    let mut response = if asked.is_read && is_known(asked.headers, &etag) {
        not_modified()
    } else {
        asked.caller.charge(asked.node, body.len());
        typed(body.into(), media)
    };
    write_moment(response.headers_mut(), moment);
    response.headers_mut().insert(header::ETAG, etag);
    response
}

fn respond(content: Content, moment: Moment, media: HeaderValue) -> Response<Content> {
    let mut response = typed(content, media);
    write_moment(response.headers_mut(), moment);
    response
}

fn typed(content: Content, media: HeaderValue) -> Response<Content> {
    let mut response = Response::new(content);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

fn not_modified() -> Response<Content> {
    let mut response = Response::new(Content::default());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

fn write_moment(headers: &mut HeaderMap, moment: Moment) {
    let commitment = match moment.commitment {
        Commitment::Processed => "processed",
        Commitment::Confirmed => "confirmed",
        Commitment::Finalized => "finalized",
    };
    headers.insert(SLOT, moment.slot.into());
    headers.insert(COMMITMENT, HeaderValue::from_static(commitment));
    let cache = if moment.is_fixed { NEVER_CHANGES } else { REVALIDATE };
    headers.insert(header::CACHE_CONTROL, cache);
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
}

/// A strong `ETag`: half of the hash of the bytes.
fn etag(body: &[u8]) -> HeaderValue {
    let hash = blake3::hash(body).to_hex();
    let text = format!("\"{}\"", hash.get(..32).unwrap_or_default());
    HeaderValue::from_str(&text).unwrap_or_else(|_| unreachable!("hexadecimal in quotes"))
}

/// Whether the client has that already.
fn is_known(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).iter();
    given.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|tag| {
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == etag.as_bytes()
    })
}

/// An answer that is made once.
#[derive(Debug)]
pub(crate) struct Fixed {
    media: &'static str,
    body: Bytes,
    etag: HeaderValue,
}

impl Fixed {
    pub(crate) fn new(media: &'static str, body: Vec<u8>) -> Self {
        let etag = etag(&body);
        Self { media, body: body.into(), etag }
    }

    pub(crate) fn respond(&self, headers: &HeaderMap) -> Response<Content> {
        let mut response = if is_known(headers, &self.etag) {
            not_modified()
        } else {
            typed(self.body.clone().into(), HeaderValue::from_static(self.media))
        };
        response.headers_mut().insert(header::ETAG, self.etag.clone());
        response.headers_mut().insert(header::CACHE_CONTROL, REVALIDATE);
        response
    }
}
