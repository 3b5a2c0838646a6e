//! Sends a response again that was sent to the same request before, before the request is parsed: as it is, or as a 304
//! to a client that has it.
//!
//! In: the text of a request, that is its URI, its body, and the headers that the response varies by, and the address of
//! the node on which it arrived, because the node reports addresses that the client can reach. Out: the last response
//! to that text, if nothing that it was computed from has changed, or 304, if the client sends its `ETag`.
//! A response is stored if its request is conditional, or repeats a recent one. Once it is no longer current, the
//! request counts as new: one that is repeated less often than its data changes is never stored.
//! Bounds: the bytes of [`KnownResponses::new`] for whole responses. A response that is longer than [`BODY_BYTES_MAX`], or
//! was 304, is stored as its `ETag`: [`TAGS_BYTES_MAX`] for all. The least recently used are evicted.
//! Invariant: a response is not sent for a state that is older than the request requires.
//! Invariant: it is the one that would be computed now (`response_cache::WatchedResult`).
//! Not here: `ETag`s that are found once the request is parsed (`value`).

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use cache::{RecentTexts, RequestMemo, Weight};
use http_server::{ResponseBody, poll_budget};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use jsonrpc::{
    Api, HttpApiRequest, INLINE_BODY_BYTES_MAX, MethodClient, ResponseOptions, Server, WatchedCall,
};
use ledger::{Commitment, Slot};

use crate::content_negotiation::Media;
use crate::error::ApiError;
use crate::etag::matches_if_none_match;
use crate::headers::{COMMITMENT, SLOT};
use crate::metrics::RouteLabel;
use crate::params::Params;
use crate::response::{ResponseContext, not_modified, route_commitment, write_context_headers};
use crate::route::{MethodCall, ResponseKind, Route, SlotSource};
use crate::route_table::is_read;

/// Bytes of requests and `ETag`s without a whole response: about 8,000 of them.
const TAGS_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Bytes of a stored body. Of a longer response only the `ETag` is stored.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// A longer text is stored as its hash.
const EXACT_TEXT_BYTES_MAX: usize = 12 * 1024;
/// Number of requests among which one counts as repeated.
const RECENT_TEXTS: usize = 8_192;
/// Records that a response to a request without a condition may depend on one by one. If it has more, it depends on the
/// block: all responses share the watched dependencies of `query::ChangeTracker`.
const RECORDS_MAX: usize = 4;
/// Headers for which the map of a request may have space if its response takes it over: more than browsers send. The
/// connection retains the map, 110 bytes a header, while it waits for its next request.
const TAKEN_MAP_HEADERS_MAX: usize = 24;
/// Bytes of a stored header, or of a part of a body, in addition to its content.
const PART_BYTES: u64 = 96;

/// The last responses to requests, by their text.
pub(crate) struct KnownResponses {
    whole: RequestMemo<WholeResponse>,
    tags: RequestMemo<KnownTag>,
    recent: RecentTexts,
    stores_content: bool,
}

/// The `ETag` of a response that was sent, with the dependencies of its calls.
struct KnownTag {
    etag: HeaderValue,
    /// The label of the route in metrics.
    label: RouteLabel,
    /// The calls that it was computed by.
    calls: Box<[WatchedCall]>,
    slot: ResponseSlot,
}

/// A response that was sent, with its headers and body.
struct WholeResponse {
    tag: KnownTag,
    content: Content,
}

/// The headers of a response, without those of its context, and its body.
struct Content {
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<Bytes>,
}

/// The slot at which a response is true.
#[derive(Clone, Copy)]
enum ResponseSlot {
    /// The slot of the state at a commitment.
    State(Commitment),
    /// The slot of the state, or that of the last response if it is later: a response may be of a block that no view has
    /// yet.
    StateFrom(Slot, Commitment),
    /// The slot of its object, which is requested at a commitment.
    Object(Slot, Commitment),
}

/// The text of a request, with the address on which it arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestText {
    key: Vec<u8>,
    /// Whether it has `If-None-Match`, and its response may be 304.
    is_conditional: bool,
}

