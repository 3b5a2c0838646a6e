//! Requests of several kinds, measured round by round, each compared with a constant response of its round.
//!
//! Out: a table, and the ratio of each kind's responses a second to its constant's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::loadgen::{Report, Run, RunLength, Stream};
use anyhow::{Result, bail};
use process_usage::Process;

use super::size::Size;
use crate::median::median;

/// Duration of the warm-up of each kind before the rounds.
const WARM_UP: Duration = Duration::from_millis(50);

/// No run is longer. A response that takes longer counts as lost.
const RUN_MAX: Duration = Duration::from_secs(16);

/// Requests of each kind in a toy run.
const TOY_REQUESTS: usize = 64;

/// A kind of requests.
pub(crate) struct Case {
    pub(crate) address: SocketAddr,
    pub(crate) stream: Stream,
    /// The index of the constant that it is compared with.
    pub(crate) constant: usize,
}

impl Case {
    /// The requests of a toy run. Such a run ends with its last response, however slow the machine is.
    fn toy_stream(&self) -> Stream {
        let requests = self.stream.requests.iter().cycle().take(TOY_REQUESTS).cloned().collect();
        Stream { requests: Arc::new(requests), ..self.stream.clone() }
    }

    /// The result of some requests of its kind. Every response must be right. A run that was over before a response
    /// had come is repeated, twice as long, up to [`RUN_MAX`].
    pub(crate) fn run(
        &self,
        stream: &Stream,
        mut span: RunLength,
        process: Process,
        size: &Size,
    ) -> Result<Run> {
        loop {
            let run = size.run_once(self.address, vec![stream.clone()], span, Some(process))?;
            let counts = run.stats[0].counts;
            let failure = &run.stats[0].failure;
            if counts.failed() == 0 {
                return Ok(run);
            }
            let is_too_short = counts.failed() == counts.timeouts;
            span = match span {
                RunLength::Time { warm_up, measured } if is_too_short && measured < RUN_MAX => {
                    RunLength::Time { warm_up, measured: measured * 2 }
                }
                _ => bail!("{}: {counts:?}, such as {failure:?}", stream.name),
            };
        }
    }
}

/// The measurements, by case.
pub(crate) struct Rounds {
    constants: Vec<usize>,
    runs: Vec<Vec<Run>>,
}

impl Rounds {
    /// Measures `rounds` rounds. Every response must be right.
    pub(crate) fn measure(
        cases: &[Case],
        process: Process,
        size: &Size,
        rounds: usize,
    ) -> Result<Self> {
        let mut measured = Self {
            constants: cases.iter().map(|case| case.constant).collect(),
            runs: vec![Vec::new(); cases.len()],
        };
        if size.is_toy() {
            for (case, runs) in cases.iter().zip(&mut measured.runs) {
                runs.push(case.run(&case.toy_stream(), RunLength::Once, process, size)?);
            }
            return Ok(measured);
        }
        let first =
            RunLength::Time { warm_up: Duration::ZERO, measured: WARM_UP.min(size.measured) };
        for case in cases {
            case.run(&case.stream, first, process, size)?;
        }
        for _ in 0..rounds {
            for (case, runs) in cases.iter().zip(&mut measured.runs) {
                runs.push(case.run(&case.stream, size.run_length(), process, size)?);
            }
        }
        Ok(measured)
    }

    pub(crate) fn print(&self) {
        let mut report = Report::new("rounds", Vec::new());
        for runs in &self.runs {
            report.add(&[], runs);
        }
        print!("{}", report.table());
    }

    /// Responses a second over those of the constant: the median of the rounds.
    pub(crate) fn rate_ratio(&self, case: usize) -> f64 {
        let rate = |run: &Run| run.stats[0].rate();
        let pairs = self.runs[case].iter().zip(&self.runs[self.constants[case]]);
        median(pairs.map(|(run, constant)| rate(run) / rate(constant)).collect())
    }
}
