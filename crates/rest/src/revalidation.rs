//! Sends 304 to a client that has the current response, before its request is parsed.
//!
//! In: the text of a request, that is its URI and the headers that the response varies by, and the address of the node
//! on which it arrived, because the node reports addresses that the client can reach. Out: 304, if the client
//! sends the `ETag` of the last response to that text, and nothing that this response was computed from has changed.
//! Only requests with `If-None-Match` are remembered: the first one of a text is handled as any other.
//! Bounds: [`TEXTS_MAX`] texts; the least recently used ones are evicted. Memory: about a kilobyte each, so 8 MB.
//! Invariant: a 304 is not sent for a state that is older than the request requires.
//! Invariant: a 304 has the `ETag` of the response that would be sent now (`response_cache::WatchedResult`).
//! Not here: `ETag`s that are found once the request is parsed (`value`).

use std::net::IpAddr;
use std::time::Duration;

use cache::RequestMemo;
use http_server::ResponseBody;
use hyper::Response;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use jsonrpc::{Api, MethodClient, ResponseOptions, Server, WatchedCall};
use ledger::{Commitment, Slot};

use crate::content_negotiation::Media;
use crate::error::ApiError;
use crate::etag::matches_if_none_match;
use crate::headers::SLOT;
use crate::metrics::RouteLabel;
use crate::params::Params;
use crate::response::{ResponseContext, not_modified, route_commitment, write_context_headers};
use crate::route::{MethodCall, ResponseKind, Route, SlotSource};

/// Maximum number of remembered requests.
const TEXTS_MAX: usize = 8_192;
/// Headers for which the map of a request may have space if its 304 takes it over: more than browsers send. The
/// connection retains the map, 110 bytes a header, while it waits for its next request.
const TAKEN_MAP_HEADERS_MAX: usize = 24;
/// Estimated bytes of a remembered request, with a long text and many dependencies.
const TEXT_BYTES: u64 = 1_024;

/// The `ETag`s of the last responses to conditional requests.
pub(crate) struct KnownTags(RequestMemo<KnownTag>);

/// A response that was sent, by its `ETag`.
struct KnownTag {
    etag: HeaderValue,
    /// The label of the route in metrics.
    label: RouteLabel,
    /// The calls that it was computed by.
    calls: Box<[WatchedCall]>,
    slot: TagSlot,
}

/// The slot at which a response is true.
#[derive(Clone, Copy)]
enum TagSlot {
    /// The slot of the state at a commitment.
    State(Commitment),
    /// The slot of its object, which is requested at a commitment.
    Object(Slot, Commitment),
}

/// The text of a conditional request, and the address on which it arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TagKey(Vec<u8>);

/// A conditional request, as it was parsed.
pub(crate) struct WatchedRequest<'a> {
    pub(crate) key: TagKey,
    pub(crate) route: &'static Route,
    pub(crate) params: &'a Params,
    pub(crate) call: &'a MethodCall,
    pub(crate) media: Media,
}

/// The dependencies of a response while it is computed.
pub(crate) struct WatchedResponse {
    key: TagKey,
    route: &'static Route,
    calls: Vec<WatchedCall>,
    commitment: Commitment,
}

/// A 304, or the refusal of the client, and the route of the request in metrics.
pub(crate) struct NotModified {
    pub(crate) label: RouteLabel,
    pub(crate) response: Result<Response<ResponseBody>, ApiError>,
}

impl TagKey {
    /// The key of a request that arrived on `reached`; `None` if it is not conditional.
    pub(crate) fn from_head(head: &Parts, reached: Option<IpAddr>) -> Option<Self> {
        if !head.headers.contains_key(header::IF_NONE_MATCH) {
            return None;
        }
        let uri = head.uri.path_and_query().map_or("/", |uri| uri.as_str());
        let mut text = Vec::with_capacity(uri.len() + 64);
        match reached {
            None => text.push(0),
            Some(IpAddr::V4(ip)) => {
                text.push(4);
                text.extend_from_slice(&ip.octets());
            }
            Some(IpAddr::V6(ip)) => {
                text.push(6);
                text.extend_from_slice(&ip.octets());
            }
        }
        text.extend_from_slice(uri.as_bytes());
        for name in [header::ACCEPT, header::ACCEPT_ENCODING] {
            for value in head.headers.get_all(name) {
                text.push(b'\n');
                text.extend_from_slice(value.as_bytes());
            }
            // No header has this byte.
            text.push(0);
        }
        let is_long = text.len() > cache::TEXT_BYTES_MAX;
        Some(Self(if is_long { blake3::hash(&text).as_bytes().to_vec() } else { text }))
    }
}

