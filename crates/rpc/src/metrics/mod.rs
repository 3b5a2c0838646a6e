//! Metrics of the node, in Prometheus' text format.
//!
//! Every call is counted once, when the last byte of its response is written, by its method and its
//! `ExecutionPath`. Events of HTTP and sockets are counted where they happen. To count takes nanoseconds
//! and shares nothing between threads (`counters`). A scrape reads all counters of all threads.
//! Bounds: 160 KiB per thread, allocated when the thread first counts. All unknown methods share one label.
//! Not here: the metric families themselves (`collect`, and each [`Collector`]).

mod collect;
mod counters;
mod exposition;
mod histogram;
mod http;
mod process;
mod rejections;
mod scrape;
mod slow_log;
mod websocket;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::methods;

pub use collect::memory_parts;
pub use counters::Counters;
pub use exposition::{Exposition, Labels, MetricFamily, MetricKind};
pub use histogram::{Histogram, Histograms};
pub use rejections::Rejection;
pub use websocket::WebSocketMetrics;

pub(crate) use exposition::MEDIA_TYPE;
pub(crate) use http::{HttpCounters, HttpEvent};
pub(crate) use scrape::scrape_text;
pub(crate) use slow_log::{ExecutionStats, SlowLog, SlowRequest};

/// A part of the node that has metrics of its own.
pub trait Collector: Send + Sync {
    /// Writes its metric families. Called on a thread that may block.
    fn write(&self, to: &mut Exposition);

    /// Heap bytes in use, by `part` of `hydrant_memory_bytes`.
    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Its calls over WebSocket, which are reported together with those over HTTP.
    fn websocket_metrics(&self) -> Option<&WebSocketMetrics> {
        None
    }
}

/// The metrics of a node.
pub struct Metrics {
    calls: Histograms,
    errors: Counters,
    pub(crate) http: HttpCounters,
    rejections: rejections::Rejections,
    pub(crate) slow_log: SlowLog,
    /// Slow requests, logged or not.
    slow_total: AtomicU64,
    collectors: Mutex<Vec<Arc<dyn Collector>>>,
    scrape_cache: scrape::ScrapeCache,
}

/// The method label of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MethodLabel(u16);

/// Where a call was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecutionPath {
    /// On the thread that polls the socket.
    Inline,
    /// From the response cache, or with the result of another request that was being computed.
    Cached,
    /// On the CPU pool, by its class.
    Pool(pool::Class),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With a result.
    Succeeded,
    /// With an error of this code.
    Refused(i64),
    /// With an incomplete response: the client disconnected, or the deadline passed after the first byte was sent.
    Truncated,
}

const EXECUTION_PATHS: usize = 5;

/// Number of error codes with their own counter: those of JSON-RPC, then Agave's from -32001 down, then all others,
/// then truncated responses.
const CODES: usize = 5 + AGAVE_CODES + 2;
const AGAVE_CODES: usize = 21;
const STANDARD_CODES: [i64; 5] = [-32700, -32600, -32601, -32602, -32603];

impl Metrics {
    /// All counters are zero.
    pub fn new() -> Self {
        let labels = MethodLabel::count();
        Self {
            calls: Histograms::new(labels * EXECUTION_PATHS),
            errors: Counters::new(labels * CODES),
            http: HttpCounters::new(),
            rejections: rejections::Rejections::new(),
            slow_log: SlowLog::default(),
            slow_total: AtomicU64::new(0),
            collectors: Mutex::default(),
            scrape_cache: scrape::ScrapeCache::default(),
        }
    }

    /// Adds the metrics of a part.
    pub fn add(&self, collector: Arc<dyn Collector>) {
        self.collectors.lock().push(collector);
    }

    /// Counts a call.
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

    /// Counts a slow request.
    pub(crate) fn record_slow(&self) {
        self.slow_total.fetch_add(1, Ordering::Relaxed);
    }

    fn slow_total(&self) -> u64 {
        self.slow_total.load(Ordering::Relaxed)
    }