/// A request, as it was parsed.
pub(crate) struct WatchedRequest<'a> {
    pub(crate) text: RequestText,
    pub(crate) route: &'static Route,
    pub(crate) params: &'a Params,
    pub(crate) call: &'a MethodCall,
    pub(crate) media: Media,
}

/// The dependencies of a response while it is computed.
pub(crate) struct WatchedResponse {
    text: RequestText,
    route: &'static Route,
    calls: Vec<WatchedCall>,
    commitment: Commitment,
}

/// A response that is sent again, or the refusal of the client, and the route of the request in metrics.
pub(crate) struct RepeatedResponse {
    pub(crate) label: RouteLabel,
    pub(crate) response: Result<Response<ResponseBody>, ApiError>,
}

impl RequestText {
    /// The text of a request that arrived on `reached`. `None` if no response to it is stored: its method is none of a
    /// route, or its body is not parsed on this thread.
    fn from_request(request: &HttpApiRequest, reached: Option<IpAddr>) -> Option<Self> {
        let HttpApiRequest { head, body: Ok(body), .. } = request else { return None };
        let is_read = is_read(&head.method);
        // Other methods get 405.
        if !is_read && head.method != Method::POST {
            return None;
        }
        let body: &[u8] = if is_read { &[] } else { body };
        if body.len() > INLINE_BODY_BYTES_MAX {
            return None;
        }
        let uri = head.uri.path_and_query().map_or("/", |uri| uri.as_str());
        let mut key = Vec::with_capacity(uri.len() + body.len() + 64);
        key.push(u8::from(is_read));
        match reached {
            None => key.push(0),
            Some(IpAddr::V4(ip)) => {
                key.push(4);
                key.extend_from_slice(&ip.octets());
            }
            Some(IpAddr::V6(ip)) => {
                key.push(6);
                key.extend_from_slice(&ip.octets());
            }
        }
        key.extend_from_slice(uri.as_bytes());
        for name in [header::ACCEPT, header::ACCEPT_ENCODING, header::CONTENT_TYPE] {
            for value in head.headers.get_all(name) {
                key.push(b'\n');
                key.extend_from_slice(value.as_bytes());
            }
            // No header has this byte.
            key.push(0);
        }
        key.extend_from_slice(body);
        // The bytes were charged when they were received, at more than this copy costs.
        if key.len() > EXACT_TEXT_BYTES_MAX {
            key = blake3::hash(&key).as_bytes().to_vec();
        }
        let is_conditional = is_read && head.headers.contains_key(header::IF_NONE_MATCH);
        Some(Self { key, is_conditional })
    }
}

