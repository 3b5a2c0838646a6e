//! Calls that come over WebSocket, by method: how long they took, and which got an error.
//!
//! Their methods are not in the table of those of HTTP, so they have names and places of their own. Whoever
//! serves them counts here, and gives it to [`super::Metrics`] as a [`super::AccountSource`].
//! Bounds: memory is fixed when a thread first counts, 18 KiB for 24 methods.

use std::time::Duration;

use super::histogram::{Histogram, Histograms};
use super::{CODES, Counters, Outcome, code_name};

/// What is counted of such calls.
pub struct WebSocketMetrics {
    methods: &'static [(&'static str, &'static str)],
    calls: Histograms,
    errors: Counters,
}

impl WebSocketMetrics {
    /// Of methods, each with the class in which it is answered.
    pub(crate) fn new(methods: &'static [(&'static str, &'static str)]) -> Self {
        let len = methods.len() + 2;
        Self { methods, calls: Histograms::new(len), errors: Counters::new(len * CODES) }
    }

    /// Counts a call; `None` is what is no call.
    pub(crate) fn record(&self, method: Option<&str>, took: Duration, outcome: Outcome) {
        let of = |name| self.methods.iter().position(|(method, _)| *method == name);
        let others = self.methods.len();
        let number = method.map_or(others + 1, |method| of(method).unwrap_or(others));
        self.calls.record(number, took);
        if outcome != Outcome::Succeeded {
            self.errors.add(number * CODES + outcome.number(), 1);
        }
    }

    /// Every method with its class, then those that there are not, and what is no call.
    fn all(&self) -> impl Iterator<Item = (usize, (&'static str, &'static str))> {
        let others = [("other", "inline"), ("none", "inline")];
        self.methods.iter().copied().chain(others).enumerate()
    }

    /// Each method and class that there was, with how long it took.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&'static str, &'static str, Histogram)> {
        let of = |(number, (name, class))| (name, class, self.calls.histogram(number));
        self.all().map(of).filter(|(_, _, histogram)| histogram.count() > 0)
    }

    /// Each method and code that there was, and how often.
    pub(super) fn errors(&self) -> impl Iterator<Item = (&'static str, String, u64)> {
        let all =
            self.all().flat_map(|(at, (name, _))| (0..CODES).map(move |code| (at, name, code)));
        let of = |(at, name, code)| (name, code_name(code), self.errors.sum(at * CODES + code));
        all.map(of).filter(|(_, _, count)| *count > 0)
    }
}
