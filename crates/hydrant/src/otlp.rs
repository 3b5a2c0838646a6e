//! Exports spans of requests to a collector of OpenTelemetry, by OTLP over HTTP with JSON.
//!
//! In: spans of requests whose clients record their trace. Out: a `POST` for each batch. A request that ran on the CPU
//! pool has two spans below its own: `queue` and `run`.
//! Bounds: [`QUEUE_SPANS_MAX`] spans wait, and [`BATCH_SPANS_MAX`] are being sent; about 400 bytes each. A span that
//! finds the queue full is dropped. A batch that the collector does not accept is not sent again. Both are counted.
//! Invariant: recording a span never waits. A thread of its own sends them.
//! Source: <https://opentelemetry.io/docs/specs/otlp/>, 1.0. Why not its crates: `docs/design/libraries.md`.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use http_client::{Client, Endpoint, Server};
use jsonrpc::metrics::{Outcome, RequestSpan, SpanSink};
use jsonrpc::{Metrics, TraceParent};
use metrics::{Collector, Exposition, MetricKind};
use serde_json::{Value, json};

use crate::console::now;

/// Capacity of the queue of spans.
const QUEUE_SPANS_MAX: usize = 8_192;
/// Maximum number of spans in a batch.
const BATCH_SPANS_MAX: usize = 512;
/// Heap bytes of a span's texts: ids, an address and a method, as the allocator rounds them.
const TEXT_BYTES: u64 = 160;
/// Time that a batch waits for more spans.
const BATCH_INTERVAL: Duration = Duration::from_millis(500);
/// Path at which collectors accept spans.
const PATH: &str = "/v1/traces";
/// Bytes of a response that are stored. Only its status counts.
const RESPONSE_BYTES_MAX: usize = 4 << 10;
/// Kinds of spans, and the status of one with an error.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const ERROR: u8 = 2;

/// A span sink that queues spans for the exporting thread.
pub(crate) struct SpanExporter {
    queue: SyncSender<EndedRequest>,
    counts: Arc<SpanCounts>,
}

#[derive(Default)]
struct SpanCounts {
    exported: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    /// Those that wait, or are being sent.
    queued: AtomicU64,
}

/// A finished request, as it is queued for export.
struct EndedRequest {
    parent: TraceParent,
    span_id: u64,
    request: String,
    client: String,
    method: String,
    class: &'static str,
    start: Duration,
    end: Duration,
    waited: Option<Duration>,
    ran: Option<Duration>,
    outcome: Outcome,
}

impl SpanExporter {
    /// Starts the thread that sends to the collector at `url`, such as `http://127.0.0.1:4318`. It is not connected yet.
    pub(crate) fn start(endpoint: Endpoint) -> Result<Arc<Self>> {
        let (queue, queued) = sync_channel(QUEUE_SPANS_MAX);
        let counts = Arc::new(SpanCounts::default());
        let exporter = Arc::new(Self { queue, counts: Arc::clone(&counts) });
        let thread = std::thread::Builder::new().name("otlp".into());
        let thread = thread.spawn(move || export(&queued, &endpoint, &counts));
        // It runs until the process ends. Spans of the last half second are lost then.
        thread.map(drop).context("start the thread that exports spans")?;
        Ok(exporter)
    }
}

/// Exports the spans of a node to the collector at `url`, if there is one.
pub(crate) fn export_spans(collector: Option<&Endpoint>, metrics: &Metrics) -> Result<()> {
    let Some(exporter) = collector.cloned().map(SpanExporter::start).transpose()? else {
        return Ok(());
    };
    metrics.add(Arc::clone(&exporter) as Arc<dyn Collector>);
    metrics.set_span_sink(exporter);
    Ok(())
}

/// Parses the URL of `--otlp-endpoint`.
pub(crate) fn parse_collector(url: &str) -> Result<Endpoint> {
    let server = Server::from_url(url);
    let form = || format!("--otlp-endpoint {server}: the form is http[s]://HOST:PORT");
    let authority = url.split_once("://").map(|(_, rest)| rest.trim_end_matches('/'));
    ensure!(authority.is_some_and(|it| !it.contains('/')), form());
    Endpoint::parse(url).with_context(form)
}