impl KnownResponses {
    /// Creates an empty store. Whole responses may have `bytes_max` bytes; with 0 only the `ETag`s of conditional
    /// requests are stored.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            whole: RequestMemo::new(bytes_max, EXACT_TEXT_BYTES_MAX),
            tags: RequestMemo::new(TAGS_BYTES_MAX, EXACT_TEXT_BYTES_MAX),
            recent: RecentTexts::new(RECENT_TEXTS),
            stores_content: bytes_max > 0,
        }
    }

    /// Returns the bytes of all stored requests and their responses.
    pub(crate) fn bytes(&self) -> u64 {
        self.whole.bytes() + self.tags.bytes()
    }

    /// Returns the text of a request that arrived on `reached`. `None` if no response to it is stored.
    pub(crate) fn build_text(
        &self,
        request: &HttpApiRequest,
        reached: Option<IpAddr>,
    ) -> Option<RequestText> {
        let is_conditional = || request.head.headers.contains_key(header::IF_NONE_MATCH);
        if !self.stores_content && !is_conditional() {
            return None;
        }
        RequestText::from_request(request, reached)
    }

    /// Records a request to a route that has no current response. Returns whether its response is to be stored: the
    /// request is conditional, or repeats a recent one.
    pub(crate) fn record_request(&self, text: &RequestText, route: &Route) -> bool {
        if matches!(route.response, ResponseKind::Accepted(_)) {
            return false;
        }
        text.is_conditional || (self.stores_content && self.recent.record(&text.key))
    }

    /// Returns the last response to a request, or 304 if the client has it. `None` if it must be computed. `headers` are
    /// those of the request, and the response takes their map over unless it is large: hyper reads the next head into
    /// the map of the last response, so a connection that repeats requests needs one map for all its requests and
    /// responses. `arrived` is when the request arrived, by the clock of the pool.
    pub(crate) fn respond<A: Api>(
        &self,
        server: &Server<A>,
        caller: MethodClient,
        text: &RequestText,
        headers: &mut HeaderMap,
        arrived: Duration,
    ) -> Option<RepeatedResponse> {
        let whole = self.whole.get(&text.key);
        let tag = match &whole {
            None if text.is_conditional => self.tags.get(&text.key),
            _ => None,
        };
        let known = whole.as_ref().map(|whole| &whole.tag).or(tag.as_deref())?;
        let is_match = text.is_conditional && matches_if_none_match(headers, &known.etag);
        let content = if is_match { None } else { Some(&whole.as_ref()?.content) };
        if !caller.has_min_slot(server, known.slot.commitment()) {
            return None;
        }
        // Before the check: a block that becomes current meanwhile may change the result, but not the slots read here.
        let context = known.slot.to_context(&server.api);
        let response = match caller.repeat_watched(server, &known.calls, arrived) {
            Ok(true) => {
                let is_large = headers.capacity() > TAKEN_MAP_HEADERS_MAX;
                let map = if is_large { HeaderMap::new() } else { std::mem::take(headers) };
                let body = content.map(|content| {
                    server.context.response_cache.record_text_hit();
                    caller.complete_body(&server.context, content.body.clone())
                });
                Ok(known.to_response(context, map, content.zip(body)))
            }
            Ok(false) => {
                self.whole.remove(&text.key);
                self.tags.remove(&text.key);
                self.recent.forget(&text.key);
                return None;
            }
            Err(err) => Err(err.into()),
        };
        Some(RepeatedResponse { label: known.label, response })
    }

    /// Stores a response that was computed since the watch began.
    pub(crate) fn store<A: Api>(
        &self,
        server: &Server<A>,
        caller: MethodClient,
        watched: WatchedResponse,
        label: RouteLabel,
        response: &Response<ResponseBody>,
    ) {
        let WatchedResponse { text, route, calls, commitment } = watched;
        let Some(etag) = response.headers().get(header::ETAG).cloned() else { return };
        let Some(slot) = ResponseSlot::find(route, commitment, response.headers()) else { return };
        let Some(calls) = caller.finish_watch(server, calls) else { return };
        let tag = KnownTag { etag, label, calls, slot };
        let content = if self.stores_content { Content::from_response(response) } else { None };
        match content {
            Some(content) => self.whole.insert(&text.key, WholeResponse { tag, content }),
            None if text.is_conditional => self.tags.insert(&text.key, tag),
            None => {}
        }
    }
}

impl WatchedResponse {
    /// Starts to watch the dependencies of the response to a request. `None` if they are not known.
    pub(crate) fn start<A: Api>(
        server: &Server<A>,
        caller: MethodClient,
        request: WatchedRequest<'_>,
    ) -> Option<Self> {
        let WatchedRequest { text, route, params, call, media } = request;
        if let ResponseKind::Custom(custom) = &route.response
            && (custom.may_wait)(params)
        {
            return None;
        }
        let commitment = route_commitment(route, params);
        let wants_raw = media == Media::Raw;
        let options = ResponseOptions { wants_raw, ..ResponseOptions::default() };
        let records_max = if text.is_conditional { usize::MAX } else { RECORDS_MAX };
        let watch = |method: &str, params: &serde_json::Value| {
            caller.watch_call(server, method, &params.to_string(), options, records_max)
        };
        let calls = match call {
            MethodCall::Single(method, params) => vec![watch(method, params)?],
            MethodCall::Composite(calls) => {
                let all = calls.iter().map(|(_, method, params)| watch(method, params));
                all.collect::<Option<Vec<_>>>()?
            }
        };
        Some(Self { text, route, calls, commitment })
    }
}

