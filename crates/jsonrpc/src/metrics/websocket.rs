//! Calls over WebSocket, by method: durations and errors.
//!
//! Their methods are not in the table of HTTP's methods, so they have their own labels and counters. The server of
//! these calls counts here, and adds the counters to [`super::Metrics`].
//! Bounds: 18 KiB per thread for 24 methods, allocated when the thread first counts.

use std::time::Duration;

use metrics::{BucketBounds, Counters, Histogram, Histograms};

use super::labels::{CODES, Outcome, code_name};

/// The counters of calls over WebSocket.
pub struct WebSocketMetrics {
    methods: &'static [(&'static str, &'static str)],
    calls: Histograms,
    errors: Counters,
}

impl WebSocketMetrics {
    /// The metrics of these methods, each with its class.
    pub fn new(methods: &'static [(&'static str, &'static str)]) -> Self {
        let len = methods.len() + 2;
        let calls = Histograms::new(len, BucketBounds::LOG_LINEAR);
        Self { methods, calls, errors: Counters::new(len * CODES) }
    }

    /// Counts a call. `method` is `None` for a message that is not a call.
    pub fn record(&self, method: Option<&str>, took: Duration, outcome: Outcome) {
        let index = |name| self.methods.iter().position(|(method, _)| *method == name);
        let others = self.methods.len();
        let number = method.map_or(others + 1, |method| index(method).unwrap_or(others));
        self.calls.record(number, took);
        if outcome != Outcome::Succeeded {
            self.errors.add(number * CODES + outcome.number(), 1);
        }
    }

    /// Every method with its class, then unknown methods, then messages that are not calls.
    fn all(&self) -> impl Iterator<Item = (usize, (&'static str, &'static str))> {
        let others = [("other", "inline"), ("none", "inline")];
        self.methods.iter().copied().chain(others).enumerate()
    }

    /// The durations of each method that was called, with its class.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&'static str, &'static str, Histogram)> {
        let series = |(number, (name, class))| (name, class, self.calls.histogram(number));
        self.all().map(series).filter(|(_, _, histogram)| histogram.count() > 0)
    }

    /// The count of each method and error code that occurred.
    pub(super) fn errors(&self) -> impl Iterator<Item = (&'static str, String, u64)> {
        let all =
            self.all().flat_map(|(at, (name, _))| (0..CODES).map(move |code| (at, name, code)));
        let series = |(at, name, code)| (name, code_name(code), self.errors.sum(at * CODES + code));
        all.map(series).filter(|(_, _, count)| *count > 0)
    }
}
