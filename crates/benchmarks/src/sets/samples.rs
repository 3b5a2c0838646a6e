//! The memory of the node: its resident size, sampled from outside, its parts, and the statistics of its allocator.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use process_usage::Process;
use testkit::scenario::{ScrapedMetrics, Task, task};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::report::Progress;

/// Samples of resident memory for each sample of the parts, which the node computes.
const PARTS_INTERVAL: usize = 10;

/// The memory of the node at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// Seconds since the first transaction.
    pub(super) second: f64,
    pub(super) resident: u64,
    /// Resident memory without that of files.
    pub(super) anonymous: u64,
    /// CPU seconds of the node so far.
    pub(super) cpu: f64,
    /// The bytes in use by part, as the node counts them; of some samples.
    pub(super) parts: Vec<(String, f64)>,
}

/// Samples of a node. A clone shares them.
#[derive(Clone, Default)]
pub(super) struct Samples(Arc<Mutex<Vec<Sample>>>);

impl Samples {
    /// Samples until the scenario is over, and reports the progress.
    pub(super) fn record(
        &self,
        node: Process,
        rpc: SocketAddr,
        every: Duration,
        progress: &Arc<Mutex<Progress>>,
    ) -> Task {
        let samples = self.clone();
        let progress = Arc::clone(progress);
        task(async move |mut stop| {
            let start = Instant::now();
            let mut due = interval_at(start, every);
            due.set_missed_tick_behavior(MissedTickBehavior::Skip);
            let mut count = 0;
            loop {
                tokio::select! {
                    () = stop.stopped() => return Ok(()),
                    _ = due.tick() => {}
                }
                let mut sample = Sample {
                    second: start.elapsed().as_secs_f64(),
                    resident: node.resident_bytes()?,
                    anonymous: node.anonymous_bytes()?,
                    cpu: node.cpu_time()?.as_secs_f64(),
                    parts: Vec::new(),
                };
                if count % PARTS_INTERVAL == 0 {
                    sample.parts = ScrapedMetrics::scrape(rpc).await?.memory_parts()?;
                }
                count += 1;
                samples.0.lock().push(sample);
                progress.lock().add(every.as_secs_f64());
            }
        })
    }

    /// Removes and returns the samples.
    pub(super) fn take_samples(&self) -> Vec<Sample> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The mean of a value over a part of the time.
pub(super) fn mean_between(
    samples: &[Sample],
    seconds: Range<f64>,
    value: impl Fn(&Sample) -> Option<f64>,
) -> Option<f64> {
    let counted = samples.iter().filter(|sample| seconds.contains(&sample.second));
    let values: Vec<f64> = counted.filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The mean bytes of each part over a part of the time.
pub(super) fn mean_parts(samples: &[Sample], seconds: Range<f64>) -> BTreeMap<String, f64> {
    let names: Vec<&str> =
        samples.iter().flat_map(|sample| &sample.parts).map(|(name, _)| name.as_str()).collect();
    let mean = |name: &str| {
        mean_between(samples, seconds.clone(), |sample| {
            let part = sample.parts.iter().find(|(part, _)| part == name);
            part.map(|(_, bytes)| *bytes)
        })
    };
    names.into_iter().filter_map(|name| Some((name.to_owned(), mean(name)?))).collect()
}

/// Reads mimalloc's statistics of a process that has ended, as `MIMALLOC_SHOW_STATS` prints them.
pub(super) fn parse_allocator_stats(log: &str) -> Result<Vec<(String, f64)>> {
    let stats = [
        ("reserved:", 0, "reserved_peak"),
        ("committed:", 0, "committed_peak"),
        ("committed:", 1, "committed_in_total"),
        ("purged:", 0, "purged_in_total"),
    ];
    let parse_stat = |(line, column, name): (&str, usize, &str)| {
        let text = log.lines().find_map(|text| text.trim_start().strip_prefix(line));
        let text = text.with_context(|| format!("mimalloc printed no `{line}`"))?;
        let mut words = text.split_whitespace().skip(2 * column);
        let number: f64 = words.next().context("no number")?.parse()?;
        let unit = match words.next() {
            Some("KiB") => 1 << 10,
            Some("MiB") => 1 << 20,
            Some("GiB") => 1 << 30,
            _ => 1,
        };
        Ok((name.to_owned(), number * f64::from(unit)))
    };
    stats.into_iter().map(parse_stat).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocator_s_output_is_read() -> Result<()> {
        let log = "INFO ready\nheap stats:     peak       total     current       block      total#   \n  \
                   reserved:     1.0 GiB     1.0 GiB     1.0 GiB                          not all freed\n \
                   committed:   812.4 MiB     2.5 GiB   790.0 MiB                          \n     \
                   reset:     0          \n    purged:   512.0 KiB \n";
        let expected = [
            ("reserved_peak", f64::from(1 << 30)),
            ("committed_peak", 812.4 * f64::from(1 << 20)),
            ("committed_in_total", 2.5 * f64::from(1 << 30)),
            ("purged_in_total", f64::from(1 << 19)),
        ];
        let expected = expected.map(|(name, bytes)| (name.to_owned(), bytes));
        assert_eq!(parse_allocator_stats(log)?, expected);
        assert!(parse_allocator_stats("no stats").is_err());
        Ok(())
    }

    #[test]
    fn only_samples_of_the_counted_time_have_a_part_in_means() {
        let sample = |second: f64, parts: &[(&str, f64)]| Sample {
            second,
            resident: second as u64 * 10,
            parts: parts.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect(),
            ..Sample::default()
        };
        let samples = [
            sample(0.0, &[("a", 1.0)]),
            sample(1.0, &[("a", 3.0)]),
            sample(2.0, &[]),
            sample(3.0, &[("a", 5.0)]),
        ];
        let resident = |sample: &Sample| Some(sample.resident as f64);
        assert_eq!(mean_between(&samples, 1.0..3.0, resident), Some(15.0));
        assert_eq!(mean_between(&samples, 8.0..9.0, resident), None);
        assert_eq!(mean_parts(&samples, 1.0..4.0), BTreeMap::from([("a".to_owned(), 4.0)]));
    }
}