impl KnownTags {
    pub(crate) fn new() -> Self {
        Self(RequestMemo::new(TEXTS_MAX))
    }

    /// Returns the estimated memory of all remembered requests.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.len() as u64 * TEXT_BYTES
    }

    /// Returns 304 if the client has the current response. `None` if it must be computed. `headers` are those of the
    /// request, and the 304 takes their map over unless it is large: hyper reads the next head into the map of the last
    /// response, so a connection that revalidates needs one map for all its requests and responses. `arrived` is when
    /// the request arrived, by the clock of the pool.
    pub(crate) fn respond<A: Api>(
        &self,
        server: &Server<A>,
        caller: MethodClient,
        key: &TagKey,
        headers: &mut HeaderMap,
        arrived: Duration,
    ) -> Option<NotModified> {
        let known = self.0.get(&key.0)?;
        if !matches_if_none_match(headers, &known.etag)
            || !caller.has_min_slot(server, known.slot.commitment())
        {
            return None;
        }
        // Before the check: a block that becomes current meanwhile may change the result, but not the slots read here.
        let context = known.slot.to_context(&server.api);
        let response = match caller.repeat_watched(server, &known.calls, arrived) {
            Ok(true) => {
                let is_large = headers.capacity() > TAKEN_MAP_HEADERS_MAX;
                let map = if is_large { HeaderMap::new() } else { std::mem::take(headers) };
                Ok(known.to_response(context, map))
            }
            Ok(false) => return None,
            Err(err) => Err(err.into()),
        };
        Some(NotModified { label: known.label, response })
    }

    /// Remembers a response that was computed since the watch began.
    pub(crate) fn store<A: Api>(
        &self,
        server: &Server<A>,
        caller: MethodClient,
        watched: WatchedResponse,
        label: RouteLabel,
        response: &Response<ResponseBody>,
    ) {
        let WatchedResponse { key, route, calls, commitment } = watched;
        let Some(etag) = response.headers().get(header::ETAG).cloned() else { return };
        let Some(slot) = TagSlot::find(route, commitment, response.headers()) else { return };
        if let Some(calls) = caller.finish_watch(server, calls) {
            self.0.insert(&key.0, KnownTag { etag, label, calls, slot });
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
        let WatchedRequest { key, route, params, call, media } = request;
        if let ResponseKind::Custom(custom) = &route.response
            && (custom.may_wait)(params)
        {
            return None;
        }
        let commitment = route_commitment(route, params);
        let wants_raw = media == Media::Raw;
        let options = ResponseOptions { wants_raw, ..ResponseOptions::default() };
        let watch = |method: &str, params: &serde_json::Value| {
            caller.watch_call(server, method, &params.to_string(), options)
        };
        let calls = match call {
            MethodCall::Single(method, params) => vec![watch(method, params)?],
            MethodCall::Composite(calls) => {
                let all = calls.iter().map(|(_, method, params)| watch(method, params));
                all.collect::<Option<Vec<_>>>()?
            }
        };
        Some(Self { key, route, calls, commitment })
    }
}

impl KnownTag {
    /// Returns the 304. Its headers replace those in `headers`.
    fn to_response(
        &self,
        context: ResponseContext,
        mut headers: HeaderMap,
    ) -> Response<ResponseBody> {
        headers.clear();
        headers.insert(header::ETAG, self.etag.clone());
        write_context_headers(&mut headers, context);
        let mut response = not_modified();
        *response.headers_mut() = headers;
        response
    }
}

impl TagSlot {
    /// The slot of a response, by its headers.
    fn find(route: &Route, commitment: Commitment, headers: &HeaderMap) -> Option<Self> {
        match &route.response {
            ResponseKind::Value(value) if !matches!(value.slot, SlotSource::Context) => {
                let slot = headers.get(SLOT)?.to_str().ok()?.parse().ok()?;
                Some(Self::Object(slot, commitment))
            }
            ResponseKind::Value(_) | ResponseKind::Composite | ResponseKind::Custom(_) => {
                Some(Self::State(commitment))
            }
            ResponseKind::Accepted(_) => None,
        }
    }

    /// The commitment at which the response is requested.
    fn commitment(self) -> Commitment {
        match self {
            Self::State(commitment) | Self::Object(_, commitment) => commitment,
        }
    }

