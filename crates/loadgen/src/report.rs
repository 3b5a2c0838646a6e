//! What several runs come to: a row for each stream, medians with their spread, counts that are summed.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::process::Sample;
use crate::run::Run;
use crate::stats::{Counts, Second, StreamStats, ms};

/// The quantiles at which a row's curve is drawn.
const CURVE: [f64; 15] =
    [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 1.0];

/// A report: JSON by `serde`, HTML by [`Report::html`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// What was measured.
    pub title: String,
    /// Where, how, for how long: lines for people.
    pub notes: Vec<String>,
    /// A stream each.
    pub rows: Vec<Row>,
}

/// The middle of several runs, the least and the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The lower of two middle ones.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

/// One stream over all runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// Of the stream.
    pub name: String,
    /// How it was offered.
    pub arrival: String,
    /// How many.
    pub runs: usize,
    /// Right answers a second.
    pub rate: Spread,
    /// Requests of all runs.
    pub counts: Counts,
    /// Milliseconds of all that were due, run by run.
    pub p50_ms: Spread,
    /// The same.
    pub p90_ms: Spread,
    /// The same.
    pub p99_ms: Spread,
    /// The same.
    pub p999_ms: Spread,
    /// The longest of all runs.
    pub longest_ms: f64,
    /// Milliseconds until a refusal, 99 of 100, of all runs; 0 if there was none.
    pub refusal_p99_ms: f64,
    /// Bytes of an answer on average.
    pub response_bytes: f64,
    /// Cores that the server used, if its process is known.
    pub cores: Option<Spread>,
    /// Bytes of its memory at most.
    pub peak_resident_bytes: Option<u64>,
    /// What the first failure was: a wrong answer's status and beginning, or what else happened.
    pub failure: Option<String>,
    /// Seconds that the last run measured.
    pub took_s: f64,
    /// Quantile and milliseconds, of all runs.
    pub curve: Vec<(f64, f64)>,
    /// The last run, second by second.
    pub seconds: Vec<Second>,
    /// The last run's looks at the server's process.
    pub samples: Vec<Sample>,
}

impl Spread {
    /// Of values in any order; of none it is NaN.
    pub fn from_values(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Self { median: at(last / 2), min: at(0), max: at(last) }
    }
}

impl Report {
    /// One without rows.
    pub fn new(title: &str, notes: Vec<String>) -> Self {
        Self { title: title.to_owned(), notes, rows: Vec::new() }
    }

    /// Adds a row for each stream of these runs of one plan.
    pub fn add(&mut self, pace: &[String], runs: &[Run]) {
        let streams = runs.first().map_or(0, |run| run.stats.len());
        for stream in 0..streams {
            let outcomes: Vec<&StreamStats> = runs.iter().map(|run| &run.stats[stream]).collect();
            let mut row = Row::from_runs(&outcomes);
            row.arrival = pace.get(stream).cloned().unwrap_or_default();
            let used: Vec<_> = runs.iter().filter_map(|run| run.usage.as_ref()).collect();
            if let Some(last) = used.last() {
                row.cores = Some(Spread::from_values(used.iter().map(|used| used.cores).collect()));
                row.peak_resident_bytes = used.iter().map(|used| used.peak_resident_bytes).max();
                row.samples.clone_from(&last.samples);
            }
            self.rows.push(row);
        }
    }

