//! The report of several runs: a row for each stream, medians with their spread, summed counts.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::resource_usage::Sample;
use crate::run::Run;
use crate::stats::{Counts, Second, StreamStats, ms};

/// The quantiles of a row's curve.
const CURVE: [f64; 15] =
    [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 1.0];

/// A report: JSON by `serde`, a table, and HTML by `html_report`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Title.
    pub title: String,
    /// Notes for people: the server, the load, the length.
    pub notes: Vec<String>,
    /// One row for each stream.
    pub rows: Vec<Row>,
}

/// Median, minimum and maximum of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The median; of an even number of runs the lower middle value.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

/// One stream over all runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// Name of the stream.
    pub name: String,
    /// Its arrival process.
    pub arrival: String,
    /// Number of runs.
    pub runs: usize,
    /// Ok responses per second.
    pub rate: Spread,
    /// Requests of all runs.
    pub counts: Counts,
    /// Quantile of the latencies of all due requests, in milliseconds, run by run.
    pub p50_ms: Spread,
    /// 90 % quantile, in milliseconds, run by run.
    pub p90_ms: Spread,
    /// 99 % quantile, in milliseconds, run by run.
    pub p99_ms: Spread,
    /// 99.9 % quantile, in milliseconds, run by run.
    pub p999_ms: Spread,
    /// The longest latency of all runs.
    pub longest_ms: f64,
    /// 99th percentile of the latencies of rejections, in milliseconds, of all runs; 0 if there was
    /// none.
    pub refusal_p99_ms: f64,
    /// Average bytes of a response body.
    pub response_bytes: f64,
    /// Cores that the server used, if its process is known.
    pub cores: Option<Spread>,
    /// Peak of the server's resident memory in bytes.
    pub peak_resident_bytes: Option<u64>,
    /// The first failure: status and first bytes of a response, or the cause.
    pub failure: Option<String>,
    /// Seconds that the last run measured.
    pub took_s: f64,
    /// Pairs of quantile and milliseconds, of all runs.
    pub curve: Vec<(f64, f64)>,
    /// The last run, second by second.
    pub seconds: Vec<Second>,
    /// Samples of the server's process in the last run.
    pub samples: Vec<Sample>,
}

impl Spread {
    /// Computes the spread of values in any order. It is NaN without values.
    pub fn from_values(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Self { median: at(last / 2), min: at(0), max: at(last) }
    }
}

impl Report {
    /// A report without rows.
    pub fn new(title: &str, notes: Vec<String>) -> Self {
        Self { title: title.to_owned(), notes, rows: Vec::new() }
    }

    /// Adds a row for each stream of several runs of one plan.
    pub fn add(&mut self, arrivals: &[String], runs: &[Run]) {
        let streams = runs.first().map_or(0, |run| run.stats.len());
        for stream in 0..streams {
            let stats: Vec<&StreamStats> = runs.iter().map(|run| &run.stats[stream]).collect();
            let mut row = Row::from_runs(&stats);
            row.arrival = arrivals.get(stream).cloned().unwrap_or_default();
            let usages: Vec<_> = runs.iter().filter_map(|run| run.usage.as_ref()).collect();
            if let Some(last) = usages.last() {
                row.cores =
                    Some(Spread::from_values(usages.iter().map(|usage| usage.cores).collect()));
                row.peak_resident_bytes =
                    usages.iter().map(|usage| usage.peak_resident_bytes).max();
                row.samples.clone_from(&last.samples);
            }
            self.rows.push(row);
        }
    }

    /// As JSON, indented.
    pub fn json(&self) -> String {
        // Every field can be serialized; NaN becomes null.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// As a text table. A row with failures is followed by a line of their counts and the first
    /// one.
    pub fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(6);
        let mut table = format!(
            "{:width$} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}  {:>7} {:>8} {:>6}  cores  MB peak\n",
            "stream",
            "ok/s",
            "p50 ms",
            "p90",
            "p99",
            "p99.9",
            "longest",
            "spread",
            "rejected",
            "failed"
        );
        for row in &self.rows {
            let spread = match (row.rate.max - row.rate.min) / row.rate.median * 100.0 {
                spread if spread.is_finite() => format!("{spread:.1}%"),
                // No run had an ok response.
                _ => "-".to_owned(),
            };
            let rejected = row.counts.rejected;
            let failed = row.counts.failed() - rejected;
            let (cores, mb) = match (row.cores, row.peak_resident_bytes) {
                (Some(cores), Some(peak)) => {
                    (format!("{:.2}", cores.median), format!("{:.0}", peak as f64 / 1e6))
                }
                _ => ("-".to_owned(), "-".to_owned()),
            };
            table.push_str(&format!(
                "{:width$} {:>10.1} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {spread:>7} {rejected:>8} {failed:>6}  {cores:>5}  {mb:>7}\n",
                row.name,
                row.rate.median,
                row.p50_ms.median,
                row.p90_ms.median,
                row.p99_ms.median,
                row.p999_ms.median,
                row.longest_ms,
            ));
            if let Some(failures) = row.failures() {
                table.push_str(&format!("{:width$} {failures}\n", ""));
            }
        }
        table
    }
}