    /// Returns the slot and commitment of a 304 that the client gets if a later check finds its response current.
    fn to_context<A: Api>(self, api: &A) -> ResponseContext {
        let slot = |commitment| api.version_and_slot(commitment).1;
        match self {
            Self::State(commitment) => ResponseContext::for_state(slot(commitment), commitment),
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

    const METHOD: &str = "counterGet";
    const METHODS: &[MethodSpec<RacingApi>] =
        &[MethodSpec::new(METHOD, Execution::Inline, |_, _| MethodOutput::json(&1))
            .with_cache_dependencies(counter_dependencies)];

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

    /// The headers of the 304 to a client that has the counter as of slot 1, if the counter changes in slot 2, just
    /// before the read of the version with this number. `None` if the client gets no 304.
    fn race(slot: TagSlot, read: u64) -> Option<HeaderMap> {
        let Server { api: toy, context, .. } = ToyApi::server().expect("a thread");
        let api = RacingApi { toy, reads_left: AtomicU64::new(u64::MAX) };
        let server = Server::new(api, context);
        server.api.add();
        let caller = MethodClient::default();
        let call = caller.watch_call(&server, METHOD, "[]", ResponseOptions::default());
        let calls = caller.finish_watch(&server, vec![call.expect("its dependencies are known")]);
        let calls = calls.expect("nothing has changed");
        let etag = HeaderValue::from_static("\"0\"");
        let mut headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, etag.clone())]);
        let label = RestMetrics::new(&[]).label(None);
        let key = TagKey(b"/".to_vec());
        let known = KnownTags::new();
        known.0.insert(&key.0, KnownTag { etag, label, calls, slot });
        server.api.reads_left.store(read, Ordering::Relaxed);
        let arrived = server.context.pool.now();
        let sent = known.respond(&server, caller, &key, &mut headers, arrived)?;
        let (head, _) = sent.response.expect("no limit is reached").into_parts();
        assert_eq!(head.status, hyper::StatusCode::NOT_MODIFIED);
        Some(head.headers)
    }

    #[test]
    fn a_304_names_a_slot_at_which_its_etag_is_true() {
        let mut sent = Vec::new();
        for read in 0..4 {
            let Some(headers) = race(TagSlot::State(Commitment::Finalized), read) else { continue };
            // In slot 2 the counter has another value.
            assert_eq!(headers[SLOT], "1", "a change before read {read}");
            sent.push(read);
        }
        assert_eq!(sent, [2, 3], "one read before the check, and one in it");
    }

    #[test]
    fn a_304_is_immutable_only_if_its_object_was_final_before() {
        let mut sent = Vec::new();
        for read in 0..4 {
            let headers = race(TagSlot::Object(2, Commitment::Confirmed), read);
            let Some(headers) = headers else { continue };
            // Slot 2 becomes the root together with another value.
            assert_eq!(headers[SLOT], "2", "a change before read {read}");
            assert_eq!(headers[header::CACHE_CONTROL], "no-cache", "a change before read {read}");
            sent.push(read);
        }
        assert_eq!(sent, [2, 3], "one read before the check, and one in it");
        let root = race(TagSlot::Object(1, Commitment::Confirmed), 2).expect("it is current");
        assert_ne!(root[header::CACHE_CONTROL], "no-cache");
    }

    fn key(headers: &[(&str, &str)], reached: Option<[u8; 4]>) -> Option<TagKey> {
        let mut request = Request::builder().uri("/v1/node?a=b");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("valid headers").into_parts();
        TagKey::from_head(&head, reached.map(IpAddr::from))
    }

    #[test]
    fn a_key_depends_on_the_address_that_the_client_reached() {
        let headers = [("if-none-match", "\"0\"")];
        let reached = [None, Some([127, 0, 0, 1]), Some([10, 0, 0, 1])];
        for (index, one) in reached.into_iter().enumerate() {
            for (other_index, other) in reached.into_iter().enumerate() {
                let is_same = key(&headers, one) == key(&headers, other);
                assert_eq!(is_same, index == other_index, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn only_a_conditional_request_has_a_key() {
        assert_eq!(key(&[("accept", "*/*")], None), None);
        let longest = "x".repeat(cache::TEXT_BYTES_MAX);
        let long = key(&[("if-none-match", "*"), ("accept", longest.as_str())], None);
        assert_eq!(long.map(|key| key.0.len()), Some(blake3::OUT_LEN));
    }
}
