//! What the node counts of itself, and how it tells: Prometheus' text, all of it made here or by a [`AccountSource`].
//!
//! Every call is counted once, when the last byte of its answer is made, by its method and by where it was
//! answered (`ExecutionPath`); what HTTP and sockets do is counted where it happens. To count takes nanoseconds
//! and shares nothing between threads (`counts`); to tell takes a walk over all of it.
//! Bounds: memory is fixed when a thread first counts, 160 KiB each; names of methods that do not exist are
//! one name.
//! Not here: what goes into the text of other parts (`figures`, and each [`AccountSource`]).

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

pub use counters::Counters;
pub use exposition::{Exposition, Labels, MetricFamily, MetricKind};
pub use histogram::{Histogram, Histograms};
pub use rejections::Rejection;
pub use websocket::WebSocketMetrics;

pub(crate) use exposition::MEDIA_TYPE;
pub(crate) use http::{HttpCounters, HttpEvent};
pub(crate) use scrape::scrape_text;
pub(crate) use slow_log::{ExecutionStats, SlowLog, SlowRequest};

/// A part of the node that has figures of its own.
pub trait Collector: Send + Sync {
    /// Writes its families. Called on a thread that may take its time.
    fn write(&self, to: &mut Exposition);

    /// What its parts hold now, in heap bytes, by their names in `hydrant_memory_bytes`.
    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Its calls over WebSocket, which are told with those over HTTP.
    fn websocket_metrics(&self) -> Option<&WebSocketMetrics> {
        None
    }
}

/// What was asked and answered.
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

/// What a call is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MethodLabel(u16);

/// Where a call was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecutionPath {
    /// On the thread that polls the socket.
    Inline,
    /// With an answer that was kept, or that somebody else was making.
    Cached,
    /// On the CPU pool, by its class.
    Pool(pool::Class),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With a result.
    Succeeded,
    /// With an error of that code.
    Refused(i64),
    /// Without the end of an answer: its client had gone, or it took too long to stop there.
    Truncated,
}

const EXECUTION_PATHS: usize = 5;

/// Codes that are told apart: those of JSON-RPC, then Agave's from -32001 down, then any other, then
/// answers that were cut.
const CODES: usize = 5 + AGAVE_CODES + 2;
const AGAVE_CODES: usize = 21;
const STANDARD_CODES: [i64; 5] = [-32700, -32600, -32601, -32602, -32603];

impl Metrics {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        let subjects = MethodLabel::count();
        Self {
            calls: Histograms::new(subjects * EXECUTION_PATHS),
            errors: Counters::new(subjects * CODES),
            http: HttpCounters::new(),
            rejections: rejections::Rejections::new(),
            slow_log: SlowLog::default(),
            slow_total: AtomicU64::new(0),
            collectors: Mutex::default(),
            scrape_cache: scrape::ScrapeCache::default(),
        }
    }

    /// Adds a part's figures to the text.
    pub fn add(&self, source: Arc<dyn Collector>) {
        self.collectors.lock().push(source);
    }

    /// Counts a call.
    pub(crate) fn record_call(
        &self,
        subject: MethodLabel,
        lane: ExecutionPath,
        took: Duration,
        outcome: Outcome,
    ) {
        self.calls.record(subject.number() * EXECUTION_PATHS + lane.number(), took);
        if outcome != Outcome::Succeeded {
            self.errors.add(subject.number() * CODES + outcome.number(), 1);
        }
    }

    /// Counts a request that was refused because there is too much to do.
    pub fn record_rejection(&self, why: Rejection) {
        self.rejections.record(why);
    }

    /// Connections whose task panicked. There is none unless the node has a bug.
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

    /// Each subject and lane that there was, with how long it took.
    fn calls(&self) -> Vec<(&'static str, &'static str, Histogram)> {
        let all =
            MethodLabel::all().flat_map(|subject| ExecutionPath::ALL.map(|lane| (subject, lane)));
        let of = |(subject, lane): (MethodLabel, ExecutionPath)| {
            let histogram =
                self.calls.histogram(subject.number() * EXECUTION_PATHS + lane.number());
            (histogram.count() > 0).then(|| (subject.name(), lane.name(), histogram))
        };
        all.filter_map(of).collect()
    }

    /// Each subject and code that there was, and how often.
    fn errors(&self) -> Vec<(&'static str, String, u64)> {
        let all =
            MethodLabel::all().flat_map(|subject| (0..CODES).map(move |code| (subject, code)));
        let of = |(subject, code): (MethodLabel, usize)| {
            let count = self.errors.sum(subject.number() * CODES + code);
            (count > 0).then(|| (subject.name(), code_name(code), count))
        };
        all.filter_map(of).collect()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl MethodLabel {
    /// The method of that number.
    pub(crate) fn for_method(number: u16) -> Self {
        Self(number)
    }

    /// A method that there is not.
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
        let lane = ExecutionPath::Pool(pool::Class::Heavy);
        metrics.record_call(
            MethodLabel::other(),
            ExecutionPath::Inline,
            took,
            Outcome::Refused(-32601),
        );
        metrics.record_call(MethodLabel::none(), lane, took, Outcome::Succeeded);
        let calls = metrics.calls().into_iter().map(|(name, lane, it)| (name, lane, it.count()));
        let calls: Vec<_> = calls.collect();
        assert_eq!(calls, [("other", "inline", 1), ("none", "heavy", 1)]);
        assert_eq!(metrics.errors(), [("other", "-32601".to_owned(), 1)]);
    }
}