    /// As JSON, indented.
    pub fn json(&self) -> String {
        // Every part of it is JSON; what is not a number becomes null.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// As one HTML page that needs nothing else.
    pub fn html(&self) -> String {
        crate::html_report::page(self)
    }

    /// As a table for people; under a row that failed, how, and an example.
    pub fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(6);
        let mut table = format!(
            "{:width$} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}  {:>7} {:>8} {:>6}  cores  MB most\n",
            "stream",
            "right/s",
            "p50 ms",
            "p90",
            "p99",
            "p99.9",
            "longest",
            "spread",
            "refused",
            "failed"
        );
        for row in &self.rows {
            let spread = match (row.rate.max - row.rate.min) / row.rate.median * 100.0 {
                spread if spread.is_finite() => format!("{spread:.1}%"),
                // Of nothing.
                _ => "-".to_owned(),
            };
            let rejected = row.counts.rejected;
            let failed = row.counts.failed() - rejected;
            let (cores, mb) = match (row.cores, row.peak_resident_bytes) {
                (Some(cores), Some(most)) => {
                    (format!("{:.2}", cores.median), format!("{:.0}", most as f64 / 1e6))
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
    /// How requests failed but for refusals, with an example on the same line; `None` if none did.
    pub fn failures(&self) -> Option<String> {
        let kinds = self.counts.failures();
        let example = self.failure.as_ref().map(|failure| {
            // Whatever a server says, it moves no cursor.
            let failure: String =
                failure.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
            format!("; such as: {}", failure.trim())
        });
        (!kinds.is_empty()).then(|| format!("{kinds}{}", example.unwrap_or_default()))
    }

    /// Of the same stream, run by run.
    pub fn from_runs(outcomes: &[&StreamStats]) -> Self {
        let mut all = StreamStats::new("");
        for outcome in outcomes {
            all.merge(outcome);
        }
        let latencies: Vec<Histogram<u64>> =
            outcomes.iter().map(|outcome| outcome.all_latencies()).collect();
        let quantile = |quantile: f64| {
            Spread::from_values(latencies.iter().map(|latencies| ms(latencies, quantile)).collect())
        };
        let merged = all.all_latencies();
        let last = outcomes.last();
        Self {
            name: last.map(|last| last.name.clone()).unwrap_or_default(),
            arrival: String::new(),
            runs: outcomes.len(),
            rate: Spread::from_values(outcomes.iter().map(|outcome| outcome.rate()).collect()),
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
    use crate::process::ResourceUsage;
    use crate::stats::RequestResult;

    fn run(answers: u64, latency_ms: u64) -> Run {
        let mut outcome = StreamStats::new("slot <&>");
        for _ in 0..answers {
            let fate = RequestResult::Answered {
                verdict: Verdict::Ok,
                status: 200,
                body: b"",
                body_bytes: 9,
            };
            outcome.record(Duration::from_millis(latency_ms), Duration::ZERO, fate);
        }
        outcome.took = Duration::from_secs(1);
        Run { stats: vec![outcome], usage: None }
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
        let mut outcome = StreamStats::new("getSlot");
        let (second, body) = (Duration::from_secs(1), b"no\x1b[2J\nsuch <thing>");
        let fate =
            RequestResult::Answered { verdict: Verdict::Error, status: 500, body, body_bytes: 9 };
        outcome.record(second, Duration::ZERO, fate);
        outcome.record(second, Duration::ZERO, RequestResult::TimedOut);
        outcome.record(second, Duration::ZERO, RequestResult::Unsent);
        outcome.took = second;
        let mut report = Report::new("", Vec::new());
        let used = ResourceUsage {
            cores: 0.5,
            peak_resident_bytes: 7_000_000,
            ..ResourceUsage::default()
        };
        report.add(&[], &[Run { stats: vec![outcome], usage: Some(used) }]);
        let told = "1 wrong, 1 timed out, 1 unserved; such as: 500 no [2J such ";
        let table = report.table();
        assert!(table.ends_with(&format!(" {told}<thing>\n")), "{table}");
        // Nothing was right: the spread of nothing is none.
        assert!(table.contains(" - ") && !table.contains("NaN"), "{table}");
        let page = report.html();
        assert!(page.contains(&format!("{told}&lt;thing&gt;")), "{page}");
        assert!(page.contains("<td>7.0</td>"), "its memory: {page}");
        assert!(!page.contains("NaN"), "{page}");
    }

    #[test]
    fn json_is_json_and_the_page_stands_alone() {
        let report = report();
        let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
        assert_eq!(json["rows"][0]["rate"]["median"], 20.0);
        let page = report.html();
        assert!(page.contains("slot &lt;&amp;&gt;") && page.contains("<svg"), "{page}");
        for outside in ["<script", "http://", "https://", "<link", "<img", "NaN"] {
            let inside = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!inside.contains(outside), "{outside} in {inside}");
        }
    }
}
