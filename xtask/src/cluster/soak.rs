//! `cluster soak`: memory, positions and lag over a long run at twice the rate.
//!
//! Input: the processes of the run, which are sampled every [`SAMPLE_INTERVAL`] or, if that takes longer, after each
//! round of comparisons. Output: the mean resident memory of each process in the second and in the last quarter of the
//! run, the last positions in the log, and the largest lag of a replica.
//! Shape: the first quarter is left out, because histories and caches fill. A process that has ended has no samples
//! afterwards.
//! Not here: responses, sums and damages, which any run counts (`report`); the load (`load`).

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cluster::processes::Cluster;
use crate::rig::clock::now;
use crate::rig::metrics_page::MetricsPage;

/// Memory of a replica in the last quarter for each byte in the second one.
pub(crate) const GROWTH_MAX: f64 = 1.05;
/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// The position of a node in the log.
const POSITION: &str = "hydrant_log_position{of=\"sequence\"}";
const MIB: f64 = (1 << 20) as f64;
/// The quarters that are compared, counted from zero.
const SECOND_QUARTER: u32 = 1;
const LAST_QUARTER: u32 = 3;

/// The samples of a run in progress.
pub(crate) struct Soak {
    started: Instant,
    sampled_at: Option<Instant>,
    memory: Vec<MemorySeries>,
    log: LogDistances,
}

/// The resident memory of a process over time.
struct MemorySeries {
    name: String,
    is_replica: bool,
    samples: Vec<MemorySample>,
}

#[derive(Clone, Copy, Debug)]
struct MemorySample {
    /// Time since the start of the run.
    at: Duration,
    bytes: u64,
}

/// The positions of the log, and the largest distances of a replica from its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LogDistances {
    /// The last message that was appended.
    pub(crate) appended: u64,
    /// The last message that all replicas have read.
    pub(crate) read: u64,
    /// The most messages that a replica had not read.
    pub(crate) unread_max: u64,
    pub(crate) lag_slots_max: u64,
    pub(crate) lag_seconds_max: f64,
}

/// The results of a soak.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SoakReport {
    pub(crate) time: Duration,
    pub(crate) memory: Vec<MemoryGrowth>,
    pub(crate) log: LogDistances,
}

/// The resident memory of a process in two quarters of a run. A quarter without a sample has none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MemoryGrowth {
    pub(crate) name: String,
    pub(crate) is_replica: bool,
    /// Number of all samples.
    pub(crate) samples: usize,
    pub(crate) second_mib: Option<f64>,
    pub(crate) last_mib: Option<f64>,
}

impl Soak {
    /// Starts the time of a run.
    pub(crate) fn start() -> Self {
        Self { started: now(), sampled_at: None, memory: Vec::new(), log: LogDistances::default() }
    }

    /// Takes a sample of all processes if the last one is old enough.
    pub(crate) fn sample_if_due(&mut self, cluster: &Cluster) {
        if self.sampled_at.is_some_and(|at| at.elapsed() < SAMPLE_INTERVAL) {
            return;
        }
        self.sampled_at = Some(now());
        for replica in &cluster.replicas {
            self.push(&replica.name, true, replica.resident_bytes());
        }
        for node in cluster.ingesters.iter().chain([&cluster.plain]) {
            self.push(&node.name, false, node.resident_bytes());
        }
        for server in cluster.servers.iter().flat_map(|servers| &servers.servers) {
            self.push(&server.name, false, server.resident_bytes());
        }
        let pages = cluster.replicas.iter().filter_map(|replica| replica.metrics().ok());
        let pages: Vec<MetricsPage> = pages.collect();
        // The ingesters come last, so that no position of a replica is beyond the end of the log.
        let appended =
            cluster.ingesters.iter().filter_map(|node| node.metrics().ok()?.count(POSITION));
        self.log.record(&pages, appended.max());
    }

    /// Ends the time of the run.
    pub(crate) fn finish(self) -> SoakReport {
        let time = self.started.elapsed();
        let memory = self.memory.iter().map(|series| series.growth(time)).collect();
        SoakReport { time, memory, log: self.log }
    }

    fn push(&mut self, name: &str, is_replica: bool, bytes: Result<u64>) {
        // A process that has ended fails the run elsewhere.
        let Ok(bytes) = bytes else { return };
        let sample = MemorySample { at: self.started.elapsed(), bytes };
        if let Some(series) = self.memory.iter_mut().find(|series| series.name == name) {
            series.samples.push(sample);
        } else {
            let name = name.to_owned();
            self.memory.push(MemorySeries { name, is_replica, samples: vec![sample] });
        }
    }
}