impl KnownTag {
    /// Returns the response with its content and body, or the 304. Its headers replace those in `headers`.
    fn to_response(
        &self,
        context: ResponseContext,
        mut headers: HeaderMap,
        content: Option<(&Content, ResponseBody)>,
    ) -> Response<ResponseBody> {
        headers.clear();
        let mut response = match content {
            None => not_modified(),
            Some((content, body)) => {
                headers.extend(content.headers.iter().cloned());
                Response::new(body)
            }
        };
        headers.insert(header::ETAG, self.etag.clone());
        write_context_headers(&mut headers, context);
        *response.headers_mut() = headers;
        response
    }
}

impl Weight for KnownTag {
    fn bytes(&self) -> u64 {
        let calls: u64 = self.calls.iter().map(WatchedCall::bytes).sum();
        (size_of::<Self>() + self.etag.len()) as u64 + calls
    }
}

impl Weight for WholeResponse {
    fn bytes(&self) -> u64 {
        size_of::<Content>() as u64 + self.tag.bytes() + self.content.bytes()
    }
}

impl Content {
    /// The headers and the body of a response. `None` if it is not complete, or its body is long.
    fn from_response(response: &Response<ResponseBody>) -> Option<Self> {
        let parts = response.body().complete_parts()?;
        let bytes: usize = parts.iter().map(Bytes::len).sum();
        if response.status() != StatusCode::OK || bytes > BODY_BYTES_MAX {
            return None;
        }
        // A body that is sent at once is the part of a buffer. The parts of a cached one are counted there.
        let body = match response.body().immediate_bytes() {
            0 => parts.to_vec(),
            bytes => {
                poll_budget::charge(bytes);
                parts.iter().map(|part| Bytes::copy_from_slice(part)).collect()
            }
        };
        let context_headers = [header::ETAG, header::CACHE_CONTROL, header::VARY, SLOT, COMMITMENT];
        let headers = response.headers().iter();
        let headers = headers.filter(|(name, _)| !context_headers.contains(name));
        let headers = headers.map(|(name, value)| (name.clone(), value.clone())).collect();
        Some(Self { headers, body })
    }

    fn bytes(&self) -> u64 {
        let headers = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        let parts = self.body.iter().map(Bytes::len);
        let count = (self.headers.len() + self.body.len()) as u64;
        headers.chain(parts).sum::<usize>() as u64 + PART_BYTES * count
    }
}

impl ResponseSlot {
    /// The slot of a response, by its headers. `None` if it is of no state.
    fn find(route: &Route, commitment: Commitment, headers: &HeaderMap) -> Option<Self> {
        let slot = || headers.get(SLOT)?.to_str().ok()?.parse().ok();
        match &route.response {
            ResponseKind::Value(value) if !matches!(value.slot, SlotSource::Context) => {
                Some(Self::Object(slot()?, commitment))
            }
            ResponseKind::Value(_) | ResponseKind::Composite => Some(Self::State(commitment)),
            ResponseKind::Custom(_) => Some(Self::StateFrom(slot()?, commitment)),
            ResponseKind::Accepted(_) => None,
        }
    }

    /// The commitment at which the response is requested.
    fn commitment(self) -> Commitment {
        match self {
            Self::State(commitment)
            | Self::StateFrom(_, commitment)
            | Self::Object(_, commitment) => commitment,
        }
    }

