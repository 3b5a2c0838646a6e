//! The log of slow requests: one line per request, at most [`LINES_PER_SECOND_MAX`] lines per second.
//!
//! Requests without a line are counted. The next line has their count, or an extra line if no slow request follows.

use std::time::Duration;

use parking_lot::Mutex;

use super::labels::{ExecutionPath, MethodLabel, Outcome};
use super::request_span::{RequestSpan, SpanSink};
use crate::request_context::RequestContext;

/// Lines per second: enough to see which requests are slow, too few to fill a disk.
const LINES_PER_SECOND_MAX: u32 = 10;

const SECOND: Duration = Duration::from_secs(1);

/// Bytes of parameters that are logged: an address and one or two filters.
const PARAMS_BYTES_MAX: usize = 256;

/// A request that took too long, or has a trace.
pub(crate) struct SlowRequest<'a> {
    pub(crate) context: &'a RequestContext,
    pub(crate) method: &'a str,
    pub(crate) params: Option<&'a str>,
    pub(crate) path: ExecutionPath,
    pub(crate) took: Duration,
    pub(crate) outcome: Outcome,
    /// Statistics of its task, if it ran as a task.
    pub(crate) stats: Option<&'a ExecutionStats>,
}

/// Statistics of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExecutionStats {
    /// Time from the arrival to the first time slice.
    pub(crate) waited: Option<Duration>,
    /// Time in time slices.
    pub(crate) ran: Duration,
    pub(crate) slices: u32,
    /// Bytes of the response before compression.
    pub(crate) bytes: u64,
    pub(crate) records_visited: u64,
    /// Result of the cache lookup.
    pub(crate) cache: &'static str,
    /// The last call that was counted.
    pub(crate) last: Option<(MethodLabel, Outcome)>,
}

impl SlowRequest<'_> {
    /// Sends its span, if its trace is recorded.
    pub(crate) fn trace(&self, sink: Option<&dyn SpanSink>) {
        let (Some(sink), Some(parent)) = (sink, self.context.trace) else { return };
        sink.record(&RequestSpan {
            parent,
            request: self.context.request,
            client: self.context.client,
            method: self.method,
            class: self.path.name(),
            took: self.took,
            waited: self.stats.and_then(|stats| stats.waited),
            ran: self.stats.map(|stats| stats.ran),
            outcome: self.outcome,
        });
    }

    /// Counts it. Logs it if the rate limit allows.
    #[cold]
    pub(crate) fn log(&self, log: &SlowLog, now: Duration) {
        let Some(left_out) = log.admit(now) else { return };
        let stats = self.stats.copied().unwrap_or_default();
        let params = self.params.unwrap_or_default();
        let end = params.floor_char_boundary(PARAMS_BYTES_MAX);
        let cache = match (self.path, stats.cache) {
            (ExecutionPath::Cached, _) => "hit",
            (_, "") => "none", // it did not run as a task
            (_, lookup) => lookup,
        };
        tracing::warn!(
            request = %self.context.request,
            client = %self.context.client,
            method = self.method,
            class = self.path.name(),
            took_ms = ms(self.took),
            waited_ms = ms(stats.waited.unwrap_or_default()),
            ran_ms = ms(stats.ran),
            slices = stats.slices,
            bytes = stats.bytes,
            records = stats.records_visited,
            cache,
            outcome = ?self.outcome,
            params = &params[..end],
            left_out,
            "a slow request"
        );
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Decides which slow requests are logged.
#[derive(Default)]
pub(crate) struct SlowLog(Mutex<Window>);

#[derive(Default)]
struct Window {
    started: Duration,
    lines: u32,
    /// Requests that were not logged and not reported yet.
    left_out: u64,
    /// Slow requests so far, logged or not.
    total: u64,
}

impl SlowLog {
    /// `Some` if a request that ended at `now` is logged, with the number of requests left out before it.
    pub(crate) fn admit(&self, now: Duration) -> Option<u64> {
        let mut window = self.0.lock();
        window.total += 1;
        if now.saturating_sub(window.started) >= SECOND {
            (window.started, window.lines) = (now, 0);
        }
        if window.lines == LINES_PER_SECOND_MAX {
            window.left_out += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.left_out))
    }

    /// Slow requests so far, logged or not.
    pub(super) fn total(&self) -> u64 {
        self.0.lock().total
    }

    /// Number of requests left out that no line has reported; zero until the second is over.
    pub(crate) fn take_unreported(&self, now: Duration) -> u64 {
        let mut window = self.0.lock();
        if now.saturating_sub(window.started) < SECOND {
            return 0;
        }
        std::mem::take(&mut window.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_ten_lines_a_second_and_the_rest_is_counted() {
        let log = SlowLog::default();
        let ms = Duration::from_millis;
        let left_out: Vec<_> = (0..500).filter_map(|at| log.admit(ms(5_000 + at))).collect();
        assert_eq!(left_out, [0; 10]);
        assert_eq!(log.take_unreported(ms(5_999)), 0, "the second is not over");
        assert_eq!(log.admit(ms(6_000)), Some(490));
        (0..20).for_each(|_| {
            let _ = log.admit(ms(6_500));
        });
        assert_eq!((log.take_unreported(ms(7_000)), log.take_unreported(ms(7_000))), (11, 0));
    }
}
