//! The results of a stream's requests.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::classify::Verdict;

/// Latencies are counted from a microsecond to ten minutes, in nanoseconds, to three digits.
const LATENCY_NS: (u64, u64) = (1_000, 600_000_000_000);

/// Bytes of a failed response that are reported.
const SHOWN_BYTES_MAX: usize = 300;

/// Requests by result. Only requests of the measured time are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Ok responses.
    pub ok: u64,
    /// Rejected because of overload.
    pub rejected: u64,
    /// Error responses.
    pub errors: u64,
    /// No response in time: not within the timeout, or hung at the end of a closed loop.
    pub timeouts: u64,
    /// The connection broke or could not be opened.
    pub broken: u64,
    /// Due but not sent, as no connection was free until well after the end.
    pub unsent: u64,
}

/// One second of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Second {
    /// Ok responses.
    pub ok: u64,
    /// Rejections.
    pub rejected: u64,
    /// All other failures.
    pub failed: u64,
    /// The longest latency of an ok response, in microseconds.
    pub longest_us: u64,
}

/// The results of one stream in one run.
#[derive(Clone, Debug)]
pub struct StreamStats {
    /// Name of the stream.
    pub name: String,
    /// Counts by result.
    pub counts: Counts,
    /// Latencies of ok responses, in nanoseconds.
    pub latencies: Histogram<u64>,
    /// Latencies of rejections.
    pub refusals: Histogram<u64>,
    /// Latencies of failures. An unsent request counts until it was given up.
    pub failures: Histogram<u64>,
    /// Bytes of the bodies of ok responses.
    pub body_bytes: u64,
    /// The first failure, for the report.
    pub failure: Option<String>,
    /// Counts by second of the measured time, by the time of the response.
    pub seconds: Vec<Second>,
    /// Measured time.
    pub took: Duration,
}

pub(crate) enum RequestResult<'a> {
    Answered { verdict: Verdict, status: u16, body: &'a [u8], body_bytes: u64 },
    TimedOut,
    Broken(String),
    Unsent,
}

impl Counts {
    /// All due requests.
    pub fn total(&self) -> u64 {
        self.ok + self.failed()
    }

    /// All due requests without an ok response.
    pub fn failed(&self) -> u64 {
        self.rejected + self.errors + self.timeouts + self.broken + self.unsent
    }

    /// Counts of failures without rejections, as text: "errors: 3, broken: 1"; empty if there is
    /// none.
    pub fn failures(&self) -> String {
        let kinds = [
            (self.errors, "errors"),
            (self.timeouts, "timed out"),
            (self.broken, "broken"),
            (self.unsent, "unsent"),
        ];
        let some = kinds.iter().filter(|(count, _)| *count > 0);
        some.map(|(count, kind)| format!("{kind}: {count}")).collect::<Vec<_>>().join(", ")
    }

    /// Adds the counts of another thread or run.
    pub fn add(&mut self, other: &Self) {
        self.ok += other.ok;
        self.rejected += other.rejected;
        self.errors += other.errors;
        self.timeouts += other.timeouts;
        self.broken += other.broken;
        self.unsent += other.unsent;
    }
}

