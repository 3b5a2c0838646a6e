//! Metrics of the node, in Prometheus' text format.
//!
//! Every call is counted once, when the last byte of its response is written, by its method and its
//! `ExecutionPath`. Events of HTTP and sockets are counted where they happen. To count takes nanoseconds
//! and shares nothing between threads ([`Counters`]). A scrape reads all counters of all threads.
//! Bounds: 230 KiB per thread, allocated when the thread first counts. All unknown methods share one label.
//! Not here: the metric families themselves (`families`, and each [`Collector`]).

mod api_keys;
mod collect;
mod families;
mod labels;
mod pool_metrics;
mod process;
mod rejections;
mod request_span;
mod response_cache;
mod scrape;
mod slow_log;
mod websocket;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_server::{HttpCounters, HttpEvent};
use metrics::{BucketBounds, Collector, Counters, Histogram, Histograms};
use parking_lot::Mutex;

use labels::{CODES, EXECUTION_PATHS, NOT_METHODS, code_name};

pub use labels::Outcome;
pub use rejections::Rejection;
pub use request_span::{RequestSpan, SpanSink};
pub use websocket::WebSocketMetrics;

pub(crate) use labels::{ExecutionPath, MethodLabel};
pub(crate) use slow_log::{ExecutionStats, SlowLog, SlowRequest};

/// The metrics of a node.
pub struct Metrics {
    /// The names of all methods.
    methods: Vec<&'static str>,
    calls: Histograms,
    errors: Counters,
    pub(crate) http: Arc<HttpCounters>,
    rejections: rejections::Rejections,
    pub(crate) slow_log: SlowLog,
    collectors: Mutex<Vec<Arc<dyn Collector>>>,
    /// Calls over WebSocket, which are reported together with those over HTTP.
    websocket: Mutex<Vec<Arc<WebSocketMetrics>>>,
    scrape_cache: scrape::ScrapeCache,
    span_sink: OnceLock<Arc<dyn SpanSink>>,
    /// Whether `/metrics` of the public port is closed, because another address serves it.
    is_private: AtomicBool,
}

impl Metrics {
    /// The metrics of a server with these methods. All counters are zero.
    pub fn new(methods: &[&'static str]) -> Self {
        let labels = usize::from(NOT_METHODS) + methods.len();
        Self {
            methods: methods.to_vec(),
            calls: Histograms::new(labels * EXECUTION_PATHS, BucketBounds::LOG_LINEAR),
            errors: Counters::new(labels * CODES),
            http: Arc::new(HttpCounters::new()),
            rejections: rejections::Rejections::new(),
            slow_log: SlowLog::default(),
            collectors: Mutex::default(),
            websocket: Mutex::default(),
            scrape_cache: scrape::ScrapeCache::default(),
            span_sink: OnceLock::new(),
            is_private: AtomicBool::new(false),
        }
    }

    /// Closes `/metrics` of the public port: another address serves it.
    pub fn make_private(&self) {
        self.is_private.store(true, Ordering::Relaxed);
    }

    /// Whether the public port serves `/metrics`.
    pub(crate) fn is_public(&self) -> bool {
        !self.is_private.load(Ordering::Relaxed)
    }

    /// The counters of HTTP.
    pub fn http(&self) -> &Arc<HttpCounters> {
        &self.http
    }

    /// Adds the metrics of a part.
    pub fn add(&self, collector: Arc<dyn Collector>) {
        self.collectors.lock().push(collector);
    }

    /// Adds calls over WebSocket.
    pub fn add_websocket(&self, calls: Arc<WebSocketMetrics>) {
        self.websocket.lock().push(calls);
    }

    /// Sets what gets the spans of requests. Only the first call has an effect.
    pub fn set_span_sink(&self, sink: Arc<dyn SpanSink>) {
        // It returns the sink if there is one already.
        let _ = self.span_sink.set(sink);
    }

    /// The receiver of the spans of requests.
    pub(crate) fn span_sink(&self) -> Option<&dyn SpanSink> {
        self.span_sink.get().map(|sink| &**sink)
    }

    /// The name of a method, as its label has it.
    pub(crate) fn method_name(&self, label: MethodLabel) -> &'static str {
        if label == MethodLabel::none() {
            return "none";
        }
        let method = label.0.checked_sub(NOT_METHODS);
        method.and_then(|method| self.methods.get(usize::from(method))).copied().unwrap_or("other")
    }

