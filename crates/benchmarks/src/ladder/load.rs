//! One measurement of one kind of requests: rate, latency, CPU time of the server and bytes of a response.

use std::time::Duration;

use anyhow::{Result, ensure};
use loadgen::{Classifier, LoadPlan, Run, RunLength, Stream};

use super::measurement::Size;
use crate::node::Target;

/// A response that takes longer counts as a timeout.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Connections for short responses, and for those of more than [`LARGE_BYTES`].
pub(super) const CONNECTIONS: usize = 32;
const CONNECTIONS_LARGE: usize = 8;
const LARGE_BYTES: usize = 100_000;

/// Requests of a toy measurement, which ends with its last response, however slow the machine is.
const TOY_REQUESTS: usize = 64;

/// The columns of a [`Sample`].
pub(super) const SAMPLE_COLUMNS: [&str; 5] = ["rate", "p50_ms", "p99_ms", "cpu_us", "bytes"];

/// The result of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Ok responses a second.
    pub(super) rate: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// CPU time of the server for a response, in microseconds.
    pub(super) cpu_us: f64,
    /// Bytes of the body of a response.
    pub(super) bytes: f64,
}

/// Returns the number of connections for responses of about this length.
pub(super) fn connections(bytes: usize) -> usize {
    if bytes > LARGE_BYTES { CONNECTIONS_LARGE } else { CONNECTIONS }
}

/// Offers requests in a closed loop. Every response must be right.
pub(super) fn offer(
    target: Target,
    requests: &[Vec<u8>],
    connections: usize,
    classifier: Classifier,
    size: &Size,
) -> Result<Sample> {
    let toy = requests.iter().cycle().take(TOY_REQUESTS);
    let requests = if size.is_toy { toy.cloned().collect() } else { requests.to_vec() };
    let stream = Stream::closed_loop("", requests, connections);
    let run_length = if size.is_toy {
        RunLength::Once
    } else {
        RunLength::Time { warm_up: size.warm_up, measured: size.measured }
    };
    // Samples of a process take a tenth of a second, which a toy does not have for each row.
    let process = (!size.is_toy).then_some(target.process);
    let stream = Stream { classifier, ..stream };
    let run = LoadPlan { process, ..plan(target, stream, run_length) }.run()?;
    let counts = run.stats[0].counts;
    let failure = &run.stats[0].failure;
    ensure!(counts.failed() == 0 && counts.ok > 0, "{counts:?}, such as {failure:?}");
    Ok(Sample::new(&run))
}

/// Runs a stream, right or wrong.
pub(super) fn run(target: Target, stream: Stream, run_length: RunLength) -> Result<Run> {
    Ok(plan(target, stream, run_length).run()?)
}

fn plan(target: Target, stream: Stream, run_length: RunLength) -> LoadPlan {
    LoadPlan {
        process: Some(target.process),
        timeout: Some(TIMEOUT),
        ..LoadPlan::new(target.address.into(), stream, run_length)
    }
}

impl Sample {
    pub(super) fn new(run: &Run) -> Self {
        let stats = &run.stats[0];
        let ok = stats.counts.ok.max(1) as f64;
        Self {
            rate: stats.rate(),
            p50_ms: stats.ms(0.5),
            p99_ms: stats.ms(0.99),
            cpu_us: run.usage.as_ref().map_or(0.0, |usage| usage.cpu_s) * 1e6 / ok,
            bytes: stats.body_bytes as f64 / ok,
        }
    }

    /// Returns the cells of [`SAMPLE_COLUMNS`].
    pub(super) fn cells(&self) -> [String; 5] {
        let Self { rate, p50_ms, p99_ms, cpu_us, bytes } = self;
        [
            format!("{rate:.1}"),
            format!("{p50_ms:.4}"),
            format!("{p99_ms:.4}"),
            format!("{cpu_us:.3}"),
            format!("{bytes:.0}"),
        ]
    }

    /// Reads the cells of [`SAMPLE_COLUMNS`], which `number` returns by their position.
    pub(super) fn read(number: impl Fn(usize) -> Option<f64>) -> Option<Self> {
        Some(Self {
            rate: number(0)?,
            p50_ms: number(1)?,
            p99_ms: number(2)?,
            cpu_us: number(3)?,
            bytes: number(4)?,
        })
    }
}

/// Returns requests of the same verb and body for the server of constant responses of `bytes` bytes.
pub(super) fn constant_requests(requests: &[Vec<u8>], bytes: usize) -> Vec<Vec<u8>> {
    let to_constant = |request: &Vec<u8>| {
        let path = request.iter().position(|byte| *byte == b' ').map_or(0, |space| space + 1);
        let segment = format!("/{bytes}");
        [&request[..path], segment.as_bytes(), &request[path..]].concat()
    };
    requests.iter().map(to_constant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_request_has_the_verb_the_length_and_the_body() {
        let request = b"POST /v1/accounts HTTP/1.1\r\nHost: x\r\n\r\n{}".to_vec();
        let constant = constant_requests(&[request], 450);
        assert_eq!(constant, [b"POST /450/v1/accounts HTTP/1.1\r\nHost: x\r\n\r\n{}".to_vec()]);
    }
}
