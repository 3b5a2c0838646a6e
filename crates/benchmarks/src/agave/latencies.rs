//! The latencies of one stream of requests: measured, as cells of a CSV, and as cells of a table.

use std::time::Duration;

use ::loadgen::{LoadPlan, Run, RunLength, Stream, StreamStats};
use anyhow::Result;

use super::measurement::Measurement;
use crate::median::median;
use crate::node::Target;
use crate::report::Rows;

/// A response that takes longer counts as a timeout.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Share of failed requests from which a table shows it.
const SHOWN_FAILED_MIN: f64 = 0.001;

/// The columns of a CSV that [`Latencies::cells`] fills.
pub(super) const COLUMNS: [&str; 7] =
    ["ok", "failed", "seconds", "mean_ms", "p50_ms", "p90_ms", "p99_ms"];

/// The results of one stream in one run. The latencies are those of all due requests, failed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Latencies {
    pub(super) ok: f64,
    pub(super) failed: f64,
    pub(super) seconds: f64,
    pub(super) mean_ms: f64,
    pub(super) p50_ms: f64,
    pub(super) p90_ms: f64,
    pub(super) p99_ms: f64,
}

/// Opens a CSV whose rows have the cells of several streams behind the key, and the CPU time of the node. `streams`:
/// prefixes of the columns.
pub(super) fn rows(
    run: &Measurement<'_>,
    file: &str,
    key: &[&str],
    streams: &[&str],
) -> Result<Rows> {
    let of_streams = streams.iter().flat_map(|stream| COLUMNS.map(|it| format!("{stream}{it}")));
    let of_streams: Vec<String> = of_streams.collect();
    let mut columns = key.to_vec();
    columns.extend(of_streams.iter().map(String::as_str));
    columns.push("cpu_s");
    run.report.rows(file, key.len(), &columns)
}

/// Runs streams against a node. Returns the cells of [`rows`] behind the key.
pub(super) fn measure(
    target: Target,
    streams: Vec<Stream>,
    warm_up: Duration,
    measured: Duration,
) -> Result<Vec<String>> {
    let measured = run(target, streams, warm_up, measured)?;
    let each = measured.stats.iter().flat_map(|stats| Latencies::from_stats(stats).cells());
    let cpu = measured.usage.map_or(0.0, |usage| usage.cpu_s);
    Ok(each.chain([format!("{cpu:.3}")]).collect())
}

/// Runs streams against a node.
pub(super) fn run(
    target: Target,
    streams: Vec<Stream>,
    warm_up: Duration,
    measured: Duration,
) -> Result<Run> {
    let run_length = RunLength::Time { warm_up, measured };
    let process = Some(target.process);
    let endpoint = target.address.into();
    let timeout = Some(TIMEOUT);
    Ok(LoadPlan { endpoint, streams, run_length, timeout, process }.run()?)
}

impl Latencies {
    pub(super) fn from_stats(stats: &StreamStats) -> Self {
        Self {
            ok: stats.counts.ok as f64,
            failed: stats.counts.failed() as f64,
            seconds: stats.took.as_secs_f64(),
            mean_ms: stats.all_latencies().mean() / 1e6,
            p50_ms: stats.ms(0.5),
            p90_ms: stats.ms(0.9),
            p99_ms: stats.ms(0.99),
        }
    }

    /// Formats the cells of [`COLUMNS`].
    pub(super) fn cells(&self) -> Vec<String> {
        let Self { ok, failed, seconds, mean_ms, p50_ms, p90_ms, p99_ms } = *self;
        let mut cells = vec![ok.to_string(), failed.to_string()];
        let rounded = [seconds, mean_ms, p50_ms, p90_ms, p99_ms];
        cells.extend(rounded.map(|value| format!("{value:.4}")));
        cells
    }

    /// Reads the cells of [`COLUMNS`] from a row. `first` is the number of cells between them and the key.
    pub(super) fn from_row(rows: &Rows, key: &[String], first: usize) -> Option<Self> {
        let number = |at: usize| rows.number(key, first + at);
        Some(Self {
            ok: number(0)?,
            failed: number(1)?,
            seconds: number(2)?,
            mean_ms: number(3)?,
            p50_ms: number(4)?,
            p90_ms: number(5)?,
            p99_ms: number(6)?,
        })
    }

    /// Returns the medians of all rounds; `None` without a round.
    pub(super) fn medians(rounds: &[Self]) -> Option<Self> {
        let of = |value: fn(&Self) -> f64| median(rounds.iter().map(value).collect());
        (!rounds.is_empty()).then(|| Self {
            ok: of(|it| it.ok),
            failed: of(|it| it.failed),
            seconds: of(|it| it.seconds),
            mean_ms: of(|it| it.mean_ms),
            p50_ms: of(|it| it.p50_ms),
            p90_ms: of(|it| it.p90_ms),
            p99_ms: of(|it| it.p99_ms),
        })
    }

    /// Responses a second.
    pub(super) fn rate(&self) -> f64 {
        self.ok / self.seconds
    }

    /// Share of the due requests that had a correct response.
    pub(super) fn served_share(&self) -> f64 {
        self.ok / (self.ok + self.failed)
    }

    /// Formats average, median, p90 and p99 as cells of a table in Markdown.
    pub(super) fn row(&self) -> String {
        if self.ok == 0.0 {
            return "no response | - | - | -".to_owned();
        }
        let failed = 1.0 - self.served_share();
        let mark = if failed >= SHOWN_FAILED_MIN {
            format!(" ({:.1} % failed)", failed * 100.0)
        } else {
            String::new()
        };
        let cells = [self.mean_ms, self.p50_ms, self.p90_ms, self.p99_ms].map(format_ms);
        format!("{}{mark} | {} | {} | {}", cells[0], cells[1], cells[2], cells[3])
    }
}

/// Formats milliseconds to three digits or more.
pub(super) fn format_ms(ms: f64) -> String {
    match ms {
        ..10.0 => format!("{ms:.3}"),
        ..100.0 => format!("{ms:.1}"),
        _ => format!("{ms:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    #[test]
    fn cells_are_read_back_behind_other_cells() -> Result<()> {
        let latencies = Latencies {
            ok: 90.0,
            failed: 10.0,
            seconds: 2.0,
            mean_ms: 1.25,
            p50_ms: 1.0,
            p90_ms: 20.5,
            p99_ms: 300.0,
        };
        let columns = [&["name", "other"][..], &COLUMNS].concat();
        let report = Report::open("agave", &[], true)?;
        let mut rows = report.rows("a.csv", 1, &columns)?;
        let key = ["x".to_owned()];
        rows.push(&key, &[vec!["7".to_owned()], latencies.cells()].concat())?;
        assert_eq!(Latencies::from_row(&rows, &key, 1), Some(latencies));
        assert_eq!(Latencies::from_row(&rows, &["y".to_owned()], 1), None);
        assert_eq!(latencies.row(), "1.250 (10.0 % failed) | 1.000 | 20.5 | 300");
        assert_eq!((latencies.rate(), latencies.served_share()), (45.0, 0.9));
        assert_eq!(Latencies::default().row(), "no response | - | - | -");
        let other = Latencies { mean_ms: 0.5, ..latencies };
        let medians = Latencies::medians(&[other, latencies, latencies]);
        assert_eq!(medians, Some(latencies));
        assert_eq!(Latencies::medians(&[]), None);
        Ok(())
    }
}