    /// The durations of each method and execution path that was called.
    fn calls(&self) -> Vec<(&'static str, &'static str, Histogram)> {
        let all = MethodLabel::all().flat_map(|label| ExecutionPath::ALL.map(|path| (label, path)));
        let series = |(label, path): (MethodLabel, ExecutionPath)| {
            let histogram = self.calls.histogram(label.number() * EXECUTION_PATHS + path.number());
            (histogram.count() > 0).then(|| (label.name(), path.name(), histogram))
        };
        all.filter_map(series).collect()
    }

    /// The count of each method and error code that occurred.
    fn errors(&self) -> Vec<(&'static str, String, u64)> {
        let all = MethodLabel::all().flat_map(|label| (0..CODES).map(move |code| (label, code)));
        let series = |(label, code): (MethodLabel, usize)| {
            let count = self.errors.sum(label.number() * CODES + code);
            (count > 0).then(|| (label.name(), code_name(code), count))
        };
        all.filter_map(series).collect()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl MethodLabel {
    /// The method with this index.
    pub(crate) fn for_method(number: u16) -> Self {
        Self(number)
    }

    /// A method that does not exist.
    pub(crate) fn other() -> Self {
        Self(methods::all_methods().len() as u16)
    }

    /// A body that is no call, or a batch as a whole.
    pub(crate) fn none() -> Self {
        Self(methods::all_methods().len() as u16 + 1)
    }

    fn count() -> usize {
        methods::all_methods().len() + 2
    }

    fn all() -> impl Iterator<Item = Self> {
        (0..Self::count() as u16).map(Self)
    }

    fn number(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn name(self) -> &'static str {
        match methods::all_methods().get(self.number()) {
            Some(method) => method.name,
            None if self == Self::other() => "other",
            None => "none",
        }
    }
}

impl ExecutionPath {
    const ALL: [Self; EXECUTION_PATHS] = [
        Self::Inline,
        Self::Cached,
        Self::Pool(pool::Class::Light),
        Self::Pool(pool::Class::Medium),
        Self::Pool(pool::Class::Heavy),
    ];

    fn number(self) -> usize {
        match self {
            Self::Inline => 0,
            Self::Cached => 1,
            Self::Pool(class) => 2 + class.index(),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Cached => "cached",
            Self::Pool(class) => class.name(),
        }
    }
}

impl Outcome {
    fn number(self) -> usize {
        let Self::Refused(code) = self else { return CODES - 1 };
        if let Some(at) = STANDARD_CODES.iter().position(|standard| *standard == code) {
            return at;
        }
        match usize::try_from((-32001_i64).saturating_sub(code)) {
            Ok(at) if at < AGAVE_CODES => STANDARD_CODES.len() + at,
            _ => CODES - 2,
        }
    }
}

fn code_name(number: usize) -> String {
    match STANDARD_CODES.get(number) {
        Some(code) => code.to_string(),
        None if number == CODES - 1 => "cut".to_owned(),
        None if number == CODES - 2 => "other".to_owned(),
        None => (-32001 - (number - STANDARD_CODES.len()) as i64).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_counted_under_its_own_name() {
        let codes = (-32021..=-32001).chain(STANDARD_CODES);
        for code in codes {
            assert_eq!(code_name(Outcome::Refused(code).number()), code.to_string());
        }
        for code in [0, 1, -32000, -32022, i64::MAX] {
            assert_eq!(code_name(Outcome::Refused(code).number()), "other");
        }
        assert_eq!(code_name(Outcome::Truncated.number()), "cut");
    }

    #[test]
    fn a_method_that_was_not_called_has_no_series() {
        let metrics = Metrics::new();
        assert!(metrics.calls().is_empty() && metrics.errors().is_empty());
        let took = Duration::from_micros(3);
        let path = ExecutionPath::Pool(pool::Class::Heavy);
        metrics.record_call(
            MethodLabel::other(),
            ExecutionPath::Inline,
            took,
            Outcome::Refused(-32601),
        );
        metrics.record_call(MethodLabel::none(), path, took, Outcome::Succeeded);
        let calls = metrics.calls().into_iter().map(|(name, path, it)| (name, path, it.count()));
        let calls: Vec<_> = calls.collect();
        assert_eq!(calls, [("other", "inline", 1), ("none", "heavy", 1)]);
        assert_eq!(metrics.errors(), [("other", "-32601".to_owned(), 1)]);
    }
}