impl Row {
    /// Counts of failed requests without rejections, and the first failure on the same line; `None`
    /// if there was no failure.
    pub fn failures(&self) -> Option<String> {
        let kinds = self.counts.failures();
        let example = self.failure.as_ref().map(|failure| {
            // Text of the server must not move the cursor.
            let failure: String =
                failure.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
            format!("; first: {}", failure.trim())
        });
        (!kinds.is_empty()).then(|| format!("{kinds}{}", example.unwrap_or_default()))
    }

    /// Computes a row from the same stream in several runs.
    pub fn from_runs(stats: &[&StreamStats]) -> Self {
        let mut all = StreamStats::new("");
        for run in stats {
            all.merge(run);
        }
        let latencies: Vec<Histogram<u64>> = stats.iter().map(|run| run.all_latencies()).collect();
        let quantile = |quantile: f64| {
            Spread::from_values(latencies.iter().map(|latencies| ms(latencies, quantile)).collect())
        };
        let merged = all.all_latencies();
        let last = stats.last();
        Self {
            name: last.map(|last| last.name.clone()).unwrap_or_default(),
            arrival: String::new(),
            runs: stats.len(),
            rate: Spread::from_values(stats.iter().map(|run| run.rate()).collect()),
            counts: all.counts,
            p50_ms: quantile(0.5),
            p90_ms: quantile(0.9),
            p99_ms: quantile(0.99),
            p999_ms: quantile(0.999),
            longest_ms: ms(&merged, 1.0),
            refusal_p99_ms: ms(&all.refusals, 0.99),
            response_bytes: all.body_bytes as f64 / all.counts.ok.max(1) as f64,
            cores: None,
            peak_resident_bytes: None,
            failure: all.failure.clone(),
            took_s: last.map_or(0.0, |last| last.took.as_secs_f64()),
            curve: CURVE.map(|quantile| (quantile, ms(&merged, quantile))).to_vec(),
            seconds: last.map(|last| last.seconds.clone()).unwrap_or_default(),
            samples: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::classify::Verdict;
    use crate::resource_usage::ResourceUsage;
    use crate::stats::RequestResult;

    fn run(responses: u64, latency_ms: u64) -> Run {
        let mut stats = StreamStats::new("slot <&>");
        for _ in 0..responses {
            let result = RequestResult::Answered {
                verdict: Verdict::Ok,
                status: 200,
                body: b"",
                body_bytes: 9,
            };
            stats.record(Duration::from_millis(latency_ms), Duration::ZERO, result);
        }
        stats.took = Duration::from_secs(1);
        Run { stats: vec![stats], usage: None }
    }

    fn report() -> Report {
        let mut report = Report::new("a title", vec!["a note".to_owned()]);
        report.add(&["closed, 2".to_owned()], &[run(10, 4), run(30, 2), run(20, 3)]);
        report
    }

    #[test]
    fn a_row_has_the_median_and_the_spread_of_its_runs() {
        let report = report();
        let row = &report.rows[0];
        assert_eq!(row.rate, Spread { median: 20.0, min: 10.0, max: 30.0 });
        assert_eq!((row.counts.ok, row.runs, row.response_bytes), (60, 3, 9.0));
        assert!((row.p99_ms.median - 3.0).abs() < 0.01 && (row.longest_ms - 4.0).abs() < 0.01);
        assert!(report.table().contains("slot <&>"));
    }

    #[test]
    fn failures_are_listed_under_their_row_with_an_example() {
        let mut stats = StreamStats::new("height");
        let second = Duration::from_secs(1);
        let body = b"no\x1b[2J\nsuch <thing>";
        let result =
            RequestResult::Answered { verdict: Verdict::Error, status: 500, body, body_bytes: 9 };
        stats.record(second, Duration::ZERO, result);
        stats.record(second, Duration::ZERO, RequestResult::TimedOut);
        stats.record(second, Duration::ZERO, RequestResult::Unsent);
        stats.took = second;
        let mut report = Report::new("", Vec::new());
        let usage = ResourceUsage {
            cores: 0.5,
            peak_resident_bytes: 7_000_000,
            ..ResourceUsage::default()
        };
        report.add(&[], &[Run { stats: vec![stats], usage: Some(usage) }]);
        let text = "errors: 1, timed out: 1, unsent: 1; first: 500 no [2J such ";
        let table = report.table();
        assert!(table.ends_with(&format!(" {text}<thing>\n")), "{table}");
        // Without ok responses there is no spread.
        assert!(table.contains(" - ") && !table.contains("NaN"), "{table}");
    }

    #[test]
    fn json_is_valid() {
        let report = report();
        let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
        assert_eq!(json["rows"][0]["rate"]["median"], 20.0);
    }
}
