//! The log of slow requests: one line each, and not more than [`LINES_PER_SECOND_MAX`] of them.
//!
//! What is left out is counted, and told with the next line, or once the storm is over.

use std::time::Duration;

use parking_lot::Mutex;

use super::{ExecutionPath, MethodLabel, Metrics, Outcome};
use crate::request_context::RequestContext;

/// Lines in the log of a second: enough to see what is slow, too few to fill a disk.
const LINES_PER_SECOND_MAX: u32 = 10;

const SECOND: Duration = Duration::from_secs(1);

/// Of parameters, so much is logged: an address and a filter or two.
const PARAMS_BYTES_MAX: usize = 256;

/// A request that took too long.
pub(crate) struct SlowRequest<'a> {
    pub(crate) context: &'a RequestContext,
    pub(crate) method: &'a str,
    pub(crate) params: Option<&'a str>,
    pub(crate) path: ExecutionPath,
    pub(crate) took: Duration,
    pub(crate) outcome: Outcome,
    /// What it took to make its answer, if that was a task.
    pub(crate) stats: Option<&'a ExecutionStats>,
}

/// What it took to make an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExecutionStats {
    /// From the arrival to the first slice.
    pub(crate) waited: Option<Duration>,
    /// In slices.
    pub(crate) ran: Duration,
    pub(crate) slices: u32,
    /// Of the answer as it was written, before it was compressed.
    pub(crate) bytes: u64,
    /// Records that were looked at.
    pub(crate) records_visited: u64,
    /// What came of looking into the answer cache.
    pub(crate) cache: &'static str,
    /// The call that was counted last.
    pub(crate) last: Option<(MethodLabel, Outcome)>,
}

impl SlowRequest<'_> {
    /// Counts it, and logs it if there are not too many.
    #[cold]
    pub(crate) fn log(&self, metrics: &Metrics, now: Duration) {
        metrics.record_slow();
        let Some(left_out) = metrics.slow_log.admit(now) else { return };
        let made = self.stats.copied().unwrap_or_default();
        let params = self.params.unwrap_or_default();
        let end = params.floor_char_boundary(PARAMS_BYTES_MAX);
        let cache = match (self.path, made.cache) {
            (ExecutionPath::Cached, _) => "hit",
            (_, "") => "none", // no task made it
            (_, of_task) => of_task,
        };
        tracing::warn!(
            request = %self.context.request,
            client = %self.context.client,
            method = self.method,
            class = self.path.name(),
            took_ms = ms(self.took),
            waited_ms = ms(made.waited.unwrap_or_default()),
            ran_ms = ms(made.ran),
            slices = made.slices,
            bytes = made.bytes,
            records = made.records_visited,
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

/// Which slow requests are to be logged.
#[derive(Default)]
pub(crate) struct SlowLog(Mutex<Window>);

#[derive(Default)]
struct Window {
    started: Duration,
    lines: u32,
    /// Not logged, and not told of yet.
    left_out: u64,
}

impl SlowLog {
    /// Whether one that ended at `now` is to be logged; if so, how many before it were left out.
    pub(crate) fn admit(&self, now: Duration) -> Option<u64> {
        let mut window = self.0.lock();
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

    /// How many were left out that no line has told of, once a second has gone since the last.
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
        let told: Vec<_> = (0..500).filter_map(|at| log.admit(ms(5_000 + at))).collect();
        assert_eq!(told, [0; 10]);
        assert_eq!(log.take_unreported(ms(5_999)), 0, "the second is not over");
        assert_eq!(log.admit(ms(6_000)), Some(490));
        (0..20).for_each(|_| {
            let _ = log.admit(ms(6_500));
        });
        assert_eq!((log.take_unreported(ms(7_000)), log.take_unreported(ms(7_000))), (11, 0));
    }
}