    /// Returns the slot and commitment of a response that is sent again if a later check finds it current.
    fn to_context<A: Api>(self, api: &A) -> ResponseContext {
        let slot = |commitment| api.version_and_slot(commitment).1;
        match self {
            Self::State(commitment) => ResponseContext::for_state(slot(commitment), commitment),
            Self::StateFrom(least, commitment) => {
                ResponseContext::for_state(slot(commitment).max(least), commitment)
            }
            Self::Object(object, commitment) => {
                ResponseContext::for_object(object, commitment, || slot(Commitment::Finalized))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use hyper::Request;
    use jsonrpc::params::Params;
    use jsonrpc::{Execution, MethodOutput, MethodSpec};
    use ledger::Address;
    use query::ChangeTracker;
    use response_cache::{Dependencies, LedgerVersions};
    use testkit::toy_api::ToyApi;

    use super::*;
    use crate::metrics::RestMetrics;
    use crate::route::{HttpMethod, RequestBody};

    const METHOD: &str = "counterGet";
    const COMPARED: &str = "counterCompared";
    const MANY: &str = "counterMany";
    const METHODS: &[MethodSpec<RacingApi>] = &[
        MethodSpec::new(COMPARED, Execution::Inline, |_, _| MethodOutput::json(&1))
            .with_revalidation_dependencies(|_, _| {
                let dependencies = Dependencies::none(Commitment::Finalized, None);
                Some(dependencies.with_compared_state(8, |_: &RacingApi| true))
            }),
        MethodSpec::new(MANY, Execution::Inline, |_, _| MethodOutput::json(&1))
            .with_cache_dependencies(|_, _| {
                let name = |n: u8| Address::try_from([n].as_slice()).expect("a name");
                Dependencies::none(Commitment::Finalized, None).with_records((1..=5).map(name))
            }),
        MethodSpec::new(METHOD, Execution::Inline, |_, _| MethodOutput::json(&1))
            .with_cache_dependencies(counter_dependencies),
    ];

    const ROUTE: &Route = &Route {
        method: HttpMethod::Get,
        path: "/v1/node",
        id: "getNode",
        summary: "",
        params: &[],
        body: RequestBody::None,
        schema: "Node",
        response: ResponseKind::Composite,
        links: &[],
        build_call: |_| Ok(MethodCall::Composite(Vec::new())),
    };

    /// A ledger with a counter that changes just before one of the reads of its version.
    struct RacingApi {
        toy: ToyApi,
        /// Reads of the version until the counter changes.
        reads_left: AtomicU64,
    }

    impl RacingApi {
        fn add(&self) {
            self.toy.counters.add(&counter(), 1).expect("room for it");
        }
    }

    impl LedgerVersions for RacingApi {
        fn version_and_slot(&self, commitment: Commitment) -> (u64, Slot) {
            if self.reads_left.fetch_sub(1, Ordering::Relaxed) == 0 {
                self.add();
            }
            self.toy.version_and_slot(commitment)
        }

        fn change_tracker(&self) -> &Arc<ChangeTracker> {
            self.toy.change_tracker()
        }
    }

    impl Api for RacingApi {
        const METHODS: &'static [&'static [MethodSpec<Self>]] = &[METHODS];

        fn pinned(&self) -> Self {
            Self { toy: self.toy.pinned(), reads_left: AtomicU64::new(u64::MAX) }
        }
    }

    fn counter() -> Address {
        Address::try_from(b"a".as_slice()).expect("a name")
    }

    fn counter_dependencies(_: &RacingApi, _: Params<'_>) -> Option<Dependencies> {
        Dependencies::none(Commitment::Finalized, None).with_records([counter()])
    }

    /// A server with a counter of 1, as of slot 1.
    fn racing_server() -> Server<RacingApi> {
        let Server { api: toy, context, .. } = ToyApi::server().expect("a thread");
        let api = RacingApi { toy, reads_left: AtomicU64::new(u64::MAX) };
        let server = Server::new(api, context);
        server.api.add();
        server
    }

    /// The watched call that reads the counter.
    fn watch_counter(server: &Server<RacingApi>, caller: MethodClient) -> Box<[WatchedCall]> {
        let options = ResponseOptions::default();
        let call = caller.watch_call(server, METHOD, "[]", options, RECORDS_MAX);
        let calls = caller.finish_watch(server, vec![call.expect("its dependencies are known")]);
        calls.expect("nothing has changed")
    }

    /// The headers of the 304 to a client that has the counter as of slot 1, if the counter changes in slot 2, just
    /// before the read of the version with this number. `None` if the client gets no 304.
    fn race(slot: ResponseSlot, read: u64) -> Option<HeaderMap> {
        let server = racing_server();
        let caller = MethodClient::default();
        let calls = watch_counter(&server, caller);
        let etag = HeaderValue::from_static("\"0\"");
        let mut headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, etag.clone())]);
        let label = RestMetrics::new(&[]).label(None);
        let text = RequestText { key: b"/".to_vec(), is_conditional: true };
        let known = KnownResponses::new(0);
        known.tags.insert(&text.key, KnownTag { etag, label, calls, slot });
        server.api.reads_left.store(read, Ordering::Relaxed);
        let arrived = server.context.pool.now();
        let sent = known.respond(&server, caller, &text, &mut headers, arrived)?;
        let (head, _) = sent.response.expect("no limit is reached").into_parts();
        assert_eq!(head.status, hyper::StatusCode::NOT_MODIFIED);
        Some(head.headers)
    }

    #[test]
    fn a_304_names_a_slot_at_which_its_etag_is_true() {
        let mut sent = Vec::new();
        for read in 0..4 {
            let Some(headers) = race(ResponseSlot::State(Commitment::Finalized), read) else {
                continue;
            };
            // In slot 2 the counter has another value.
            assert_eq!(headers[SLOT], "1", "a change before read {read}");
            sent.push(read);
        }
        assert_eq!(sent, [2, 3], "one read before the check, and one in it");
    }

    #[test]
    fn a_response_of_a_block_that_no_view_has_names_its_slot() {
        for (least, slot) in [(0, "1"), (9, "9")] {
            let headers = race(ResponseSlot::StateFrom(least, Commitment::Finalized), 3);
            assert_eq!(headers.expect("it is current")[SLOT], slot);
        }
    }

    #[test]
    fn a_response_that_is_no_longer_current_is_removed_and_its_request_is_new() {
        let server = racing_server();
        let caller = MethodClient::default();
        let known = KnownResponses::new(1 << 20);
        let request = request(Method::GET, &[], "");
        let text = known.build_text(&request, None).expect("it may be stored");
        assert_eq!([(); 2].map(|()| known.record_request(&text, ROUTE)), [false, true]);
        let etag = HeaderValue::from_static("\"0\"");
        let label = RestMetrics::new(&[]).label(None);
        let slot = ResponseSlot::State(Commitment::Finalized);
        let content = Content { headers: Vec::new(), body: vec![Bytes::from_static(b"1")] };
        let calls = watch_counter(&server, caller);
        let tag = KnownTag { etag, label, calls, slot };
        known.whole.insert(&text.key, WholeResponse { tag, content });
        let respond = || {
            let arrived = server.context.pool.now();
            let sent = known.respond(&server, caller, &text, &mut HeaderMap::new(), arrived)?;
            Some(sent.response.expect("no limit is reached").status())
        };
        assert_eq!([respond(), respond()], [Some(StatusCode::OK); 2]);
        server.api.add();
        assert_eq!((respond(), known.bytes()), (None, 0));
        assert!(!known.record_request(&text, ROUTE), "it is new");
    }

    #[test]
    fn many_records_are_watched_as_the_block() {
        let server = racing_server();
        let caller = MethodClient::default();
        for (records_max, is_current) in [(usize::MAX, true), (RECORDS_MAX, false)] {
            let options = ResponseOptions::default();
            let call = caller.watch_call(&server, MANY, "[]", options, records_max);
            // None of the records changes.
            server.api.add();
            let calls = caller.finish_watch(&server, vec![call.expect("they are known")]);
            assert_eq!(calls.is_some(), is_current);
        }
    }

    #[test]
    fn a_304_is_immutable_only_if_its_object_was_final_before() {
        let mut sent = Vec::new();
        for read in 0..4 {
            let headers = race(ResponseSlot::Object(2, Commitment::Confirmed), read);
            let Some(headers) = headers else { continue };
            // Slot 2 becomes the root together with another value.
            assert_eq!(headers[SLOT], "2", "a change before read {read}");
            assert_eq!(headers[header::CACHE_CONTROL], "no-cache", "a change before read {read}");
            sent.push(read);
        }
        assert_eq!(sent, [2, 3], "one read before the check, and one in it");
        let root = race(ResponseSlot::Object(1, Commitment::Confirmed), 2).expect("it is current");
        assert_ne!(root[header::CACHE_CONTROL], "no-cache");
    }

    /// A request with these headers and this body.
    fn request(method: Method, headers: &[(&str, &str)], body: &str) -> HttpApiRequest {
        let mut request = Request::builder().method(method).uri("/v1/node?a=b");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("valid headers").into_parts();
        let body = Ok(Bytes::from(body.to_owned()));
        HttpApiRequest { method_client: MethodClient::default(), head, body }
    }

    /// The text of a GET with these headers, or of a POST with this body.
    fn text(
        headers: &[(&str, &str)],
        body: Option<&str>,
        reached: Option<[u8; 4]>,
    ) -> Option<RequestText> {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let request = request(method, headers, body.unwrap_or_default());
        RequestText::from_request(&request, reached.map(IpAddr::from))
    }

    #[test]
    fn a_text_depends_on_all_that_the_response_depends_on() {
        let json = ("accept", "application/json");
        let texts = [
            text(&[], None, None),
            text(&[], None, Some([127, 0, 0, 1])),
            text(&[], None, Some([10, 0, 0, 1])),
            text(&[json], None, None),
            text(&[json, json], None, None),
            text(&[("accept-encoding", "application/json")], None, None),
            text(&[("content-type", "application/json")], None, None),
            text(&[], Some(""), None),
            text(&[], Some("a"), None),
            text(&[json], Some("a"), None),
        ];
        for (index, one) in texts.iter().enumerate() {
            assert!(one.is_some(), "{index}");
            for (other_index, other) in texts.iter().enumerate() {
                assert_eq!(one == other, index == other_index, "{index} {other_index}");
            }
        }
        assert_eq!(text(&[("x-other", "1")], None, None), text(&[], None, None));
    }

    #[test]
    fn a_long_text_is_a_hash_and_a_long_body_has_none() {
        let longest = "x".repeat(EXACT_TEXT_BYTES_MAX);
        let long = text(&[("accept", longest.as_str())], None, None);
        assert_eq!(long.map(|long| long.key.len()), Some(blake3::OUT_LEN));
        let body = "x".repeat(INLINE_BODY_BYTES_MAX);
        assert!(text(&[], Some(&body), None).is_some());
        assert_eq!(text(&[], Some(&(body + "x")), None), None);
    }

    #[test]
    fn only_a_read_is_conditional() {
        let headers = [("if-none-match", "\"0\"")];
        let is_conditional = |body| text(&headers, body, None).map(|text| text.is_conditional);
        assert_eq!([is_conditional(None), is_conditional(Some("a"))], [Some(true), Some(false)]);
    }

    #[test]
    fn a_method_of_no_route_has_no_text() {
        for method in [Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
            let request = request(method, &[], "a");
            assert_eq!(RequestText::from_request(&request, None), None);
        }
        let texts = [Method::GET, Method::HEAD, Method::POST]
            .map(|method| RequestText::from_request(&request(method, &[], "a"), None));
        assert!(texts[0].is_some() && texts[2].is_some());
        assert_eq!(texts[0], texts[1], "a body of a read is not a part of it");
    }

    #[test]
    fn a_response_is_stored_if_its_request_is_conditional_or_repeated() {
        let get = request(Method::GET, &[], "");
        let conditional = request(Method::GET, &[("if-none-match", "*")], "");
        let known = KnownResponses::new(1 << 20);
        let text = known.build_text(&get, None).expect("it may be stored");
        let recorded = [(); 3].map(|()| known.record_request(&text, ROUTE));
        assert_eq!(recorded, [false, true, true]);
        let tags = KnownResponses::new(0);
        assert_eq!(tags.build_text(&get, None), None);
        let text = tags.build_text(&conditional, None).expect("its tag may be stored");
        assert!(tags.record_request(&text, ROUTE));
    }

    #[test]
    fn a_compared_result_is_current_only_if_the_ledger_did_not_change_meanwhile() {
        let server = racing_server();
        let caller = MethodClient::default();
        for changes in [false, true] {
            let options = ResponseOptions::default();
            let call = caller.watch_call(&server, COMPARED, "[]", options, RECORDS_MAX);
            if changes {
                // The compared state may have changed and changed back.
                server.api.add();
            }
            let calls = caller.finish_watch(&server, vec![call.expect("it is known")]);
            assert_eq!(calls.is_none(), changes);
        }
    }
}