impl LogDistances {
    /// Records a sample: the pages of the replicas, and the end of the log. A page that could not be read is left out.
    fn record(&mut self, replicas: &[MetricsPage], appended: Option<u64>) {
        self.appended = appended.unwrap_or(self.appended);
        let read = replicas.iter().filter_map(|page| page.count(POSITION)).min();
        self.read = read.unwrap_or(self.read);
        for page in replicas {
            let count = |sample: &str| page.count(sample).unwrap_or_default();
            self.unread_max = self.unread_max.max(count("hydrant_log_pending"));
            self.lag_slots_max = self.lag_slots_max.max(count("hydrant_log_lag_slots"));
            let seconds = page.value("hydrant_log_lag_seconds").unwrap_or_default();
            self.lag_seconds_max = self.lag_seconds_max.max(seconds);
        }
    }
}

impl MemorySeries {
    fn growth(&self, time: Duration) -> MemoryGrowth {
        MemoryGrowth {
            name: self.name.clone(),
            is_replica: self.is_replica,
            samples: self.samples.len(),
            second_mib: mean_mib(&self.samples, time, SECOND_QUARTER),
            last_mib: mean_mib(&self.samples, time, LAST_QUARTER),
        }
    }
}

impl MemoryGrowth {
    /// Returns the memory in the last quarter for each byte in the second one.
    fn ratio(&self) -> Option<f64> {
        Some(self.last_mib? / self.second_mib?)
    }

    fn row(&self) -> String {
        let number = |value: Option<f64>, decimals: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
        };
        let Self { name, samples, second_mib, last_mib, .. } = self;
        let second = number(*second_mib, 1);
        let last = number(*last_mib, 1);
        format!("| {name} | {samples} | {second} | {last} | {} |", number(self.ratio(), 3))
    }
}

impl SoakReport {
    /// Returns the largest growth of a replica; `None` if a replica lacks the samples of a quarter.
    pub(crate) fn growth_max(&self) -> Option<f64> {
        let replicas = self.memory.iter().filter(|process| process.is_replica);
        let ratios: Option<Vec<f64>> = replicas.map(MemoryGrowth::ratio).collect();
        ratios?.into_iter().reduce(f64::max)
    }

    /// Formats the tables.
    pub(crate) fn tables(&self) -> String {
        let mut text = "\n| process | samples | MiB in the second quarter | MiB in the last quarter | ratio |\n\
                        |---|---|---|---|---|\n"
            .to_owned();
        for process in &self.memory {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{}", process.row());
        }
        let LogDistances { appended, read, unread_max, lag_slots_max, lag_seconds_max } = self.log;
        let minutes = self.minutes();
        let _ = write!(
            text,
            "\n| log and replicas | value |\n|---|---|\n| minutes | {minutes:.1} |\n\
             | position of the last message | {appended} |\n\
             | position that all replicas have read | {read} |\n\
             | most messages that a replica had not read | {unread_max} |\n\
             | largest lag in slots | {lag_slots_max} |\n| largest lag in seconds | {lag_seconds_max:.3} |\n"
        );
        text
    }

    /// Returns an error if the memory of a replica has grown.
    pub(crate) fn check(&self) -> Result<()> {
        let growth = self.growth_max();
        let growth =
            growth.context("a replica has no sample of its memory in a quarter of the run")?;
        ensure!(
            growth <= GROWTH_MAX,
            "a replica's memory has grown {growth:.3} x within half of the run, at most {GROWTH_MAX} x"
        );
        Ok(())
    }

    pub(crate) fn minutes(&self) -> f64 {
        self.time.as_secs_f64() / 60.0
    }
}

/// Returns the mean of the samples in a quarter of the time.
fn mean_mib(samples: &[MemorySample], time: Duration, quarter: u32) -> Option<f64> {
    let of_quarter = samples.iter().filter(|sample| quarter_at(sample.at, time) == quarter);
    let mib: Vec<f64> = of_quarter.map(|sample| sample.bytes as f64 / MIB).collect();
    (!mib.is_empty()).then(|| mib.iter().sum::<f64>() / mib.len() as f64)
}