impl SpanSink for SpanExporter {
    fn record(&self, span: &RequestSpan<'_>) {
        let end = unix_time();
        let ended = EndedRequest {
            parent: span.parent,
            span_id: span_id(),
            request: span.request.to_string(),
            client: span.client.to_string(),
            method: span.method.to_owned(),
            class: span.class,
            start: end.saturating_sub(span.took),
            end,
            waited: span.waited,
            ran: span.ran,
            outcome: span.outcome,
        };
        self.counts.queued.fetch_add(1, Ordering::Relaxed);
        if self.queue.try_send(ended).is_err() {
            self.counts.queued.fetch_sub(1, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Collector for SpanExporter {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![("spans", self.counts.queued.load(Ordering::Relaxed) * TEXT_BYTES)]
    }

    fn write(&self, out: &mut Exposition) {
        let help = "Requests whose spans were exported, by result.";
        let mut family = out.family("hydrant_traced_requests_total", MetricKind::Counter, help);
        let SpanCounts { exported, dropped, failed, queued } = &*self.counts;
        for (result, count) in [("exported", exported), ("dropped", dropped), ("failed", failed)] {
            family.put(&[("result", result)], count.load(Ordering::Relaxed));
        }
        let help = "Requests whose spans wait or are being sent.";
        let queued = queued.load(Ordering::Relaxed);
        out.single("hydrant_traced_requests_queued", MetricKind::Gauge, help, queued);
    }
}

/// Sends batches until the queue is closed.
fn export(queued: &Receiver<EndedRequest>, endpoint: &Endpoint, counts: &SpanCounts) {
    let mut client = None;
    let mut is_failing = false;
    while let Ok(first) = queued.recv() {
        let mut batch = vec![first];
        let complete_at = now() + BATCH_INTERVAL;
        while batch.len() < BATCH_SPANS_MAX {
            let left = complete_at.saturating_duration_since(now());
            let Ok(next) = queued.recv_timeout(left) else { break };
            batch.push(next);
        }
        let sent = send(&mut client, endpoint, &batch);
        let counter = if sent.is_ok() { &counts.exported } else { &counts.failed };
        counter.fetch_add(batch.len() as u64, Ordering::Relaxed);
        counts.queued.fetch_sub(batch.len() as u64, Ordering::Relaxed);
        // One line for each outage of the collector.
        if let Err(err) = sent
            && !is_failing
        {
            tracing::warn!("--otlp-endpoint: {err:#}");
        }
        is_failing = client.is_none();
    }
}

/// Sends a batch. After an error the client is removed, and the next batch connects again.
fn send(client: &mut Option<Client>, endpoint: &Endpoint, batch: &[EndedRequest]) -> Result<()> {
    let request = endpoint.post(PATH, &body(batch).to_string());
    let mut connected = match client.take() {
        Some(client) => client,
        None => {
            Client::open_with_body_limit(endpoint.clone(), RESPONSE_BYTES_MAX).context("connect")?
        }
    };
    let status = connected.exchange(&request).context("send spans")?.status;
    ensure!(status == 200, "the collector responds with HTTP {status}");
    *client = Some(connected);
    Ok(())
}

/// The body of an `ExportTraceServiceRequest`.
fn body(batch: &[EndedRequest]) -> Value {
    let spans: Vec<Value> = batch.iter().flat_map(spans).collect();
    let service =
        [text("service.name", "hydrant"), text("service.version", env!("CARGO_PKG_VERSION"))];
    json!({
        "resourceSpans": [{
            "resource": { "attributes": service },
            "scopeSpans": [{ "scope": { "name": "hydrant" }, "spans": spans }],
        }],
    })
}

/// The span of a request, and those below it.
fn spans(ended: &EndedRequest) -> Vec<Value> {
    let EndedRequest { parent, span_id, start, end, .. } = ended;
    let own_id = hex(&span_id.to_be_bytes());
    let mut attributes = vec![
        text("rpc.system", "jsonrpc"),
        text("rpc.method", &ended.method),
        text("client.address", &ended.client),
        text("hydrant.class", ended.class),
        text("hydrant.request_id", &ended.request),
    ];
    if let Some(ran) = ended.ran {
        attributes.push(
            json!({ "key": "hydrant.ran_ms", "value": { "doubleValue": ran.as_secs_f64() * 1e3 } }),
        );
    }
    let mut status = json!({});
    match ended.outcome {
        Outcome::Succeeded => {}
        Outcome::Refused(code) => {
            attributes.push(json!({ "key": "rpc.jsonrpc.error_code", "value": { "intValue": code.to_string() } }));
            status = json!({ "code": ERROR });
        }
        Outcome::Truncated => {
            status = json!({ "code": ERROR, "message": "the response is incomplete" });
        }
    }
    let mut own = span(parent, &own_id, &hex(&parent.span_id), &ended.method, &(*start..*end));
    own["kind"] = SERVER.into();
    own["attributes"] = attributes.into();
    own["status"] = status;
    let mut spans = vec![own];
    if let Some(waited) = ended.waited {
        // The clock of the times may have been set back in between.
        let started = (*start + waited).min(*end);
        for (name, times) in [("queue", *start..started), ("run", started..*end)] {
            let id = hex(&self::span_id().to_be_bytes());
            spans.push(span(parent, &id, &own_id, name, &times));
        }
    }
    spans
}

fn span(trace: &TraceParent, id: &str, parent: &str, name: &str, times: &Range<Duration>) -> Value {
    json!({
        "traceId": hex(&trace.trace_id),
        "spanId": id,
        "parentSpanId": parent,
        "name": name,
        "kind": INTERNAL,
        "startTimeUnixNano": times.start.as_nanos().to_string(),
        "endTimeUnixNano": times.end.as_nanos().to_string(),
    })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An id that no other span of the trace has. It is not 0, which means no span.
fn span_id() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

/// Returns the time since 1970, as spans have it.
#[expect(clippy::disallowed_methods, reason = "only the program reads the clock")]
fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_request(waited: Option<Duration>, outcome: Outcome) -> EndedRequest {
        EndedRequest {
            parent: TraceParent { trace_id: [0xab; 16], span_id: [1; 8] },
            span_id: 2,
            request: "r".to_owned(),
            client: "c".to_owned(),
            method: "getSlot".to_owned(),
            class: "light",
            start: Duration::from_secs(10),
            end: Duration::from_secs(13),
            waited,
            ran: waited.map(|_| Duration::from_secs(2)),
            outcome,
        }
    }

    #[test]
    fn a_request_on_the_pool_has_a_span_for_its_wait_and_one_for_its_run() {
        let spans = spans(&ended_request(Some(Duration::from_secs(1)), Outcome::Succeeded));
        let times = |span: &Value| {
            let time = |name: &str| span[name].as_str().unwrap_or_default()[..2].to_owned();
            (span["name"].clone(), time("startTimeUnixNano"), time("endTimeUnixNano"))
        };
        let expected = [("getSlot", "10", "13"), ("queue", "10", "11"), ("run", "11", "13")];
        let expected = expected.map(|(name, start, end)| (name.into(), start.into(), end.into()));
        assert_eq!(spans.iter().map(times).collect::<Vec<_>>(), expected);
        let parents: Vec<_> = spans.iter().map(|span| &span["parentSpanId"]).collect();
        assert_eq!(parents, ["0101010101010101", "0000000000000002", "0000000000000002"]);
        assert!(spans.iter().all(|span| span["traceId"] == "ab".repeat(16)));
    }

    #[test]
    fn a_refused_request_has_the_status_of_an_error() {
        let spans = spans(&ended_request(None, Outcome::Refused(-32601)));
        assert_eq!(spans.len(), 1);
        assert_eq!(spans[0]["status"], json!({ "code": 2 }));
        let code = json!({ "key": "rpc.jsonrpc.error_code", "value": { "intValue": "-32601" } });
        assert!(spans[0]["attributes"].as_array().is_some_and(|it| it.contains(&code)));
    }

    #[test]
    fn an_endpoint_with_a_path_is_refused_with_the_right_form() {
        for url in ["http://127.0.0.1:4318/v1/traces", "127.0.0.1:4318"] {
            let err = parse_collector(url).expect_err("it is refused");
            assert!(err.to_string().contains("the form is http[s]://HOST:PORT"), "{err:#}");
        }
    }
}
