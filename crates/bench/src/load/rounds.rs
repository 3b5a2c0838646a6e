//! Requests of several kinds measured in turn, round by round, each beside a constant answer of its round.
//!
//! Out: a table, and two ratios of each to its constant: of answers a second, for bars and people; and of
//! answers for a second of the server's CPU time, for the quick profile. What else the machine does takes
//! from the first, and hardly from the second.

use std::net::SocketAddr;
use std::time::Duration;

use ::load::{Process, Report, Run, Span, Stream};
use anyhow::{Result, ensure};

use super::Size;
use super::recorded::Ratio;
use crate::median;

/// Before the rounds each kind is asked for so long, so that no round is the first.
const FIRST: Duration = Duration::from_millis(50);

/// A kind of requests.
pub(crate) struct Case {
    pub(crate) address: SocketAddr,
    pub(crate) stream: Stream,
    /// The constant that it is compared with, by place.
    pub(crate) constant: usize,
}

/// What was measured, by case.
pub(crate) struct Rounds {
    names: Vec<String>,
    constants: Vec<usize>,
    runs: Vec<Vec<Run>>,
    /// CPU time of the server.
    cpu: Vec<Vec<Duration>>,
}

impl Rounds {
    /// Measures so many rounds. Every answer must be right.
    pub(crate) fn measure(
        cases: &[Case],
        process: Process,
        size: &Size,
        rounds: usize,
    ) -> Result<Self> {
        let mut measured = Self {
            names: cases.iter().map(|case| case.stream.name.clone()).collect(),
            constants: cases.iter().map(|case| case.constant).collect(),
            runs: vec![Vec::new(); cases.len()],
            cpu: vec![Vec::new(); cases.len()],
        };
        for round in 0..=rounds {
            for (nth, case) in cases.iter().enumerate() {
                let span = match round {
                    0 => Span::Time { warm_up: Duration::ZERO, measured: FIRST.min(size.measured) },
                    _ => size.span(),
                };
                let cpu_before = process.cpu_time_of_threads()?;
                let run =
                    size.once(case.address, vec![case.stream.clone()], span, Some(process))?;
                let cpu = process.cpu_time_of_threads()?.saturating_sub(cpu_before);
                let (counts, failure) = (run.outcomes[0].counts, &run.outcomes[0].failure);
                let name = &case.stream.name;
                ensure!(counts.failed() == 0, "{name}: {counts:?}, such as {failure:?}");
                if round > 0 {
                    measured.runs[nth].push(run);
                    measured.cpu[nth].push(cpu);
                }
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

    /// Answers a second over those of the constant, the median of the rounds.
    pub(crate) fn of_rate(&self, case: usize) -> f64 {
        let rate = |run: &Run| run.outcomes[0].rate();
        let pairs = self.runs[case].iter().zip(&self.runs[self.constants[case]]);
        median(pairs.map(|(run, constant)| rate(run) / rate(constant)).collect())
    }

    /// Answers for a second of CPU time over those of the constant, round by round.
    fn of_cpu(&self, case: usize) -> Vec<f64> {
        let each = |case: usize| {
            let answers = self.runs[case].iter().map(|run| run.outcomes[0].counts.right as f64);
            answers.zip(&self.cpu[case]).map(|(answers, cpu)| answers / cpu.as_secs_f64())
        };
        each(case).zip(each(self.constants[case])).map(|(of, constant)| of / constant).collect()
    }

    /// Of all but the constants.
    pub(crate) fn ratios(&self, prefix: &str) -> Vec<Ratio> {
        let cases = self.names.iter().enumerate();
        let cases = cases.filter(|(nth, _)| *nth != self.constants[*nth]);
        cases
            .map(|(nth, name)| Ratio {
                name: format!("{prefix}{}", name.replace(' ', "_")),
                rounds: self.of_cpu(nth),
            })
            .collect()
    }
}