/// Returns the quarter of the time that `at` is in.
fn quarter_at(at: Duration, time: Duration) -> u32 {
    let quarter = 4.0 * at.as_secs_f64() / time.as_secs_f64();
    (quarter as u32).min(LAST_QUARTER)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn minutes(count: u64) -> Duration {
        Duration::from_secs(60 * count)
    }

    /// A process whose memory is `mib(minute)` in each minute of an hour.
    fn series(name: &str, is_replica: bool, mib: impl Fn(u64) -> u64) -> MemorySeries {
        let samples =
            (0..60).map(|minute| MemorySample { at: minutes(minute), bytes: mib(minute) << 20 });
        MemorySeries { name: name.to_owned(), is_replica, samples: samples.collect() }
    }

    /// An hour in which a replica has grown from 100 MiB in the second quarter to `last_mib` in the last one.
    pub(crate) fn soak(last_mib: f64) -> SoakReport {
        let growth = |name: &str, last_mib: f64| MemoryGrowth {
            name: name.to_owned(),
            is_replica: true,
            samples: 720,
            second_mib: Some(100.0),
            last_mib: Some(last_mib),
        };
        let log = LogDistances { appended: 900, read: 898, ..LogDistances::default() };
        let memory = vec![growth("replica0", 99.0), growth("replica1", last_mib)];
        SoakReport { time: minutes(60), memory, log }
    }

    #[test]
    fn the_last_quarter_is_compared_with_the_second_one() {
        // The first quarter, in which histories fill, and the third one do not count.
        let filling = |minute: u64| match minute {
            0..15 => 10,
            15..30 => 100,
            30..45 => 500,
            _ => 104,
        };
        let growth = series("replica0", true, filling).growth(minutes(60));
        assert_eq!((growth.second_mib, growth.last_mib), (Some(100.0), Some(104.0)));
        assert_eq!(growth.row(), "| replica0 | 60 | 100.0 | 104.0 | 1.040 |");
        let rising = series("replica0", true, |minute| minute).growth(minutes(60));
        assert_eq!((rising.second_mib, rising.last_mib), (Some(22.0), Some(52.0)));
    }

    #[test]
    fn a_sample_at_the_end_is_in_the_last_quarter() {
        assert_eq!(quarter_at(Duration::ZERO, minutes(4)), 0);
        assert_eq!(quarter_at(minutes(1), minutes(4)), 1);
        assert_eq!(quarter_at(minutes(4), minutes(4)), 3);
        assert_eq!(quarter_at(minutes(5), minutes(4)), 3);
    }

    #[test]
    fn only_the_memory_of_replicas_has_a_bar() {
        let report = |replica: u64, server: u64| {
            let level = |minute: u64| 100 + minute / 45 * replica;
            let rising = |minute: u64| 100 + minute * server;
            let memory = [series("replica0", true, level), series("nats0", false, rising)];
            let memory = memory.iter().map(|series| series.growth(minutes(60))).collect();
            SoakReport { time: minutes(60), memory, log: LogDistances::default() }
        };
        assert_eq!(report(5, 100).growth_max(), Some(1.05));
        report(5, 100).check().unwrap();
        let error = report(6, 0).check().unwrap_err().to_string();
        assert!(error.contains("1.060"), "{error}");
    }

    #[test]
    fn a_replica_without_samples_in_a_quarter_fails_the_soak() {
        let mut report = soak(100.0);
        report.check().unwrap();
        report.memory[1].last_mib = None;
        assert_eq!(report.growth_max(), None);
        assert!(report.tables().contains("| replica1 | 720 | 100.0 | - | - |"));
        assert!(report.check().unwrap_err().to_string().contains("no sample"));
        let none = SoakReport { memory: Vec::new(), ..report };
        assert_eq!(none.growth_max(), None);
    }

    #[test]
    fn the_largest_distance_and_the_last_positions_are_reported() {
        let page = |position: u64, pending: u64, slots: u64, seconds: f64| {
            MetricsPage::new(format!(
                "{POSITION} {position}\nhydrant_log_pending {pending}\nhydrant_log_lag_slots {slots}\n\
                 hydrant_log_lag_seconds {seconds}\n"
            ))
        };
        let mut log = LogDistances::default();
        log.record(&[page(100, 0, 0, 0.1), page(40, 60, 7, 0.5)], Some(100));
        log.record(&[page(200, 1, 0, 0.25), page(199, 2, 1, 0.25)], Some(201));
        log.record(&[], None);
        let expected = LogDistances {
            appended: 201,
            read: 199,
            unread_max: 60,
            lag_slots_max: 7,
            lag_seconds_max: 0.5,
        };
        assert_eq!(log, expected);
    }
}