    /// All labels: of the methods in their order, then the others.
    fn labels(&self) -> impl Iterator<Item = MethodLabel> {
        let methods = (0..).take(self.methods.len()).map(MethodLabel::for_method);
        methods.chain([MethodLabel::other(), MethodLabel::none()])
    }

    pub(crate) fn record_call(
        &self,
        label: MethodLabel,
        path: ExecutionPath,
        took: Duration,
        outcome: Outcome,
    ) {
        self.calls.record(label.number() * EXECUTION_PATHS + path.number(), took);
        if outcome != Outcome::Succeeded {
            self.errors.add(label.number() * CODES + outcome.number(), 1);
        }
    }

    /// Counts a request that was rejected because the node is overloaded.
    pub fn record_rejection(&self, rejection: Rejection) {
        self.rejections.record(rejection);
    }

    /// Connections whose task panicked. Zero, unless the node has a bug.
    pub fn connections_panicked(&self) -> u64 {
        self.http.total(HttpEvent::Panicked)
    }

    /// The durations of each method and execution path that was called.
    fn calls(&self) -> Vec<(&'static str, &'static str, Histogram)> {
        let all = self.labels().flat_map(|label| ExecutionPath::ALL.map(|path| (label, path)));
        let series = |(label, path): (MethodLabel, ExecutionPath)| {
            let histogram = self.calls.histogram(label.number() * EXECUTION_PATHS + path.number());
            (histogram.count() > 0).then(|| (self.method_name(label), path.name(), histogram))
        };
        all.filter_map(series).collect()
    }

    /// The count of each method and error code that occurred.
    fn errors(&self) -> Vec<(&'static str, String, u64)> {
        let mut counts = vec![0; (usize::from(NOT_METHODS) + self.methods.len()) * CODES];
        self.errors.add_sums(0, &mut counts);
        let all = self.labels().flat_map(|label| (0..CODES).map(move |code| (label, code)));
        let series = |(label, code): (MethodLabel, usize)| {
            let count = counts.get(label.number() * CODES + code).copied().unwrap_or_default();
            (count > 0).then(|| (self.method_name(label), code_name(code), count))
        };
        all.filter_map(series).collect()
    }
}

#[cfg(test)]
mod tests {
    use cpu_pool::Class;

    use super::*;

    #[test]
    fn a_method_that_was_not_called_has_no_series() {
        let metrics = Metrics::new(&["getSlot"]);
        assert!(metrics.calls().is_empty() && metrics.errors().is_empty());
        let took = Duration::from_micros(3);
        let path = ExecutionPath::Pool(Class::Heavy);
        metrics.record_call(
            MethodLabel::other(),
            ExecutionPath::Inline,
            took,
            Outcome::Refused(-32601),
        );
        metrics.record_call(MethodLabel::none(), path, took, Outcome::Succeeded);
        metrics.record_call(MethodLabel::for_method(0), path, took, Outcome::Truncated);
        let calls = metrics.calls().into_iter().map(|(name, path, it)| (name, path, it.count()));
        let calls: Vec<_> = calls.collect();
        assert_eq!(calls, [("getSlot", "heavy", 1), ("other", "inline", 1), ("none", "heavy", 1)]);
        let errors = [("getSlot", "cut".to_owned(), 1), ("other", "-32601".to_owned(), 1)];
        assert_eq!(metrics.errors(), errors);
    }
}