impl StreamStats {
    /// Empty results.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            counts: Counts::default(),
            latencies: histogram(),
            refusals: histogram(),
            failures: histogram(),
            body_bytes: 0,
            failure: None,
            seconds: Vec::new(),
            took: Duration::ZERO,
        }
    }

    /// Ok responses per second.
    pub fn rate(&self) -> f64 {
        self.counts.ok as f64 / self.took.as_secs_f64()
    }

    /// A latency quantile of all due requests, in milliseconds: ok, rejected and failed.
    pub fn ms(&self, quantile: f64) -> f64 {
        ms(&self.all_latencies(), quantile)
    }

    /// Latencies of all due requests.
    pub fn all_latencies(&self) -> Histogram<u64> {
        let mut all = self.latencies.clone();
        // All have the same bounds.
        let _ = all.add(&self.refusals);
        let _ = all.add(&self.failures);
        all
    }

    /// Counts one request. `done` is the time of its result since the start of the measured time.
    pub(crate) fn record(&mut self, latency: Duration, done: Duration, result: RequestResult<'_>) {
        let at = done.as_secs() as usize;
        // A response after the end belongs to the last second.
        if self.seconds.len() <= at {
            self.seconds.resize(at + 1, Second::default());
        }
        let second = &mut self.seconds[at];
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let counts = &mut self.counts;
        let (counter, latencies, failure) = match result {
            RequestResult::Answered { verdict: Verdict::Ok, body_bytes, .. } => {
                self.body_bytes += body_bytes;
                second.ok += 1;
                second.longest_us = second.longest_us.max(nanos / 1_000);
                (&mut counts.ok, &mut self.latencies, None)
            }
            RequestResult::Answered { verdict: Verdict::Rejected, .. } => {
                second.rejected += 1;
                (&mut counts.rejected, &mut self.refusals, None)
            }
            RequestResult::Answered { verdict: Verdict::Error, status, body, .. } => {
                let body = &body[..body.len().min(SHOWN_BYTES_MAX)];
                let failure = format!("{status} {}", String::from_utf8_lossy(body));
                (&mut counts.errors, &mut self.failures, Some(failure))
            }
            RequestResult::TimedOut => {
                let failure = format!("no response within {latency:.1?}");
                (&mut counts.timeouts, &mut self.failures, Some(failure))
            }
            RequestResult::Broken(why) => (&mut counts.broken, &mut self.failures, Some(why)),
            RequestResult::Unsent => {
                let failure = format!("not sent within {latency:.1?}, as no connection was free");
                (&mut counts.unsent, &mut self.failures, Some(failure))
            }
        };
        *counter += 1;
        latencies.saturating_record(nanos);
        if failure.is_some() {
            second.failed += 1;
            self.failure = self.failure.take().or(failure);
        }
    }

    /// Adds the results of another thread of the same stream and run.
    pub(crate) fn add(&mut self, other: Self) {
        self.merge(&other);
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), Second::default());
        }
        for (sum, more) in self.seconds.iter_mut().zip(&other.seconds) {
            sum.ok += more.ok;
            sum.rejected += more.rejected;
            sum.failed += more.failed;
            sum.longest_us = sum.longest_us.max(more.longest_us);
        }
        self.took = self.took.max(other.took);
    }

    /// Adds another run's latencies and counts.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.body_bytes += other.body_bytes;
        self.failure = self.failure.take().or_else(|| other.failure.clone());
        for (sum, more) in [
            (&mut self.latencies, &other.latencies),
            (&mut self.refusals, &other.refusals),
            (&mut self.failures, &other.failures),
        ] {
            // Both have the same bounds.
            let _ = sum.add(more);
        }
    }
}

/// A quantile in milliseconds; 0 if the histogram is empty.
pub(crate) fn ms(latencies: &Histogram<u64>, quantile: f64) -> f64 {
    latencies.value_at_quantile(quantile) as f64 / 1e6
}

fn histogram() -> Histogram<u64> {
    // The bounds are constants and valid.
    Histogram::new_with_bounds(LATENCY_NS.0, LATENCY_NS.1, 3)
        .unwrap_or_else(|_| unreachable_bounds())
}

#[cold]
fn unreachable_bounds() -> Histogram<u64> {
    unreachable!("the bounds of a histogram are constants, and were tested")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(verdict: Verdict) -> RequestResult<'static> {
        RequestResult::Answered { verdict, status: 200, body: b"no", body_bytes: 2 }
    }

    #[test]
    fn every_result_is_counted_and_none_is_lost_from_the_tail() {
        let mut stats = StreamStats::new("x");
        let ms = Duration::from_millis;
        for _ in 0..98 {
            stats.record(ms(1), ms(10), answered(Verdict::Ok));
        }
        stats.record(ms(5_000), ms(1_500), RequestResult::Unsent);
        stats.record(ms(7_000), ms(1_500), RequestResult::TimedOut);
        stats.took = ms(2_000);
        assert_eq!(stats.counts.total(), 100);
        assert!(stats.ms(0.985) > 4_900.0, "{}", stats.ms(0.985));
        assert!(stats.ms(0.5) < 1.1);
        assert_eq!(stats.rate(), 49.0);
        assert_eq!((stats.seconds[0].ok, stats.seconds[1].failed), (98, 2));
        assert_eq!(stats.counts.failures(), "timed out: 1, unsent: 1");
    }

    #[test]
    fn results_of_threads_are_merged() {
        let mut one = StreamStats::new("x");
        let mut two = StreamStats::new("x");
        one.record(Duration::from_millis(1), Duration::ZERO, answered(Verdict::Ok));
        two.record(Duration::from_millis(2), Duration::ZERO, answered(Verdict::Error));
        two.record(Duration::from_millis(2), Duration::ZERO, answered(Verdict::Rejected));
        one.add(two);
        assert_eq!((one.counts.ok, one.counts.errors, one.counts.rejected), (1, 1, 1));
        assert_eq!(one.failure.as_deref(), Some("200 no"));
        assert_eq!(one.seconds[0], Second { ok: 1, rejected: 1, failed: 1, longest_us: 1_000 });
        assert_eq!(one.all_latencies().len(), 3);
    }
}
